// Passes whose sequences grow, come, go and change places: a row sees the pages that its sequence has now.

#include <algorithm>
#include <numeric>
#include <random>

#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/backend_fixture.h"
#include "tests/support/random_seed.h"

namespace paceline::test {
namespace {

constexpr int kTablePage = 16, kTableKvHeads = 2, kTableHeads = 8, kTableDim = 64;

/// Block b of a sequence never moves.
struct TableContext {
  std::vector<int32_t> block;
  int32_t positions = 0;
};

/// Pages with values that do not change.
struct TableCache {
  PagedKv kv;

  TableCache(Backend& backend, int num_blocks)
      : kv(backend, num_blocks, kTablePage, kTableKvHeads, kTableDim, kTableDim, DType::bf16) {
    std::mt19937 random(1);
    std::vector<uint16_t> values(size_t(num_blocks) * kTablePage * kTableKvHeads * kTableDim);
    for (void* const to : {kv.view().k, kv.view().v}) {
      for (uint16_t& value : values) value = uint16_t(0x3f80u | (random() & 0x807fu));  // of 1 to 2, or -2 to -1
      backend.upload(to, values.data(), values.size() * sizeof(uint16_t));
    }
  }
};

AttentionArgs table_attention(const TableCache& cache, const MatView& q, const MatView& out,
                              const std::vector<SeqSpan>& seqs, const std::vector<int32_t>& kv_len,
                              const std::vector<int32_t>& block) {
  return {.q = q,
          .out = out,
          .num_heads = kTableHeads,
          .scale = 0.125f,
          .seqs = seqs,
          .kv_len = kv_len,
          .block = block,
          .paths = {},
          .kv = cache.kv.view()};
}

/// A row of each context, in two layers of one pass; the second reads what the first gives.
std::vector<float> run_tables(Backend& backend, const TableCache& cache,
                              const std::vector<const TableContext*>& contexts) {
  const auto m = int(contexts.size());
  std::vector<SeqSpan> seqs;
  std::vector<int32_t> kv_len, block;
  for (int i = 0; i < m; ++i) {
    seqs.push_back({.first_row = i, .num_rows = 1, .block_begin = int32_t(block.size())});
    kv_len.push_back(contexts[size_t(i)]->positions);
    block.insert(block.end(), contexts[size_t(i)]->block.begin(), contexts[size_t(i)]->block.end());
  }
  GuardedRows q(backend, m, kTableHeads * kTableDim, random_values(size_t(m * kTableHeads * kTableDim), 2)),
      first(backend, m, kTableHeads * kTableDim), second(backend, m, kTableHeads * kTableDim);
  const auto attend = [&](const MatView& from, const MatView& to) {
    backend.attention(table_attention(cache, from, to, seqs, kv_len, block));
  };
  backend.run(uint64_t(m), [&] {
    attend(q.view(), first.view());
    attend(first.view(), second.view());
  });
  std::vector<float> out = first.read();
  const std::vector<float> last = second.read();
  out.insert(out.end(), last.begin(), last.end());
  return out;
}

/// Gives out pages of a cache, in an order of its own.
class TablePages {
 public:
  explicit TablePages(int count) : free_(size_t(count)) {
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), random_);
  }
  void grow(TableContext& context, int positions) {
    context.positions += positions;
    while (int32_t(context.block.size()) * kTablePage < context.positions) {
      context.block.push_back(free_.back());
      free_.pop_back();
    }
  }
  TableContext context(int positions) {
    TableContext made;
    grow(made, positions);
    return made;
  }

 private:
  std::mt19937 random_{unsigned(random_seed())};
  std::vector<int32_t> free_;
};

void follow_sequences(const BackendOptions& options) {
  const auto backend = make_backend("cuda:0", options);
  constexpr int kBlocks = 1600;
  TablePages pages(kBlocks);
  std::vector<TableContext> live;
  for (const int positions : {200, 17, 63, 64, 129, 300}) live.push_back(pages.context(positions));
  const TableCache cache(*backend, kBlocks);
  const auto check = [&](const std::string& what) {
    std::vector<const TableContext*> contexts;
    for (const TableContext& context : live) contexts.push_back(&context);
    const auto fresh = make_backend("cuda:0", options);
    const TableCache its(*fresh, kBlocks);
    EXPECT_EQ(run_tables(*backend, cache, contexts), run_tables(*fresh, its, contexts)) << what;
  };
  const auto grow = [&](int times, const std::string& what) {
    for (int i = 0; i < times; ++i) {
      for (TableContext& context : live) pages.grow(context, 1 + i % 5);
      check(what + ", then grown");
    }
  };
  check("first");
  grow(12, "first");
  live.insert(live.begin(), pages.context(31));
  check("one more ahead of all");
  live.erase(live.begin() + 3);
  check("one less");
  live.push_back(pages.context(12'000));  // too many pages for the arguments of a kernel
  check("a long one");
  grow(8, "a long one");
  std::swap(live[1], live[4]);
  check("two have changed places");
  live[2] = pages.context(5);
  check("one begins anew");
  live.back() = pages.context(40);
  check("a short one in the place of the long one");
  grow(5, "a short one in the place of the long one");
  std::rotate(live.begin(), live.begin() + 1, live.end());
  check("all have changed places");
}

TEST(BlockTables, FollowSequencesThatGrowComeGoAndMoveOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  follow_sequences({});
  follow_sequences({.early_starts = false});
  follow_sequences({.graphs = false});
}

TEST(BlockTables, OfTwoCachesInTurnsOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto backend = make_backend("cuda:0", {});
  constexpr int kBlocks = 200;
  TablePages pages(kBlocks), of_other(kBlocks);
  TableContext one = pages.context(100), two = pages.context(50), other = of_other.context(300);
  const TableCache cache(*backend, kBlocks);
  for (int i = 0; i < 10; ++i) {
    const auto fresh = make_backend("cuda:0", {});
    const TableCache its(*fresh, kBlocks);
    for (const std::vector<const TableContext*>& contexts : {std::vector<const TableContext*>{&one, &two}, {&other}})
      ASSERT_EQ(run_tables(*backend, cache, contexts), run_tables(*fresh, its, contexts)) << i;
    for (TableContext* context : {&one, &two}) pages.grow(*context, 3);
    of_other.grow(other, 7);
  }
}

TEST(BlockTables, PagesMayChangeBehindAPassOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto backend = make_backend("cuda:0", {});
  constexpr int kBlocks = 40;
  const TableCache cache(*backend, kBlocks);
  const std::vector<SeqSpan> seqs = {{.first_row = 0, .num_rows = 1, .block_begin = 0}};
  const std::vector<int32_t> kv_len = {10 * kTablePage};
  std::vector<int32_t> block(10);
  const std::vector<float> values = random_values(kTableHeads * kTableDim, 2);
  const GuardedRows q(*backend, 1, kTableHeads * kTableDim, values);
  const auto attended = [&](bool in_pass) {
    GuardedRows out(*backend, 1, kTableHeads * kTableDim);
    const auto attend = [&] { backend->attention(table_attention(cache, q.view(), out.view(), seqs, kv_len, block)); };
    in_pass ? backend->run(1, attend) : attend();
    return out.read();
  };
  std::iota(block.begin(), block.end(), 0);
  const std::vector<float> first = attended(true);
  std::iota(block.begin(), block.end(), 20);
  const std::vector<float> second = attended(false);
  EXPECT_NE(first, second) << "other pages at the same address";
  EXPECT_EQ(second, attended(true));
}

TEST(BlockTables, LongContextsKeepTheirGraphsOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto backend = make_backend("cuda:0", {});
  constexpr int kSequences = 16, kPositions = 16'000, kBlocks = kSequences * (kPositions / kTablePage + 8), kTimes = 12;
  TablePages pages(kBlocks);
  std::vector<TableContext> contexts;
  std::vector<const TableContext*> live;
  for (int i = 0; i < kSequences; ++i) contexts.push_back(pages.context(kPositions + i));
  for (const TableContext& context : contexts) live.push_back(&context);
  const TableCache cache(*backend, kBlocks);
  for (int i = 0; i < kTimes; ++i) {
    run_tables(*backend, cache, live);
    for (TableContext& context : contexts) pages.grow(context, 1);
  }
  EXPECT_GE(cuda_graphs_launched(*backend), uint64_t(kTimes - 4)) << "of kinds with and without new pages";
}

TEST(BlockTables, ManySequencesOverOneLongPrefixOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto backend = make_backend("cuda:0", {});
  constexpr int kSequences = 256, kPositions = 131'072, kBlocks = kPositions / kTablePage;
  TablePages pages(kBlocks);
  const TableContext prefix = pages.context(kPositions);
  const TableCache cache(*backend, kBlocks);
  const std::vector<float> all = run_tables(*backend, cache, std::vector<const TableContext*>(kSequences, &prefix));
  const std::vector<float> alone = run_tables(*backend, cache, {&prefix});
  EXPECT_TRUE(std::equal(alone.begin(), alone.begin() + kTableHeads * kTableDim, all.begin()));
  const auto last = all.begin() + std::ptrdiff_t(kSequences - 1) * kTableHeads * kTableDim;
  EXPECT_TRUE(std::all_of(last, last + kTableHeads * kTableDim, [](float x) { return std::abs(x) < 2; }));
}

}  // namespace
}  // namespace paceline::test
