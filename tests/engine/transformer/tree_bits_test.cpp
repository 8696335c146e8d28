// Drafts that branch: a node's logits have the bits that they have at the end of its path run as a chain.

#include <algorithm>

#include "model_rig.h"
#include "speculative/selftest/engine_rig.h"
#include "tests/support/draft_trees.h"
#include "tests/support/long_samples.h"
#include "tests/support/random_seed.h"

namespace paceline {
namespace {

using test::first_difference;
using test::ModelRig;
using test::ModelRigOptions;
using test::Piece;
using test::sample_text;

struct TreeModel {
  std::string folder;
  int longest;                             // context
  std::vector<std::pair<int, int>> ranks;  // tp, pp
};

void PrintTo(const TreeModel& model, std::ostream* out) { *out << model.folder; }

class TreeBits : public testing::TestWithParam<TreeModel> {};

DraftTree random_drafts(std::mt19937& random, int nodes, int vocab_size) {
  DraftTree tree = test::random_tree(random, nodes);
  for (int32_t& token : tree.token) token = (7 * token + int(random() % 7)) % vocab_size;
  return tree;
}

/// Bits of each node against those of its leaf's path as a chain, behind `context` tokens of which the last `known`
/// come in the same pass; "" where all are equal.
std::string tree_difference(ModelRig& rig, int context, int known, std::mt19937& random) {
  const int vocab = rig.spec().vocab_size;
  const auto text = sample_text(context, vocab, unsigned(random()));
  const DraftTree tree = random_drafts(random, 2 + int(random() % 20), vocab);
  const auto pages = rig.pages(context + tree.size());
  const auto other_pages = rig.pages(context + tree.size(), int(pages.size()));
  for (const auto& where : {pages, other_pages})
    if (context > known) rig.run({{text, where, 0, context - known}});
  const auto logits = rig.run({{text, pages, context - known, context, tree}});
  for (const int leaf : test::leaves_of(tree)) {
    const std::vector<int> path = test::path_to(tree, leaf);
    DraftTree chain;
    for (const int node : path) chain.add(tree.token[size_t(node)], chain.size() - 1);
    const auto alone = rig.run({{text, other_pages, context - known, context, chain}});
    for (int row = 0; row < known + int(path.size()); ++row) {
      const int in_tree = row < known ? row : known + path[size_t(row - known)];
      const std::vector<float> one(logits.begin() + std::ptrdiff_t(in_tree) * vocab,
                                   logits.begin() + std::ptrdiff_t(in_tree + 1) * vocab);
      if (first_difference(alone, row, one, vocab) >= 0)
        return fmt::format("row {} of the path to node {} of {}, behind {} tokens", row, leaf, tree.size(), context);
    }
  }
  return "";
}

TEST_P(TreeBits, EachNodeHasTheLogitsOfItsPathAsAChain) {
  std::mt19937 random(test::random_seed());
  for (const auto& [tp, pp] : GetParam().ranks) {
    if (tp * pp > most_rig_ranks()) continue;
    ModelRig rig(
        {.folder = GetParam().folder, .tp = tp, .pp = pp, .threads = tp * pp == 1 ? 2 : 1, .device = rig_device()});
    for (const int context : {1, 2, 17, 50, 60, 63, 64, 65, 100, 180, 255, 256, 257}) {
      if (context > GetParam().longest) break;
      for (int repeat = 0; repeat < (test::long_samples() ? 10 : 3); ++repeat) {
        const int known = 1 + int(random() % unsigned(std::min(4, context)));
        ASSERT_EQ(tree_difference(rig, context, known, random), "") << "tp " << tp << " pp " << pp;
      }
    }
  }
}

TEST_P(TreeBits, BesideOtherSequences) {
  ModelRig rig({.folder = GetParam().folder, .num_blocks = 120, .device = rig_device()});
  const int vocab = rig.spec().vocab_size;
  std::mt19937 random(5);
  std::vector<Piece> pieces;
  std::vector<std::vector<float>> alone;
  for (int i = 0; i < 4; ++i) {
    const int context = 20 + 9 * i;
    const auto text = sample_text(context, vocab, unsigned(i));
    const auto pages = rig.pages(context + 20, i * 10);
    rig.run({{text, pages, 0, context - 1}});
    pieces.push_back({text, pages, context - 1, context});
    if (i != 1) pieces.back().drafts = random_drafts(random, 3 + 5 * i, vocab);
    alone.push_back(rig.run({pieces.back()}));
  }
  const auto together = rig.run(pieces);
  int before = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int rows = int(alone[i].size()) / vocab;
    EXPECT_EQ(first_difference(together, before, alone[i], vocab), -1) << "sequence " << i;
    before += rows;
  }
}

const TreeModel kTreeModels[] = {{"configs/models/target-7m", 500, {{1, 1}, {2, 1}, {1, 2}, {2, 2}}},
                                 {"configs/models/draft-600k", 500, {{1, 1}}},
                                 {"tests/data/qwen2-windows", 100, {{1, 1}, {2, 1}}},
                                 {"tests/data/gemma2", 100, {{1, 1}, {1, 2}}},
                                 {"tests/data/gpt2-unscaled", 65, {{1, 1}, {2, 2}}},
                                 {"tests/data/falcon-new", 65, {{1, 1}, {2, 1}}}};
INSTANTIATE_TEST_SUITE_P(Models, TreeBits, testing::ValuesIn(kTreeModels), [](const auto& info) {
  std::string name = std::filesystem::path(info.param.folder).filename().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace paceline
