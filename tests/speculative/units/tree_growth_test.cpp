// Which nodes of a growing tree get children, and which stay.

#include "speculative/tree_growth.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Nodes = std::vector<int32_t>;

Nodes level(TreeGrowth& growth) {
  const std::span<const int32_t> next = growth.next_level();
  return {next.begin(), next.end()};
}

void add(TreeGrowth& growth, int32_t parent, const Nodes& token, const std::vector<float>& prob) {
  growth.add_children(parent, token, prob);
}

TEST(TreeGrowth, TheLikeliestPathsGoOn) {
  TreeGrowth growth({.width = 2, .max_nodes = 5, .max_depth = 3, .max_parents = 9});
  add(growth, DraftTree::kRoot, {10, 11, 12}, {0.3f, 0.5f, 0.2f});
  EXPECT_EQ(level(growth), (Nodes{1, 0}));
  add(growth, 1, {20, 21}, {0.5f, 0.25f});  // 3: 0.25, 4: 0.125
  add(growth, 0, {22, 23}, {0.9f, 0.1f});   // 5: 0.27, 6: 0.03
  EXPECT_EQ(level(growth), (Nodes{5, 3}));
  EXPECT_EQ(growth.parent(5), 0);
  EXPECT_EQ(growth.depth(5), 1);
  EXPECT_EQ(growth.token(5), 22);
  add(growth, 5, {30, 31}, {0.9f, 0.1f});  // 7: 0.243, 8
  add(growth, 3, {32, 33}, {0.7f, 0.3f});  // 9: 0.175, 10
  EXPECT_TRUE(level(growth).empty());
  const DraftTree tree = growth.tree();  // 0.5, 0.3, 0.27, 0.25, 0.243; not 12 with 0.2
  EXPECT_EQ(tree.token, (Nodes{10, 11, 20, 22, 30}));
  EXPECT_EQ(tree.parent, (Nodes{-1, -1, 1, 0, 3}));
  EXPECT_EQ(tree.score, (std::vector<float>{0.3f, 0.5f, 0.5f, 0.9f, 0.9f}));
  EXPECT_EQ(tree_fault(tree), "");
}

TEST(TreeGrowth, TiesGoToTheFirst) {
  TreeGrowth growth({.width = 1, .max_nodes = 3, .max_depth = 9, .max_parents = 9});
  add(growth, DraftTree::kRoot, {1, 2}, {1.0f, 1.0f});
  EXPECT_EQ(level(growth), (Nodes{0}));
  add(growth, 0, {3, 4}, {1.0f, 1.0f});
  EXPECT_EQ(level(growth), (Nodes{2}));
  add(growth, 2, {5, 6}, {1.0f, 1.0f});
  EXPECT_EQ(growth.tree().token, (Nodes{1, 2, 3}));
}

TEST(TreeGrowth, NoMoreNodesGetChildrenThanMay) {
  TreeGrowth growth({.width = 4, .max_nodes = 64, .max_depth = 64, .max_parents = 11});
  size_t parents = 0;
  Nodes next = {DraftTree::kRoot};
  while (!next.empty()) {
    for (const int32_t node : next) add(growth, node, {1, 2, 3, 4}, {0.4f, 0.3f, 0.2f, 0.1f});
    next = level(growth);
    parents += next.size();
  }
  EXPECT_EQ(parents, 11u);
  EXPECT_EQ(growth.tree().size(), 48);
}

TEST(TreeGrowth, WhatCannotStayGetsNoChildren) {
  TreeGrowth growth({.width = 3, .max_nodes = 3, .max_depth = 9, .max_parents = 64});
  add(growth, DraftTree::kRoot, {1, 2, 3}, {0.5f, 0.3f, 0.2f});
  EXPECT_EQ(level(growth), (Nodes{0, 1, 2}));
  add(growth, 0, {4, 5, 6}, {0.7f, 0.2f, 0.1f});  // 3: 0.35 takes the place of 2
  add(growth, 1, {7, 8, 9}, {0.5f, 0.3f, 0.2f});
  add(growth, 2, {10, 11, 12}, {0.9f, 0.05f, 0.05f});
  EXPECT_EQ(level(growth), (Nodes{3}));
  add(growth, 3, {13, 14, 15}, {0.4f, 0.3f, 0.3f});
  EXPECT_TRUE(level(growth).empty());
  EXPECT_EQ(growth.tree().token, (Nodes{1, 2, 4}));
}

TEST(TreeGrowth, WhatIsNoTokenIsNoNode) {
  TreeGrowth growth({.width = 3, .max_nodes = 8, .max_depth = 3, .max_parents = 9});
  add(growth, DraftTree::kRoot, {7, -1, 8}, {0.5f, 0.0f, 0.0f});
  EXPECT_EQ(level(growth), (Nodes{0}));
  EXPECT_TRUE(level(growth).empty());
  EXPECT_EQ(growth.tree().token, (Nodes{7}));
  TreeGrowth none({.width = 3, .max_nodes = 8, .max_depth = 3, .max_parents = 9});
  add(none, DraftTree::kRoot, {-1, -1, -1}, {0.0f, 0.0f, 0.0f});
  EXPECT_TRUE(level(none).empty());
  EXPECT_TRUE(none.tree().empty());
}

TEST(TreePasses, RowsKnowTheirParentsAndTheirPass) {
  TreePasses passes({.width = 2, .max_nodes = 5, .max_depth = 3, .max_parents = 9});
  EXPECT_EQ(passes.level_size(), 1);
  passes.add_children(Nodes{10, 11}, std::vector<float>{0.3f, 0.5f});
  std::span<const TreePasses::Row> rows = passes.next_level();  // 11, then 10: the likeliest first
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].token, 11);
  EXPECT_EQ(rows[1].token, 10);
  EXPECT_EQ(rows[1].number, 1);
  EXPECT_EQ(rows[1].parent, DraftTree::kRoot);
  EXPECT_EQ(Nodes(rows[1].path.begin(), rows[1].path.end()), (Nodes{1}));
  passes.add_children(Nodes{20, 21, 22, 23}, std::vector<float>{0.5f, 0.25f, 0.9f, 0.1f});
  rows = passes.next_level();  // 22 behind 10, then 20 behind 11
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].token, 22);
  EXPECT_EQ(rows[0].depth, 1);
  EXPECT_EQ(rows[0].number, 2);
  EXPECT_EQ(rows[0].parent, 1);
  EXPECT_EQ(rows[0].above, 1);
  EXPECT_EQ(Nodes(rows[0].path.begin(), rows[0].path.end()), (Nodes{1, 2}));
  EXPECT_EQ(rows[1].token, 20);
  EXPECT_EQ(rows[1].above, 0);
  EXPECT_EQ(Nodes(rows[1].path.begin(), rows[1].path.end()), (Nodes{0, 3}));
  passes.add_children(Nodes{30, 31, 32, 33}, std::vector<float>{0.9f, 0.1f, 0.7f, 0.3f});
  EXPECT_TRUE(passes.next_level().empty());
  EXPECT_EQ(passes.level_size(), 0);
  EXPECT_EQ(passes.rows().token, (Nodes{11, 10, 22, 20}));
  EXPECT_EQ(passes.rows().parent, (Nodes{-1, -1, 1, 0}));
  EXPECT_EQ(passes.tree().token, (Nodes{10, 11, 20, 22, 30}));
  passes.add_children({}, {});  // a tree that is done while others grow
  EXPECT_TRUE(passes.next_level().empty());
}

}  // namespace
}  // namespace paceline
