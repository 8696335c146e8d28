// A kernel that starts before its predecessor has ended reads nothing that is not there yet: ops in the orders in which
// they hand rows, pages and spans over have the bits that they have one by one, with early starts and without, as
// graphs and kernel by kernel. Kernels that sleep at random (CMake's target `sleeps`) show what rests on luck.

#include <fmt/format.h>

#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/backend_fixture.h"
#include "tests/kernels/paged_batch.h"

namespace paceline::test {
namespace {

struct ChainShape {
  int rows;  // of a pass
  int dim = 64;
  DType pages = DType::bf16;
  int heads = 8, kv_heads = 2;
};

constexpr int kHidden = 256, kWidth = 384, kVocab = 500, kBlockSize = 16;
constexpr int kCached = 150;  // positions in pages before a pass: two whole chunks, that attention may fetch early
constexpr int kRounds = 6;    // of a chain: graphs come with the third

/// A small model's ops on one backend, in chains.
class Chains {
 public:
  using Chain = void (Chains::*)();
  struct Named {
    const char* name;
    Chain chain;
  };
  static const Named kAll[];

  /// synced: each op has ended before the next one is given out.
  Chains(Backend& backend, const ChainShape& shape, bool synced)
      : backend_(backend),
        shape_(shape),
        synced_(synced),
        q_cols_(shape.heads * shape.dim),
        kv_cols_(shape.kv_heads * shape.dim),
        table_(pack(kVocab, kHidden, 1)),
        wqkv_(pack(q_cols_ + 2 * kv_cols_, kHidden, 2)),
        wo_(pack(kHidden, q_cols_, 3)),
        gate_up_(pack(2 * kWidth, kHidden, 4, true)),
        down_(pack(kHidden, kWidth, 5)),
        weight_(backend, random_values(kHidden, 6)),
        inv_freq_(rope_frequencies(shape.dim)),
        batch_({{kCached, 2 * shape.rows}}, kBlockSize, 0),
        pages_(backend, batch_.num_blocks, kBlockSize, shape.kv_heads, shape.dim, shape.dim, shape.pages),
        old_(backend, kCached, kv_cols_),
        residual_(backend, shape.rows, kHidden, 4),
        normed_(backend, shape.rows, kHidden, 4),
        qkv_(backend, shape.rows, q_cols_ + 2 * kv_cols_, 4),
        attended_(backend, shape.rows, q_cols_, 4),
        delta_(backend, shape.rows, kHidden, 4),
        hidden_(backend, shape.rows, kWidth, 4),
        picked_(backend, shape.rows, kHidden, 4),
        logits_(backend, shape.rows, kVocab, 4) {
    const std::vector<uint16_t> zeros(size_t(kAheadRows) * kAheadCols);
    const HostWeight part{zeros.data(), DType::bf16, kAheadRows, kAheadCols, kAheadCols};
    ahead_ = backend.pack({&part, 1}, {});
    cells_ = static_cast<int32_t*>(backend.alloc(size_t(shape.rows) * sizeof(int32_t)));
    for (int r = 0; r < shape.rows; ++r) {
      edited_.push_back({.logits_row = r, .mask = 0});
      drawn_.push_back({.logits_row = r, .params = {.temperature = 0.7f, .top_p = 0.9f}, .origin = 9, .token_cell = r});
      next_token_.push_back(token_in_cell(r));
    }
    ahead_in_ = backend.alloc(size_t{kAheadCols} * sizeof(float));
    ahead_out_ = backend.alloc(size_t{kAheadRows} * sizeof(float));
  }
  ~Chains() {
    backend_.free(cells_);
    backend_.free(ahead_in_);
    backend_.free(ahead_out_);
  }
  Chains(const Chains&) = delete;

  /// What the chain leaves, in each of its rounds, which bring new values, tokens, rows and pages.
  std::vector<std::vector<float>> results(size_t chain) {
    std::vector<std::vector<float>> results;
    for (int round = 0; round < kRounds; ++round) {
      prepare(uint32_t(chain) * 100 + uint32_t(round) * 10);
      backend_.run(chain, [&] { (this->*kAll[chain].chain)(); });
      backend_.await_draws(backend_.num_draws());
      std::vector<float> left = delta_.read();
      left.insert(left.end(), token_.begin(), token_.end());
      for (GuardedRows* const rows : {&residual_, &logits_}) {
        const std::vector<float> more = rows->read();
        left.insert(left.end(), more.begin(), more.end());
      }
      results.push_back(std::move(left));
    }
    return results;
  }

  void layers() {
    op([&] { backend_.embed({.table = table_.get(), .token = token_, .out = residual_.view()}); });
    for (const bool is_first : {true, false}) {
      multiply_normed(is_first);
      attend(0, true);
      project();
      op([&] {
        backend_.norm_gemm(
            norm_args(true),
            {.x = normed_.view(), .w = gate_up_.get(), .y = hidden_.view(), .glu = true, .reader = down_.get()});
      });
      op([&] { backend_.gemm({.x = hidden_.view(), .w = down_.get(), .y = delta_.view()}); });
    }
    op([&] { backend_.norm(norm_args(true)); });
    op([&] { backend_.gather_rows({.from = normed_.view(), .row = row_, .to = picked_.view()}); });
    op([&] {
      backend_.norm_heads({.x = picked_.view(), .num_heads = 4, .head_dim = kHidden / 4, .weight = weight_.data()});
    });
    op([&] { backend_.gemm({.x = picked_.view(), .w = table_.get(), .y = logits_.view()}); });
    op([&] { backend_.softcap({.x = logits_.view(), .cap = 5.0f}); });
    op([&] { backend_.activation({.x = logits_.view(), .activation = Activation::gelu}); });
    op([&] {
      backend_.edit_logits({.logits = logits_.view(),
                            .vocab_size = kVocab,
                            .rows = edited_,
                            .masks = mask_,
                            .words_of_mask = mask_words(kVocab)});
    });
    op([&] {
      backend_.sample({.logits = logits_.view(),
                       .vocab_size = kVocab,
                       .rows = drawn_,
                       .token = token_,
                       .token_cells = cells_,
                       .later = true});
    });
    op([&] {
      backend_.embed({.table = table_.get(), .token = next_token_, .token_cells = cells_, .out = residual_.view()});
    });
  }
  // Pages that were written a moment ago, in each way that they are, with and without the norm behind which attention
  // may count on them.
  void store_and_attend() {
    multiply_normed(true);
    store();
    attend(0, true);
    project();
  }
  void move_and_attend() {
    multiply_normed(true);
    op([&] { backend_.move_kv(pages_.view(), move_); });
    attend(0, true);
    project();
  }
  void attend_twice() {
    multiply_normed(true);
    attend(0, false);
    attend(1, true);
    project();
  }
  void store_norm_and_attend() {
    multiply_normed(true);
    store();
    op([&] { backend_.norm(norm_args(false)); });
    attend(0, true);
    project();
  }
  void store_multiply_and_attend() {
    store();
    multiply_normed(true);
    attend(0, true);
    project();
  }

 private:
  static constexpr int kAheadRows = 8192, kAheadCols = 4096;  // of a weight that takes 20 µs to read

  template <class Op>
  void op(Op&& call) {
    call();
    if (synced_) backend_.sync();
  }
  Weight pack(int rows, int cols, uint32_t seed, bool pairs = false) {
    const StoredMatrix first(rows / 2, cols, DType::bf16, 2 * seed, 0.1f),
        second(rows - rows / 2, cols, DType::bf16, 2 * seed + 1, 0.1f);
    const HostWeight parts[] = {first.host(), second.host()};
    return backend_.pack(parts, {.pair_panels = pairs});
  }
  void upload(const GuardedRows& to, int rows, int cols, uint32_t seed) {
    const std::vector<float> values = random_values(size_t(rows * cols), seed);
    const int64_t stride = to.view().stride;
    for (int r = 0; r < rows; ++r)
      backend_.upload(to.data() + r * stride, values.data() + r * cols, size_t(cols) * sizeof(float));
  }
  /// Pages hold values that store() replaces; the device gets enough to do for the host to be ahead of it.
  void prepare(uint32_t seed) {
    const auto turned = [&](int32_t slot) {
      return (slot / kBlockSize + 1) % batch_.num_blocks * kBlockSize + slot % kBlockSize;
    };
    for (int32_t& block : batch_.block) block = (block + 1) % batch_.num_blocks;
    for (std::vector<int32_t>* const slots : {&batch_.slot, &batch_.old_slot})
      for (int32_t& slot : *slots) slot = turned(slot);
    move_.clear();
    for (size_t i = 0; i < 64; ++i) move_.push_back({.from = batch_.old_slot[64 + i], .to = batch_.old_slot[i]});
    std::mt19937 random(seed);
    mask_.clear(), token_.clear(), row_.clear();
    for (int32_t word = 0; word < mask_words(kVocab); ++word) mask_.push_back(uint32_t(random()));
    for (int r = 0; r < shape_.rows; ++r) {
      token_.push_back(int32_t(random() % kVocab));
      row_.push_back(int32_t(random() % unsigned(shape_.rows)));
    }
    upload(residual_, shape_.rows, kHidden, seed + 1);
    upload(delta_, shape_.rows, kHidden, seed + 2);
    upload(logits_, shape_.rows, kVocab, seed + 3);
    upload(old_, kCached, kv_cols_, seed + 4);
    store();
    backend_.sync();
    upload(old_, kCached, kv_cols_, seed + 5);
    for (int i = 0; i < 8; ++i)
      backend_.gemm({.x = f32_view(static_cast<float*>(ahead_in_), 1, kAheadCols),
                     .w = ahead_.get(),
                     .y = f32_view(static_cast<float*>(ahead_out_), 1, kAheadRows)});
  }

  NormArgs norm_args(bool adds) const {
    return {.residual = residual_.view(),
            .delta = adds ? delta_.view() : MatView{},
            .weight = weight_.data(),
            .out = normed_.view()};
  }
  void multiply_normed(bool is_first) {
    op([&] {
      backend_.norm_gemm(norm_args(!is_first),
                         {.x = normed_.view(), .w = wqkv_.get(), .y = qkv_.view(), .attention_follows = true});
    });
  }
  void store() {
    op([&] { backend_.store_kv({.k = old_.view(), .v = old_.view(), .slot = batch_.old_slot, .kv = pages_.view()}); });
  }
  /// The rows of one turn after another at the positions of that turn.
  void attend(int turn, bool is_projected) {
    const size_t rows = size_t(shape_.rows), first = size_t(turn) * rows;
    const std::span<const int32_t> position(batch_.position), slot(batch_.slot), kv_len(batch_.kv_len);
    const SeqSpan seq{.first_row = 0, .num_rows = shape_.rows, .block_begin = 0};
    const MatView qkv = qkv_.view();
    op([&] {
      backend_.rope_attention({.x = qkv.col_range(0, q_cols_ + kv_cols_),
                               .num_heads = shape_.heads + shape_.kv_heads,
                               .head_dim = shape_.dim,
                               .rotary_dim = shape_.dim,
                               .inv_freq = inv_freq_,
                               .position = position.subspan(first, rows)},
                              {.k = qkv.col_range(q_cols_, kv_cols_),
                               .v = qkv.col_range(q_cols_ + kv_cols_, kv_cols_),
                               .slot = slot.subspan(first, rows),
                               .kv = pages_.view()},
                              {.q = qkv.col_range(0, q_cols_),
                               .out = attended_.view(),
                               .num_heads = shape_.heads,
                               .scale = 0.125f,
                               .seqs = std::span(&seq, 1),
                               .kv_len = kv_len.subspan(first, rows),
                               .block = batch_.block,
                               .kv = pages_.view(),
                               .reader = is_projected ? wo_.get() : nullptr});
    });
  }
  void project() {
    op([&] { backend_.gemm({.x = attended_.view(), .w = wo_.get(), .y = delta_.view()}); });
  }

  Backend& backend_;
  const ChainShape shape_;
  const bool synced_;
  const int q_cols_, kv_cols_;
  const Weight table_, wqkv_, wo_, gate_up_, down_;
  const DeviceArray weight_;
  const std::vector<double> inv_freq_;
  PagedBatch batch_;
  std::vector<SlotMove> move_;
  std::vector<int32_t> token_, row_, next_token_;
  std::vector<uint32_t> mask_;
  std::vector<EditRow> edited_;
  std::vector<SampleRow> drawn_;
  int32_t* cells_ = nullptr;
  PagedKv pages_;
  GuardedRows old_, residual_, normed_, qkv_, attended_, delta_, hidden_, picked_, logits_;
  Weight ahead_;
  void *ahead_in_ = nullptr, *ahead_out_ = nullptr;
};

const Chains::Named Chains::kAll[] = {{"layers", &Chains::layers},
                                      {"store and attend", &Chains::store_and_attend},
                                      {"move and attend", &Chains::move_and_attend},
                                      {"attend twice", &Chains::attend_twice},
                                      {"store, norm and attend", &Chains::store_norm_and_attend},
                                      {"store, multiply and attend", &Chains::store_multiply_and_attend}};

TEST(EarlyStarts, ChangeNoBitsOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  using Results = std::vector<std::vector<float>>;
  // with the norm in the product, with attention that takes rows straight from it, and neither; many rows; attention by
  // teams of four, three and two blocks
  const ChainShape shapes[] = {{1},
                               {2},
                               {6},
                               {.rows = 6, .dim = 96},
                               {.rows = 6, .pages = DType::f32},
                               {70},
                               {.rows = 24, .dim = 128, .heads = 32, .kv_heads = 8},
                               {.rows = 32, .heads = 32, .kv_heads = 8},
                               {.rows = 40, .heads = 32, .kv_heads = 8},
                               {.rows = 96, .heads = 32, .kv_heads = 8}};
  for (const ChainShape& shape : shapes) {
    std::vector<Results> want;
    {
      const auto backend = make_backend("cuda:0", {.graphs = false, .early_starts = false});
      Chains chains(*backend, shape, true);
      for (size_t chain = 0; chain < std::size(Chains::kAll); ++chain) want.push_back(chains.results(chain));
    }
    for (const bool graphs : {false, true})
      for (const bool early_starts : {false, true}) {
        const auto backend = make_backend("cuda:0", {.graphs = graphs, .early_starts = early_starts});
        Chains chains(*backend, shape, false);
        for (size_t chain = 0; chain < std::size(Chains::kAll); ++chain) {
          const Results found = chains.results(chain);
          for (size_t round = 0; round < kRounds; ++round)
            ASSERT_TRUE(same_bits(found[round], want[chain][round]))
                << Chains::kAll[chain].name << ", round " << round << ", " << shape.rows << " rows, heads of "
                << shape.dim << ", pages " << dtype_name(shape.pages) << ", graphs " << graphs << ", early starts "
                << early_starts;
        }
        EXPECT_EQ(cuda_graphs_launched(*backend) > 0, graphs);
      }
  }
}

}  // namespace
}  // namespace paceline::test
