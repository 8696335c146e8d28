// Attention of drafts that branch: a node's row has the bits that it has at the end of its path run as a chain.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tests/kernels/backend_ops.h"
#include "tests/kernels/paged_batch.h"
#include "tests/support/draft_trees.h"
#include "tests/support/random_seed.h"

namespace paceline::test {
namespace {

class TreeAttention : public BackendOps {};

struct Shape {
  int num_heads, num_kv_heads, dim, block_size;
  DType dtype;
  int window = 0;
  float softcap = 0;
  bool shared_v = false;
  int group = 0, head_offset = 0;

  int q_cols() const { return num_heads * dim; }
  int kv_cols() const { return num_kv_heads * dim; }
  int cols() const { return q_cols() + 2 * kv_cols(); }
};

/// A sequence with `cached` positions in pages and new rows of verified tokens, then of drafts. Its values are
/// functions of seed and of a row's name, so that a chain can have those of a tree's path.
struct NewSequence {
  unsigned seed = 0;
  int cached = 0, known = 1;
  DraftTree drafts;
  int infinite_row = -1;  // of the tree, whose values are no numbers

  int num_rows() const { return known + drafts.size(); }
  int tree_begin() const { return cached + known; }
};

/// The drafts of one path as a chain; row i of the result's values is row `row_of[i]` of the tree's.
NewSequence chain_of(const NewSequence& from, int node, std::vector<int>& row_of) {
  NewSequence chain{
      .seed = from.seed, .cached = from.cached, .known = from.known, .drafts = {}, .infinite_row = from.infinite_row};
  row_of.clear();
  for (int row = 0; row < from.known; ++row) row_of.push_back(row);
  for (const int on_path : path_to(from.drafts, node)) {
    chain.drafts.add(on_path, chain.drafts.size() - 1);
    row_of.push_back(from.known + on_path);
  }
  return chain;
}

/// Q, K and V of a row.
void put_row(const Shape& shape, const NewSequence& sequence, int row_of_tree, std::vector<float>& to) {
  auto values = random_values(size_t(shape.cols()), sequence.seed * 1000 + unsigned(row_of_tree));
  if (row_of_tree == sequence.infinite_row)
    std::fill(values.end() - std::ptrdiff_t(shape.kv_cols()), values.end(), INFINITY);
  to.insert(to.end(), values.begin(), values.end());
}

struct Ran {
  std::vector<float> out;  // [rows][q_cols]
  Traffic traffic;
};

/// row_of: of the one sequence's rows in its tree; empty: the rows are those of the trees.
Ran run(Backend& backend, const Shape& shape, const std::vector<NewSequence>& sequences, const std::vector<int>& row_of,
        bool fused) {
  std::vector<std::pair<int, int>> cached_and_new;
  for (const NewSequence& sequence : sequences) cached_and_new.emplace_back(sequence.cached, sequence.num_rows());
  PagedBatch batch(cached_and_new, shape.block_size, 0);
  std::vector<float> old, rows;
  std::vector<int32_t> path_begin(size_t(batch.num_rows())), place;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const NewSequence& sequence = sequences[s];
    SeqSpan& span = batch.seqs[s];
    const auto kept = random_values(size_t(sequence.cached * 2 * shape.kv_cols()), sequence.seed * 1000 + 999, 1.0f);
    old.insert(old.end(), kept.begin(), kept.end());
    for (int row = 0; row < sequence.num_rows(); ++row)
      put_row(shape, sequence, row_of.empty() ? row : row_of[size_t(row)], rows);
    if (sequence.drafts.is_chain()) continue;
    span.tree_begin = sequence.tree_begin();
    const std::vector<int32_t> depth = sequence.drafts.depths();
    for (int node = 0; node < sequence.drafts.size(); ++node) {
      const size_t row = size_t(span.first_row + sequence.known + node);
      batch.position[row] = span.tree_begin + depth[size_t(node)];
      batch.kv_len[row] = batch.position[row] + 1;
      path_begin[row] = int32_t(place.size());
      for (const int on_path : path_to(sequence.drafts, node)) place.push_back(span.tree_begin + on_path);
    }
  }
  const int num_old = int(batch.old_slot.size()), m = batch.num_rows();
  PagedKv kv(backend, batch.num_blocks, shape.block_size, shape.num_kv_heads, shape.dim, shape.dim, shape.dtype,
             shape.shared_v);
  GuardedRows old_rows(backend, num_old, 2 * shape.kv_cols(), old);
  const auto values_of = [&](const MatView& both) {
    return shape.shared_v ? MatView{} : both.col_range(shape.kv_cols(), shape.kv_cols());
  };
  backend.store_kv({.k = old_rows.view().col_range(0, shape.kv_cols()),
                    .v = values_of(old_rows.view()),
                    .slot = batch.old_slot,
                    .kv = kv.view()});
  GuardedRows qkv(backend, m, shape.cols(), rows, 4), out(backend, m, shape.q_cols());
  const std::vector<double> inv_freq = rope_frequencies(shape.dim);
  const RopeArgs rope{.x = qkv.view().col_range(0, shape.q_cols() + shape.kv_cols()),
                      .num_heads = shape.num_heads + shape.num_kv_heads,
                      .head_dim = shape.dim,
                      .rotary_dim = shape.dim,
                      .inv_freq = inv_freq,
                      .position = batch.position};
  const StoreKvArgs store{.k = qkv.view().col_range(shape.q_cols(), shape.kv_cols()),
                          .v = values_of(qkv.view().col_range(shape.q_cols(), 2 * shape.kv_cols())),
                          .slot = batch.slot,
                          .kv = kv.view()};
  const AttentionArgs attention{.q = qkv.view().col_range(0, shape.q_cols()),
                                .out = out.view(),
                                .num_heads = shape.num_heads,
                                .group = shape.group,
                                .head_offset = shape.head_offset,
                                .scale = 0.125f,
                                .softcap = shape.softcap,
                                .window = shape.window,
                                .seqs = batch.seqs,
                                .kv_len = batch.kv_len,
                                .block = batch.block,
                                .paths = {.begin = path_begin, .place = place},
                                .kv = kv.view()};
  const Traffic before = backend.traffic();
  if (fused) {
    backend.rope_attention(rope, store, attention);
  } else {
    backend.rope(rope);
    backend.store_kv(store);
    backend.attention(attention);
  }
  const Traffic traffic = backend.traffic() - before;
  return {out.read(), traffic};
}

/// Each node's row against the end of its chain, one sequence at a time; the first difference in words.
std::string difference(Backend& backend, const Shape& shape, const std::vector<NewSequence>& sequences, bool fused) {
  const Ran tree = run(backend, shape, sequences, {}, fused);
  const size_t row_bytes = size_t(shape.q_cols()) * sizeof(float);
  size_t first = 0;
  for (const NewSequence& sequence : sequences) {
    for (const int leaf : leaves_of(sequence.drafts)) {
      std::vector<int> row_of;
      const NewSequence chain = chain_of(sequence, leaf, row_of);
      const Ran alone = run(backend, shape, {chain}, row_of, !fused);
      for (size_t row = 0; row < row_of.size(); ++row)
        if (std::memcmp(tree.out.data() + (first + size_t(row_of[row])) * size_t(shape.q_cols()),
                        alone.out.data() + row * size_t(shape.q_cols()), row_bytes) != 0)
          return fmt::format("row {} of the path to node {} of {}, behind {} positions", row, leaf,
                             sequence.drafts.size(), sequence.cached);
    }
    first += size_t(sequence.num_rows());
  }
  return "";
}

TEST_P(TreeAttention, EachNodeHasTheBitsOfItsPathAsAChain) {
  const Shape shapes[] = {{4, 2, 64, 16, DType::f32},           {4, 2, 64, 16, DType::bf16},
                          {8, 2, 128, 16, DType::bf16},         {4, 2, 64, 32, DType::bf16, 40},
                          {4, 4, 32, 16, DType::f16},           {3, 2, 40, 16, DType::bf16, 0, 0, false, 2, 1},
                          {4, 2, 64, 16, DType::f32, 20, 1.5f}, {6, 1, 24, 48, DType::f32, 0, 0, true}};
  std::mt19937 random(test::random_seed());
  int trees = 0;
  for (const Shape& shape : shapes) {
    const std::vector<int> contexts = {0, 5, 15, 47, 61, 62, 63, 64, 120, 190, 235, 253, 254, 255, 256, 257, 500};
    for (size_t i = 0; i < contexts.size(); ++i) {
      std::vector<NewSequence> sequences;
      const int num_sequences = i % 4 == 3 ? 3 : 1;
      for (int s = 0; s < num_sequences; ++s) {
        const int nodes = random() % 4 == 0 ? 64 : 2 + int(random() % 24);
        sequences.push_back({.seed = unsigned(10 * i + size_t(s)),
                             .cached = contexts[(i + size_t(s) * 5) % contexts.size()],
                             .known = 1 + int(random() % 3),
                             .drafts = random_tree(random, s == 1 ? 3 : nodes)});
      }
      trees += num_sequences;
      ASSERT_EQ(difference(backend(), shape, sequences, i % 2 != 0), "")
          << "heads " << shape.num_heads << " of " << shape.dim << " " << dtype_name(shape.dtype) << ", window "
          << shape.window << ", softcap " << shape.softcap << ", tree " << trees;
    }
  }
}

// Enough for GPUs to let a block take all chunks below a tree, of few lines and of many.
TEST_P(TreeAttention, OfManySequencesAtOnce) {
  std::mt19937 random(test::random_seed());
  for (const int dim : {64, 128})
    for (const int window : {0, 40})
      for (const auto& [num_sequences, nodes] : {std::pair{60, 5}, {80, 16}}) {
        const Shape shape{8, 2, dim, 16, DType::bf16, window};
        std::vector<NewSequence> sequences;
        for (int i = 0; i < num_sequences; ++i) {
          sequences.push_back({.seed = unsigned(i), .cached = 37 * i % 300, .known = 1 + i % 2, .drafts = {}});
          if (i % 7 != 3)
            sequences.back().drafts = random_tree(random, nodes / 2 + int(random() % unsigned(nodes / 2 + 1)));
          if (i % 5 == 0) sequences.back().infinite_row = sequences.back().known + 1;
        }
        ASSERT_EQ(difference(backend(), shape, sequences, true), "")
            << num_sequences << " sequences, heads of " << dim << ", window " << window;
      }
}

/// `rows` new rows of which each but the first is the draft behind the one before.
NewSequence chain_behind(unsigned seed, int cached, int rows) {
  return {.seed = seed,
          .cached = cached,
          .known = 1,
          .drafts = DraftTree::chain(std::vector<int32_t>(size_t(rows - 1))),
          .infinite_row = seed % 5 == 0 ? rows / 2 : -1};
}

// GPUs cut the long ones into pieces (attention_cuts.h): alone they are not cut, or in other places.
TEST_P(TreeAttention, ChainsBehindLongAndShortContextsAtOnce) {
  std::mt19937 random(test::random_seed());
  for (const int dim : {64, 128})
    for (const auto& [window, most_rows] : {std::pair{0, 1}, {0, 4}, {3000, 8}}) {
      const Shape shape{8, 2, dim, 16, DType::bf16, window};
      std::vector<NewSequence> sequences;
      for (int i = 0; i < 52; ++i)
        sequences.push_back(chain_behind(unsigned(i), 13 * i % 150, 1 + int(random() % unsigned(most_rows))));
      sequences[20] = chain_behind(60, 6400, most_rows);
      sequences[51] = chain_behind(61, 2750, most_rows);
      ASSERT_EQ(difference(backend(), shape, sequences, most_rows > 1), "")
          << "heads of " << dim << ", window " << window << ", up to " << most_rows << " rows";
    }
}

TEST_P(TreeAttention, AFewLongChains) {
  const Shape shape{8, 2, 64, 16, DType::bf16};  // enough for pieces on all of 132 multiprocessors
  ASSERT_EQ(difference(backend(), shape,
                       {chain_behind(1, 70'000, 3), chain_behind(2, 40'000, 2), chain_behind(3, 9, 1)}, true),
            "");
}

TEST_P(TreeAttention, ValuesOfABranchDoNotReachOthers) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    NewSequence sequence{.seed = 1, .cached = 60, .known = 1, .drafts = {}, .infinite_row = 2};
    for (int node = 0; node < 12; ++node) sequence.drafts.add(node, (node + 1) / 2 - 1);
    ASSERT_EQ(difference(backend(), {4, 2, 64, 16, dtype}, {sequence}, false), "") << dtype_name(dtype);
    const Ran ran = run(backend(), {4, 2, 64, 16, dtype}, {sequence}, {}, false);
    EXPECT_TRUE(std::isfinite(ran.out[2 * 4 * 64 + 4 * 64])) << "of the sibling";
    EXPECT_FALSE(std::isfinite(ran.out[2 * 4 * 64]));
  }
}

TEST_P(TreeAttention, ReadsWhatAChainOfAsManyRowsReads) {
  const Shape shape{4, 2, 64, 16, DType::bf16};
  for (const int nodes : {4, 16}) {
    NewSequence sequence{.seed = 1, .cached = 300, .known = 1, .drafts = {}};
    for (int node = 0; node < nodes; ++node) sequence.drafts.add(node, (node + 1) / 2 - 1);
    const Ran tree = run(backend(), shape, {sequence}, {}, false);
    sequence.drafts = DraftTree::chain(std::vector<int32_t>(size_t(nodes)));
    const Ran chain = run(backend(), shape, {sequence}, {}, false);
    EXPECT_EQ(tree.traffic.kv_bytes, chain.traffic.kv_bytes);
    EXPECT_LT(tree.traffic.flops, chain.traffic.flops) << "paths are shorter";
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TreeAttention, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace paceline::test
