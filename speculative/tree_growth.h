#pragma once
// A draft tree that grows level by level (Li et al. 2024, EAGLE-2, sections 4.1 and 4.2): the likeliest nodes of each
// level get children, and in the end the likeliest of all nodes stay.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/draft_tree.h"

namespace paceline {

struct GrowthLimits {
  int width = 1;        // children of a node, and nodes of a level that get any
  int max_nodes = 0;    // of tree()
  int max_depth = 0;    // levels
  int max_parents = 0;  // nodes that get children
};

/// Nodes are numbered as they come, parents before children. How likely a node is: the product of the probabilities on
/// its path; of two alike, the first.
class TreeGrowth {
 public:
  explicit TreeGrowth(const GrowthLimits& limits) : limits_(limits) {}

  /// The children of `parent`, or of DraftTree::kRoot: all different, those below 0 or without probability left out.
  void add_children(int32_t parent, std::span<const int32_t> token, std::span<const float> prob);

  /// Ends the newest level. Its nodes that get children, the likeliest first: none that could not stay. Nobody: the tree
  /// is done. Valid until the next call.
  std::span<const int32_t> next_level();

  int32_t token(int32_t node) const { return nodes_[size_t(node)].token; }
  int32_t parent(int32_t node) const { return nodes_[size_t(node)].parent; }
  int32_t depth(int32_t node) const { return nodes_[size_t(node)].depth; }  // 0: a child of the root

  /// The likeliest max_nodes, with scores.
  DraftTree tree() const;

 private:
  struct Node {
    int32_t token, parent, depth;
    float prob;        // behind its parent
    double path_prob;  // from the root on
  };

  /// Nodes that would stay if it ended here, the likeliest first.
  std::vector<int32_t> likeliest() const;

  GrowthLimits limits_;
  std::vector<Node> nodes_;
  size_t level_begin_ = 0;
  int num_levels_ = 1, num_parents_ = 0;
  std::vector<int32_t> chosen_;
};

}  // namespace paceline
