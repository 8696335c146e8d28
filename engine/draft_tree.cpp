#include "engine/draft_tree.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace paceline {

DraftTree DraftTree::chain(std::vector<int32_t> tokens) {
  DraftTree tree{.token = std::move(tokens), .parent = {}, .score = {}};
  tree.parent.resize(tree.token.size());
  std::iota(tree.parent.begin(), tree.parent.end(), kRoot);
  return tree;
}

bool DraftTree::is_chain() const {
  for (int32_t node = 0; node < size(); ++node)
    if (parent[size_t(node)] != node - 1) return false;
  return true;
}

int32_t DraftTree::add(int32_t token_id, int32_t parent_index) {
  token.push_back(token_id);
  parent.push_back(parent_index);
  return size() - 1;
}

std::vector<int32_t> DraftTree::depths() const {
  std::vector<int32_t> depth;
  for (const int32_t above : parent) depth.push_back(above == kRoot ? 0 : depth[size_t(above)] + 1);
  return depth;
}

int DraftTree::depth() const {
  if (is_chain()) return size();
  int deepest = 0;
  for (const int32_t depth : depths()) deepest = std::max(deepest, depth + 1);
  return deepest;
}

std::span<const int32_t> path_out_of_place(std::span<const int32_t> path) {
  for (size_t depth = 0; depth < path.size(); ++depth)
    if (path[depth] != int32_t(depth)) return path;
  return {};
}

std::string tree_fault(const DraftTree& tree) {
  const int size = tree.size();
  if (size > kMaxDraftLen) return fmt::format("{} drafts, a step has {} at most", size, kMaxDraftLen);
  if (int(tree.parent.size()) != size) return fmt::format("{} drafts with {} parents", size, tree.parent.size());
  if (!tree.score.empty() && int(tree.score.size()) != size)
    return fmt::format("{} drafts with {} scores", size, tree.score.size());
  for (int node = 0; node < size; ++node) {
    const int32_t parent = tree.parent[size_t(node)];
    if (parent < DraftTree::kRoot || parent >= node) return fmt::format("draft {} has parent {}", node, parent);
    if (!tree.score.empty() && !(tree.score[size_t(node)] >= 0))
      return fmt::format("draft {} has score {}", node, tree.score[size_t(node)]);
    for (int other = 0; other < node; ++other)
      if (tree.parent[size_t(other)] == parent && tree.token[size_t(other)] == tree.token[size_t(node)])
        return fmt::format("drafts {} and {} are both token {} after the same parent", other, node,
                           tree.token[size_t(node)]);
  }
  return "";
}

}  // namespace paceline
