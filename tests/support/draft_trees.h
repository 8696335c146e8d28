#pragma once
// Draft trees of tests that compare each path with a chain.

#include <algorithm>
#include <random>
#include <vector>

#include "engine/draft_tree.h"

namespace paceline::test {

/// Node i has token i, and one of the few nodes before it as its parent.
inline DraftTree random_tree(std::mt19937& random, int nodes) {
  const int spread = 1 + int(random() % 4);  // 1: a chain, or nearly
  DraftTree tree;
  for (int node = 0; node < nodes; ++node) {
    const int oldest = std::max(-1, node - spread);
    tree.add(node, oldest + int(random() % unsigned(node - oldest)));
  }
  return tree;
}

/// Nodes from the root's child to `node`.
inline std::vector<int> path_to(const DraftTree& tree, int node) {
  std::vector<int> path;
  for (; node != DraftTree::kRoot; node = tree.parent[size_t(node)]) path.push_back(node);
  std::reverse(path.begin(), path.end());
  return path;
}

/// Nodes that no other stands behind.
inline std::vector<int> leaves_of(const DraftTree& tree) {
  std::vector<int> leaves;
  for (int node = 0; node < tree.size(); ++node)
    if (std::count(tree.parent.begin(), tree.parent.end(), node) == 0) leaves.push_back(node);
  return leaves;
}

}  // namespace paceline::test
