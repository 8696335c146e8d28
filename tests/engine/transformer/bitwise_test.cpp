// One row, one result: the logits of a position have the same bits however the position is computed.

#include "engine/batch_rows.h"
#include "engine/comm/nccl_comm.h"
#include "kernels/cuda/cuda_backend.h"
#include "model_rig.h"

namespace paceline {
namespace {

using test::first_difference;
using test::ModelRig;
using test::ModelRigOptions;
using test::Piece;
using test::sample_text;

struct ModelCase {
  std::string folder;
  int length;                              // of the text
  std::vector<std::pair<int, int>> ranks;  // tp, pp beside 1, 1
};

void PrintTo(const ModelCase& model, std::ostream* out) { *out << model.folder; }

class Bitwise : public testing::TestWithParam<ModelCase> {
 protected:
  static void SetUpTestSuite() { references_ = new std::map<std::string, std::vector<float>>; }
  static void TearDownTestSuite() { delete references_; }

  ModelRigOptions rig_options() const { return {.folder = GetParam().folder}; }
  std::vector<int32_t> text(const ModelRig& rig) const { return sample_text(GetParam().length, rig.spec().vocab_size); }

  /// Logits of every position: one pass, alone, one rank, one thread.
  const std::vector<float>& reference() {
    auto& logits = (*references_)[GetParam().folder];
    if (logits.empty()) {
      ModelRig rig(rig_options());
      const auto tokens = text(rig);
      logits = rig.run({{tokens, rig.pages(int(tokens.size())), 0, int(tokens.size())}});
    }
    return logits;
  }

  /// The text in chunks of at most `chunk` rows (0: random), on the given pages.
  int difference_in_chunks(ModelRig& rig, int chunk, const std::vector<int32_t>& pages, unsigned seed = 3) {
    std::mt19937 random(seed);
    const auto tokens = text(rig);
    const int length = int(tokens.size());
    for (int begin = 0; begin < length;) {
      const int end = std::min(length, begin + (chunk ? chunk : 1 + int(random() % 40)));
      const auto logits = rig.run({{tokens, pages, begin, end}});
      const int row = first_difference(reference(), begin, logits, rig.spec().vocab_size);
      if (row >= 0) return begin + row;
      begin = end;
    }
    return -1;
  }

  std::vector<int32_t> shuffled_pages(const ModelRig& rig, unsigned seed) const {
    auto all = rig.pages(rig.num_blocks() * rig.block_size());
    std::shuffle(all.begin(), all.end(), std::mt19937(seed));
    all.resize(rig.pages(GetParam().length).size());
    return all;
  }

  static std::map<std::string, std::vector<float>>* references_;
};
std::map<std::string, std::vector<float>>* Bitwise::references_ = nullptr;

TEST_P(Bitwise, AnyChunking) {
  ModelRig rig(rig_options());
  for (const int chunk : {1, 2, 6, 16, 17, 64, 0}) {
    EXPECT_EQ(difference_in_chunks(rig, chunk, rig.pages(GetParam().length)), -1) << "chunks of " << chunk;
  }
}

TEST_P(Bitwise, OnlyTheLastRow) {
  ModelRig rig(rig_options());
  const auto tokens = text(rig);
  for (const int end : {1, 2, 15, 16, 17, GetParam().length}) {
    const std::vector<int32_t> prefix(tokens.begin(), tokens.begin() + end);
    const auto logits = rig.run({{prefix, rig.pages(end), 0, end}}, true);
    EXPECT_EQ(first_difference(reference(), end - 1, logits, rig.spec().vocab_size), -1) << end;
  }
}

TEST_P(Bitwise, AnyPagePlacement) {
  for (const int block_size : {16, 32, 64}) {
    ModelRigOptions options = rig_options();
    options.block_size = block_size;
    options.num_blocks = GetParam().length / block_size + 40;
    ModelRig rig(options);
    for (unsigned seed = 0; seed < 3; ++seed)
      EXPECT_EQ(difference_in_chunks(rig, 23, shuffled_pages(rig, seed)), -1) << block_size << " " << seed;
  }
}

// Prefill of one, decoding of another, verification of a third, side by side and in any order.
TEST_P(Bitwise, InAnyBatch) {
  ModelRigOptions options = rig_options();
  options.num_blocks = 4 * (GetParam().length / 16 + 2);
  ModelRig rig(options);
  const auto tokens = text(rig);
  const int vocab = rig.spec().vocab_size, length = int(tokens.size());
  std::mt19937 random(9);
  std::vector<Piece> others;
  for (int i = 1; i <= 3; ++i) {
    const auto other = sample_text(length, vocab, unsigned(50 + i));
    others.push_back({other, rig.pages(length, i * (length / 16 + 2)), 0, 0});
  }
  for (int begin = 0; begin < length;) {
    const int end = std::min(length, begin + 1 + int(random() % 9));
    std::vector<Piece> pieces;
    for (Piece& other : others) {
      if (random() % 3 == 0 || other.end == length) continue;
      other.begin = other.end;
      other.end = std::min(length, other.begin + 1 + int(random() % (random() % 4 ? 6 : 40)));
      pieces.push_back(other);
    }
    const size_t at = random() % (pieces.size() + 1);
    pieces.insert(pieces.begin() + std::ptrdiff_t(at), {tokens, rig.pages(length), begin, end});
    const auto logits = rig.run(pieces);
    int before = 0;
    for (size_t i = 0; i < at; ++i) before += pieces[i].end - pieces[i].begin;
    const std::vector<float> mine(logits.begin() + std::ptrdiff_t(before) * vocab,
                                  logits.begin() + std::ptrdiff_t(before + end - begin) * vocab);
    ASSERT_EQ(first_difference(reference(), begin, mine, vocab), -1)
        << "rows " << begin << " to " << end << " with " << pieces.size() - 1 << " others";
    begin = end;
  }
}

TEST_P(Bitwise, AnyNumberOfThreads) {
  for (const int threads : {2, 3}) {
    ModelRigOptions options = rig_options();
    options.threads = threads;
    ModelRig rig(options);
    for (const int chunk : {512, 0, 3})
      EXPECT_EQ(difference_in_chunks(rig, chunk, rig.pages(GetParam().length)), -1)
          << threads << " threads, chunks of " << chunk;
  }
}

TEST_P(Bitwise, AnyRanks) {
  for (const auto& [tp, pp] : GetParam().ranks) {
    ModelRigOptions options = rig_options();
    options.tp = tp;
    options.pp = pp;
    ModelRig rig(options);
    EXPECT_EQ(difference_in_chunks(rig, 0, shuffled_pages(rig, 7)), -1) << "tp " << tp << " pp " << pp;
    EXPECT_EQ(difference_in_chunks(rig, 512, rig.pages(GetParam().length)), -1) << "tp " << tp << " pp " << pp;
    if (tp * pp > 2) continue;
    EXPECT_EQ(difference_in_chunks(rig, 1, rig.pages(GetParam().length)), -1) << "tp " << tp << " pp " << pp;
  }
}

TEST_P(Bitwise, AnyInstructionSet) {
  for (int isa = 0; isa <= int(best_isa()); ++isa) {
    ModelRigOptions options = rig_options();
    options.isa = isa;
    ModelRig rig(options);
    EXPECT_EQ(difference_in_chunks(rig, 0, rig.pages(GetParam().length)), -1) << isa_name(Isa(isa));
  }
}

// Preempted, its pages given to others, then recomputed elsewhere, over what others left behind.
TEST_P(Bitwise, AfterRecompute) {
  ModelRig rig(rig_options());
  const auto tokens = text(rig);
  const int length = int(tokens.size()), vocab = rig.spec().vocab_size;
  rig.run({{tokens, rig.pages(length), 0, length / 2}});
  const auto other = sample_text(length, vocab, 99);
  rig.run({{other, shuffled_pages(rig, 5), 0, length}});
  rig.run({{other, rig.pages(length), 0, length}});
  for (unsigned seed = 5; seed < 7; ++seed) {
    const auto logits = rig.run({{tokens, shuffled_pages(rig, seed), 0, length}});
    EXPECT_EQ(first_difference(reference(), 0, logits, vocab), -1);
  }
}

// The first pages were computed for another sequence with the same prefix.
TEST_P(Bitwise, AfterAPrefixHit) {
  ModelRig rig(rig_options());
  const auto tokens = text(rig);
  const int length = int(tokens.size()), vocab = rig.spec().vocab_size;
  auto other = tokens;
  for (int i = 32; i < length; ++i) other[size_t(i)] = (other[size_t(i)] + 1) % vocab;
  const auto shared = rig.pages(length);
  rig.run({{other, shared, 0, length}});
  auto pages = rig.pages(length, 50);
  pages[0] = shared[0];
  pages[1] = shared[1];
  const auto logits = rig.run({{tokens, pages, 32, length}});
  EXPECT_EQ(first_difference(reference(), 32, logits, vocab), -1);
}

// Rolled back drafts: wrong rows were written behind the verified part and are overwritten.
TEST_P(Bitwise, AfterRejectedDrafts) {
  ModelRig rig(rig_options());
  const auto tokens = text(rig);
  const int vocab = rig.spec().vocab_size, length = std::min(int(tokens.size()), 60);
  const auto pages = rig.pages(length + 8);
  int cached = 5;
  rig.run({{tokens, pages, 0, cached}});
  std::mt19937 random(2);
  while (cached < length) {
    const int kept = std::min(1 + int(random() % 4), length - cached);  // rows whose tokens are right
    std::vector<int32_t> guess(tokens.begin(), tokens.begin() + cached + kept);
    for (int i = 0; i < 4; ++i) guess.push_back(int32_t(random() % unsigned(vocab)));
    auto logits = rig.run({{guess, pages, cached, int(guess.size())}});
    logits.resize(size_t(kept) * size_t(vocab));
    ASSERT_EQ(first_difference(reference(), cached, logits, vocab), -1) << cached;
    cached += kept;
  }
}

// The token of a deferred row comes from SeqState, which the deciding rank shares with the others.
TEST_P(Bitwise, DeferredRow) {
  std::vector<std::pair<int, int>> all = GetParam().ranks;
  all.insert(all.begin(), {1, 1});
  for (const auto& [tp, pp] : all) {
    ModelRigOptions options = rig_options();
    options.tp = tp;
    options.pp = pp;
    ModelRig rig(options);
    const auto tokens = text(rig);
    const int vocab = rig.spec().vocab_size;
    const auto pages = rig.pages(40);
    constexpr int kCached = 19;
    const std::vector<int32_t> prompt(tokens.begin(), tokens.begin() + kCached);
    rig.run({{prompt, pages, 0, kCached}});
    rig.model().post([&](Rank&) {  // as a verifier leaves it
      rig.model().state().accept(0, kCached, nullptr, 0, tokens[kCached], rig.next_step());
    });
    auto batch = std::make_shared<Batch>();
    batch->step = rig.next_step() + 10;
    add_deferred_row(*batch, 0, pages);
    const auto logits = rig.launch(batch);
    ASSERT_EQ(logits.size(), size_t(vocab));
    EXPECT_EQ(first_difference(reference(), kCached, logits, vocab), -1) << "tp " << tp << " pp " << pp;
  }
}

// GPUs among themselves: their bits are not the CPU's.
TEST_P(Bitwise, RanksOnCuda) {
  if (num_cuda_devices() < 2 || !has_nccl()) GTEST_SKIP() << "fewer than two CUDA devices, or no NCCL here";
  std::vector<float> want;
  std::vector<std::pair<int, int>> all = GetParam().ranks;
  all.insert(all.begin(), {1, 1});
  for (const auto& [tp, pp] : all) {
    if (tp * pp > num_cuda_devices()) continue;
    ModelRigOptions options = rig_options();
    options.tp = tp;
    options.pp = pp;
    options.device = "cuda";
    ModelRig rig(options);
    const auto tokens = text(rig);
    const int length = int(tokens.size());
    if (want.empty()) {
      want = rig.run({{tokens, rig.pages(length), 0, length}});
      continue;
    }
    for (int begin = 0; begin < length; begin += 23) {
      const auto logits = rig.run({{tokens, rig.pages(length), begin, std::min(length, begin + 23)}});
      EXPECT_EQ(first_difference(want, begin, logits, rig.spec().vocab_size), -1) << "tp " << tp << " pp " << pp;
    }
  }
}

// The checker can fail: one other token, one wrong page, one stale key.
TEST_P(Bitwise, InverseControl) {
  ModelRig rig(rig_options());
  auto tokens = text(rig);
  const int length = int(tokens.size()), vocab = rig.spec().vocab_size;
  const auto clean = rig.run({{tokens, rig.pages(length), 0, length}});
  ASSERT_EQ(first_difference(reference(), 0, clean, vocab), -1);
  auto changed = tokens;
  changed[20] = (changed[20] + 1) % vocab;
  EXPECT_EQ(first_difference(reference(), 0, rig.run({{changed, rig.pages(length), 0, length}}), vocab), 20);
  // positions 0 … 39 now hold the changed text's keys: going on from there with the right tokens shows
  EXPECT_EQ(first_difference(reference(), 40, rig.run({{tokens, rig.pages(length), 40, length}}), vocab), 0);
  rig.run({{tokens, rig.pages(length), 0, 40}});
  EXPECT_EQ(first_difference(reference(), 40, rig.run({{tokens, rig.pages(length), 40, length}}), vocab), -1);
  auto pages = rig.pages(length);
  pages[0] = pages[1];
  EXPECT_EQ(first_difference(reference(), 40, rig.run({{tokens, pages, 40, length}}), vocab), 0);
  auto nudged = clean;
  nudged[size_t(3 * vocab + 5)] = std::nextafter(nudged[size_t(3 * vocab + 5)], 1e9f);
  EXPECT_EQ(first_difference(reference(), 0, nudged, vocab), 3);
}

INSTANTIATE_TEST_SUITE_P(Models, Bitwise,
                         testing::Values(ModelCase{"tests/data/llama", 70, {{2, 1}, {4, 1}, {1, 2}, {1, 3}, {2, 2}}},
                                         ModelCase{"tests/data/llama-gqa-tied", 70, {{2, 1}, {4, 1}, {1, 2}, {2, 2}}},
                                         ModelCase{
                                             "tests/data/llama3-rope-scaling", 200, {{2, 1}, {4, 1}, {1, 2}, {2, 2}}},
                                         ModelCase{"tests/data/llama-linear-rope-bias", 70, {{2, 1}, {1, 2}, {2, 2}}},
                                         ModelCase{"configs/models/target-7m", 300, {{2, 1}, {4, 1}, {1, 2}, {2, 2}}}),
                         [](const auto& model) {
                           std::string name;
                           for (const char c : model.param.folder.substr(model.param.folder.rfind('/') + 1))
                             name += std::isalnum(c) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace paceline
