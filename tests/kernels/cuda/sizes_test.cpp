// Sizes beyond those of a grid, of what is staged and of shared memory, and what a backend takes for itself.

#include <algorithm>
#include <cstring>

#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/backend_fixture.h"
#include "tests/kernels/paged_batch.h"

namespace paceline::test {
namespace {

constexpr int kPageSize = 16, kHeadDim = 32;

/// One KV head's pages of random values.
struct Pages {
  KvView view{.block_size = kPageSize, .num_kv_heads = 1, .k_dim = kHeadDim, .v_dim = kHeadDim};
  Backend& backend;

  Pages(Backend& on, int num_blocks, DType dtype) : backend(on) {
    view.dtype = dtype;
    const StoredMatrix few(1024, kHeadDim, dtype, 3, 1.0f, 0);  // again and again; V one key behind
    std::vector<char> bytes(size_t(num_blocks) * kPageSize * kHeadDim * dtype_bytes(dtype));
    for (size_t at = 0; at < bytes.size(); at += few.bytes.size())
      std::memcpy(bytes.data() + at, few.bytes.data(), std::min(few.bytes.size(), bytes.size() - at));
    for (void** to : {&view.k, &view.v}) {
      *to = backend.alloc(bytes.size());
      backend.upload(*to, bytes.data(), bytes.size());
      std::rotate(bytes.begin(), bytes.begin() + std::ptrdiff_t(kHeadDim * dtype_bytes(dtype)), bytes.end());
    }
  }
  ~Pages() { backend.free(view.k), backend.free(view.v); }
  Pages(const Pages&) = delete;
};

/// Rows of queries of some sequences over pages, and what they see.
struct Queries {
  int num_heads = 0;
  std::vector<SeqSpan> seqs;
  std::vector<int32_t> kv_len, block;

  int rows() const { return int(kv_len.size()); }
  int cols() const { return num_heads * kHeadDim; }
  /// The last num_rows positions of `context`, over its blocks from first_block on.
  void add(int num_rows, int context, int first_block) {
    seqs.push_back({.first_row = rows(), .num_rows = num_rows, .block_begin = int32_t(block.size())});
    for (int i = 0; i < num_rows; ++i) kv_len.push_back(context - num_rows + 1 + i);
    for (int i = 0; i < (context + kPageSize - 1) / kPageSize; ++i) block.push_back(first_block + i);
  }
  std::vector<float> attend(Backend& backend, const KvView& kv, const std::vector<float>& q) const {
    const GuardedRows queries(backend, rows(), cols(), q, 0);
    GuardedRows out(backend, rows(), cols(), 0);
    backend.attention({.q = queries.view(),
                       .out = out.view(),
                       .num_heads = num_heads,
                       .scale = 0.2f,
                       .seqs = seqs,
                       .kv_len = kv_len,
                       .block = block,
                       .kv = kv});
    return out.read();
  }
};

/// 66,000 tiles of 1 and 4 lines, and of 71 lines in two, on both ways that whole lines go, and one of parts.
TEST(Sizes, MoreTilesThanAGridHasBlocksInYOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto backend = make_backend("cuda:0", {});
  constexpr int kBlocks = 64;
  struct Case {
    int num_seqs, num_heads;
    DType dtype;
  };
  for (const Case& of : {Case{66'000, 4, DType::bf16}, {33'000, 71, DType::bf16}, {22'000, 71, DType::f32}}) {
    const Pages pages(*backend, kBlocks, of.dtype);
    const auto batch = [&](int first, int count) {
      Queries made{.num_heads = of.num_heads, .seqs = {}, .kv_len = {}, .block = {}};
      for (int seq = first; seq < first + count; ++seq) made.add(1, 1 + seq % 100, seq % (kBlocks - 8));
      return made;
    };
    const Queries all = batch(0, of.num_seqs);
    const std::vector<float> q = random_values(size_t(all.rows()) * size_t(all.cols()), 1);
    const std::vector<float> got = all.attend(*backend, pages.view, q);
    constexpr int kAtOnce = 5'000;
    for (int first = 0; first < of.num_seqs; first += kAtOnce) {
      const Queries part = batch(first, std::min(kAtOnce, of.num_seqs - first));
      const auto rows = [&](const std::vector<float>& of_all) {
        const auto begin = of_all.begin() + std::ptrdiff_t(first) * all.cols();
        return std::vector<float>(begin, begin + std::ptrdiff_t(part.rows()) * all.cols());
      };
      ASSERT_TRUE(same_bits(rows(got), part.attend(*backend, pages.view, rows(q))))
          << of.num_heads << " heads, " << dtype_name(of.dtype) << ", from sequence " << first;
    }
  }
}

TEST(Sizes, AContextWithMorePartsThanAreMergedOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto backend = make_backend("cuda:0", {});
  constexpr int kContext = 1'300'000, kRows = 10;  // of 4 heads: too many lines for pieces, too few for the device
  const auto last_rows = [](int num_rows) {
    Queries made{.num_heads = 4, .seqs = {}, .kv_len = {}, .block = {}};
    made.add(num_rows, kContext, 0);
    return made;
  };
  const Queries many = last_rows(kRows), one = last_rows(1);
  const std::vector<float> q = random_values(size_t(kRows) * size_t(many.cols()), 1);
  {
    const Pages pages(*backend, kContext / kPageSize + 1, DType::bf16);
    const std::vector<float> got = many.attend(*backend, pages.view, q);
    const std::vector<float> alone = one.attend(*backend, pages.view, {q.end() - one.cols(), q.end()});
    EXPECT_TRUE(same_bits({got.end() - one.cols(), got.end()}, alone));
  }
  const Pages pages(*backend, kContext / kPageSize + 1, DType::f32);  // which have no other way
  try {
    many.attend(*backend, pages.view, q);
    ADD_FAILURE() << "attended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    EXPECT_NE(std::string(error.what()).find("a context of 1300000 tokens; attention takes "), std::string::npos)
        << error.what();
  }
}

TEST(Sizes, ABackendTakesNoMoreThanIsPlannedOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  constexpr int kRows = 20'000, kWide = 14'336, kNarrow = 256, kPositions = 100'000, kRotary = 128;
  const size_t before = cuda_free_bytes(0);
  const auto backend = make_backend("cuda:0", {});
  size_t given_out = 0;
  const auto rows = [&](int64_t cols) {
    const size_t bytes = size_t(kRows) * size_t(cols) * sizeof(float);
    given_out += bytes;
    return f32_view(static_cast<float*>(backend->alloc(bytes)), kRows, cols);
  };
  const std::vector<uint16_t> zeros(size_t(kNarrow) * kWide);
  const HostWeight down{zeros.data(), DType::bf16, kNarrow, kWide, kWide};
  const Weight w = backend->pack({&down, 1}, {});
  given_out += w->bytes;
  const MatView x = rows(kWide), y = rows(kNarrow);
  for (int product = 0; product < 3; ++product) backend->gemm({.x = x, .w = w.get(), .y = y});  // into both operands
  const std::vector<double> inv_freq = rope_frequencies(kRotary);
  for (int32_t highest : {3 * kPositions / 5, kPositions - 1}) {  // its table doubles
    std::vector<int32_t> position(kRows, 0);
    position.back() = highest;
    backend->rope({.x = y,
                   .num_heads = 1,
                   .head_dim = kNarrow,
                   .rotary_dim = kRotary,
                   .layout = RopeLayout::half_split,
                   .inv_freq = inv_freq,
                   .position = position});
  }
  backend->sync();
  const size_t taken = before - cuda_free_bytes(0) - given_out;
  const size_t grown = cuda_operand_bytes(kRows, kWide) + cuda_rope_bytes(kPositions, kRotary);
  EXPECT_LE(taken, kCudaWorkspaceBytes + grown);
  EXPECT_GT(grown, kCudaWorkspaceBytes) << "else nothing is seen of what grows";
}

}  // namespace
}  // namespace paceline::test
