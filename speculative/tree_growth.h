#pragma once
// Draft trees of the likeliest nodes. Where asking for children costs a pass, one grows level by level (Li et al. 2024,
// EAGLE-2, sections 4.1 and 4.2): the likeliest nodes of each level get children, and in the end the likeliest of all
// stay. Where it costs nothing, one node after the other.

#include <cstdint>
#include <queue>
#include <span>
#include <utility>
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

  /// Ends the newest level. Its nodes that get children, the likeliest first: none that could not stay. Nobody: the
  /// tree is done. Valid until the next call.
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

/// A tree that grows by passes of a model: nodes that get children have a row each, numbered as they come, so that the
/// rows of a level have consecutive numbers.
class TreePasses {
 public:
  struct Row {
    int32_t token = 0;
    int32_t depth = 0;                   // 0: a child of the root
    int32_t number = 0;                  // parents have smaller ones
    int32_t parent = DraftTree::kRoot;   // number of its parent's row
    int32_t above = 0;                   // which row of the pass before its parent's is
    std::span<const int32_t> path = {};  // numbers of the rows on the way to it, its own the last
  };

  explicit TreePasses(const GrowthLimits& limits) : growth_(limits) {}

  /// Rows of the newest pass; before the first there is one, the text's last.
  int level_size() const { return int(level_.size()); }
  /// What the newest pass gave, in order: as many children for each of its rows, as TreeGrowth::add_children.
  void add_children(std::span<const int32_t> token, std::span<const float> prob);
  /// The rows of the next pass; none: the tree is done. Valid until the next call.
  std::span<const Row> next_level();

  /// The rows so far, by number; and the tokens on the way to one, its own the last.
  const DraftTree& rows() const { return rows_; }
  std::vector<int32_t> tokens_of(const Row& row) const;
  DraftTree tree() const { return growth_.tree(); }

 private:
  TreeGrowth growth_;
  std::vector<int32_t> level_{DraftTree::kRoot};  // nodes of growth_
  std::vector<int32_t> number_;                   // of each node of growth_ that has a row
  std::vector<std::vector<int32_t>> path_;        // by number
  DraftTree rows_;
  std::vector<Row> next_;
};

/// A child of a node, as children_of() of grow_likeliest_first hands it over. State: what its own children are found
/// by.
template <class State>
struct LikelyChild {
  int32_t token = 0;
  double share = 0;  // of its parent's probability
  State state;
};

/// Adds the likeliest nodes, at most max_nodes in max_depth levels, to an empty `tree`, with scores: a node's
/// probability is the product of the shares on its path, of two alike the one that was handed over first. Nodes below
/// min_prob are left out. children_of(state, level, add) calls add(LikelyChild<State>) for each of a node's children,
/// which lie on that level. Returns the sum of the nodes' probabilities.
template <class State, class ChildrenOf>
double grow_likeliest_first(DraftTree& tree, const State& root, int max_nodes, int max_depth, double min_prob,
                            ChildrenOf&& children_of) {
  struct Waiting {
    LikelyChild<State> child;
    int32_t parent;
    int level, order;
    double prob;
    bool operator<(const Waiting& other) const { return prob != other.prob ? prob < other.prob : order > other.order; }
  };
  std::priority_queue<Waiting> waiting;
  int order = 0;
  const auto branch_off = [&](const State& from, int32_t parent, int level, double prob) {
    if (level >= max_depth) return;
    children_of(from, level, [&](LikelyChild<State> child) {
      const double of_path = prob * child.share;
      if (of_path >= min_prob) waiting.push({std::move(child), parent, level, order++, of_path});
    });
  };
  branch_off(root, DraftTree::kRoot, 0, 1.0);
  double sum = 0;
  while (!waiting.empty() && tree.size() < max_nodes) {
    const Waiting best = waiting.top();
    waiting.pop();
    const int32_t node = tree.add(best.child.token, best.parent);
    tree.score.push_back(float(best.child.share));
    sum += best.prob;
    branch_off(best.child.state, node, best.level + 1, best.prob);
  }
  return sum;
}

}  // namespace paceline
