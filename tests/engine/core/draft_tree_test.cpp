#include "engine/draft_tree.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(DraftTree, AChainGrowsFromItsLastNode) {
  const DraftTree chain = DraftTree::chain({7, 8, 8});
  EXPECT_EQ(chain.parent, (std::vector<int32_t>{-1, 0, 1}));
  EXPECT_EQ(chain.depths(), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(chain.is_chain());
  EXPECT_EQ(tree_fault(chain), "");
  EXPECT_TRUE(DraftTree::chain({}).is_chain());
  EXPECT_TRUE(DraftTree::chain({}).empty());
}

TEST(DraftTree, NodesKeepTheOrderInWhichTheyCame) {
  DraftTree tree;
  EXPECT_EQ(tree.add(5, DraftTree::kRoot), 0);
  EXPECT_EQ(tree.add(6, DraftTree::kRoot), 1);
  EXPECT_EQ(tree.add(5, 1), 2);
  EXPECT_EQ(tree.add(9, 0), 3);
  EXPECT_EQ(tree.add(4, 2), 4);
  EXPECT_EQ(tree.size(), 5);
  EXPECT_FALSE(tree.is_chain());
  EXPECT_EQ(tree.depths(), (std::vector<int32_t>{0, 0, 1, 1, 2}));
  EXPECT_EQ(tree_fault(tree), "");
}

TEST(DraftTree, FaultsAreSaid) {
  EXPECT_EQ(tree_fault(DraftTree::chain(std::vector<int32_t>(kMaxDraftLen, 3))), "");
  EXPECT_EQ(tree_fault(DraftTree::chain(std::vector<int32_t>(kMaxDraftLen + 1, 3))),
            "65 drafts, a step has 64 at most");
  EXPECT_EQ(tree_fault({.token = {1, 2}, .parent = {-1}, .score = {}}), "2 drafts with 1 parents");
  EXPECT_EQ(tree_fault({.token = {1, 2}, .parent = {-1, 0}, .score = {0.5f}}), "2 drafts with 1 scores");
  EXPECT_EQ(tree_fault({.token = {1, 2}, .parent = {-1, 1}, .score = {}}), "draft 1 has parent 1");
  EXPECT_EQ(tree_fault({.token = {1}, .parent = {-2}, .score = {}}), "draft 0 has parent -2");
  EXPECT_EQ(tree_fault({.token = {4, 9, 4}, .parent = {-1, 0, -1}, .score = {}}),
            "drafts 0 and 2 are both token 4 after the same parent");
}

}  // namespace
}  // namespace paceline
