// Blocks that share the chunks of a tile of lines leave the bits of blocks that take one chunk each: 17 to 128 rows of
// a sequence, or as many of several, against the same rows four at a time.

#include <fmt/format.h>

#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/backend_fixture.h"
#include "tests/kernels/paged_batch.h"

namespace paceline::test {
namespace {

struct TeamCase {
  std::vector<std::pair<int, int>> cached_and_new;
  int dim = 128, window = 0, num_unused = 0;
  bool has_infinity = false;
  int heads = 32, kv_heads = 8, block_size = 16;
};

/// Rope, new keys and values, and attention over a batch.
class ComparedAttention {
 public:
  ComparedAttention(Backend& backend, const TeamCase& of)
      : backend_(backend),
        of_(of),
        batch_(of.cached_and_new, of.block_size, of.num_unused),
        inv_freq_(rope_frequencies(of.dim)) {}

  /// together: as one op; else one after the other, attention over kFewRows at a time. What it gives; the pages.
  std::pair<std::vector<float>, std::vector<char>> run(bool together) {
    const int q_cols = of_.heads * of_.dim, kv_cols = of_.kv_heads * of_.dim, cols = q_cols + 2 * kv_cols;
    const int m = batch_.num_rows(), num_old = int(batch_.old_slot.size());
    PagedKv kv(backend_, batch_.num_blocks, of_.block_size, of_.kv_heads, of_.dim, of_.dim, DType::bf16);
    if (num_old > 0) {
      const GuardedRows k(backend_, num_old, kv_cols, random_values(size_t(num_old * kv_cols), 1));
      const GuardedRows v(backend_, num_old, kv_cols, random_values(size_t(num_old * kv_cols), 2));
      backend_.store_kv({.k = k.view(), .v = v.view(), .slot = batch_.old_slot, .kv = kv.view()});
    }
    std::vector<float> rows = random_values(size_t(m * cols), 3);
    if (of_.has_infinity) std::fill_n(rows.begin() + (m / 2) * cols + q_cols + kv_cols, kv_cols, INFINITY);
    GuardedRows qkv(backend_, m, cols, rows, 4), out(backend_, m, q_cols);
    const RopeArgs rope{.x = qkv.view().col_range(0, q_cols + kv_cols),
                        .num_heads = of_.heads + of_.kv_heads,
                        .head_dim = of_.dim,
                        .rotary_dim = of_.dim,
                        .inv_freq = inv_freq_,
                        .position = batch_.position};
    const StoreKvArgs store{.k = qkv.view().col_range(q_cols, kv_cols),
                            .v = qkv.view().col_range(q_cols + kv_cols, kv_cols),
                            .slot = batch_.slot,
                            .kv = kv.view()};
    AttentionArgs attention{.q = qkv.view().col_range(0, q_cols),
                            .out = out.view(),
                            .num_heads = of_.heads,
                            .scale = 0.125f,
                            .window = of_.window,
                            .seqs = batch_.seqs,
                            .kv_len = batch_.kv_len,
                            .block = batch_.block,
                            .kv = kv.view()};
    if (together) {
      backend_.rope_attention(rope, store, attention);
    } else {
      backend_.rope(rope);
      backend_.store_kv(store);
      for (const SeqSpan& seq : batch_.seqs)
        for (int row = 0; row < seq.num_rows; row += kFewRows) {
          const int first = seq.first_row + row, count = std::min(kFewRows, seq.num_rows - row);
          const SeqSpan span{.first_row = 0, .num_rows = count, .block_begin = seq.block_begin};
          AttentionArgs few = attention;
          few.q = qkv.view().row_range(first, count).col_range(0, q_cols);
          few.out = out.view().row_range(first, count);
          few.seqs = {&span, 1};
          few.kv_len = std::span(batch_.kv_len).subspan(size_t(first), size_t(count));
          backend_.attention(few);
        }
    }
    return {out.read(), kv.bytes()};
  }

 private:
  static constexpr int kFewRows = 4;
  Backend& backend_;
  const TeamCase of_;
  const PagedBatch batch_;
  const std::vector<double> inv_freq_;
};

TEST(AttentionTeam, ChangesNoBitsOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto backend = make_backend("cuda:0", {});
  std::vector<TeamCase> cases;
  for (const int cached : {0, 3, 60, 250, 500, 720, 1500})
    for (const int rows : {17, 24, 25, 32, 33, 40, 41, 64, 66, 85, 96, 97, 128, 131})
      cases.push_back({.cached_and_new = {{cached, rows}}});
  for (const int rows : {17, 32, 64, 90, 120}) {
    cases.push_back({.cached_and_new = {{500, rows}}, .dim = 64});
    cases.push_back({.cached_and_new = {{300, rows}}, .window = 150});
    cases.push_back({.cached_and_new = {{300, rows}}, .num_unused = 3});
    cases.push_back({.cached_and_new = {{250, rows}}, .has_infinity = true});
  }
  cases.push_back({.cached_and_new = {{500, 8}, {200, 8}, {0, 8}}});
  cases.push_back({.cached_and_new = {{300, 32}}, .window = 20});      // begins among the new rows
  cases.push_back({.cached_and_new = {{300, 32}}, .num_unused = 12});  // a tile of padding alone
  cases.push_back({.cached_and_new = {{70, 290}}, .num_unused = 3, .has_infinity = true});
  cases.push_back({.cached_and_new = {{300, 32}}, .dim = 96});
  cases.push_back({.cached_and_new = {{300, 27}}, .heads = 40});  // rows in two tiles
  cases.push_back({.cached_and_new = {{300, 32}}, .heads = 128, .kv_heads = 16});
  for (const int block_size : {32, 128})
    cases.push_back({.cached_and_new = {{400, 4}, {90, 4}, {0, 4}, {777, 4}, {64, 4}}, .block_size = block_size});
  cases.push_back({.cached_and_new = {{700, 20}, {1, 1}, {130, 5}, {64, 6}}});
  for (const TeamCase& of : cases) {
    ComparedAttention compared(*backend, of);
    const auto want = compared.run(false), got = compared.run(true);
    const auto& [cached, rows] = of.cached_and_new[0];
    const std::string what = fmt::format(
        "{} rows behind {} (of {} sequences), {} of {} heads of {}, window {}, {} unused, blocks of {}", rows, cached,
        of.cached_and_new.size(), of.kv_heads, of.heads, of.dim, of.window, of.num_unused, of.block_size);
    EXPECT_TRUE(same_bits(want.first, got.first)) << what;
    EXPECT_EQ(want.second, got.second) << what;
  }
}

}  // namespace
}  // namespace paceline::test
