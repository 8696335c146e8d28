#include "speculative/tree_growth.h"

#include <algorithm>
#include <numeric>

namespace paceline {

void TreeGrowth::add_children(int32_t parent, std::span<const int32_t> token, std::span<const float> prob) {
  const bool is_first = parent == DraftTree::kRoot;
  const int32_t depth = is_first ? 0 : nodes_[size_t(parent)].depth + 1;
  const double path_prob = is_first ? 1.0 : nodes_[size_t(parent)].path_prob;
  for (size_t i = 0; i < token.size(); ++i)
    if (token[i] >= 0 && prob[i] > 0.0f)
      nodes_.push_back({token[i], parent, depth, prob[i], path_prob * double(prob[i])});
}

std::vector<int32_t> TreeGrowth::likeliest() const {
  std::vector<int32_t> order(nodes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return nodes_[size_t(a)].path_prob > nodes_[size_t(b)].path_prob; });
  order.resize(std::min(order.size(), size_t(std::max(limits_.max_nodes, 0))));
  return order;
}

std::span<const int32_t> TreeGrowth::next_level() {
  // What is not among the likeliest now never will be, nor what grows from it.
  chosen_ = likeliest();
  std::erase_if(chosen_, [&](int32_t node) { return size_t(node) < level_begin_; });
  level_begin_ = nodes_.size();
  const int most = num_levels_++ < limits_.max_depth ? std::min(limits_.width, limits_.max_parents - num_parents_) : 0;
  chosen_.resize(std::min(chosen_.size(), size_t(std::max(most, 0))));
  num_parents_ += int(chosen_.size());
  return chosen_;
}

DraftTree TreeGrowth::tree() const {
  std::vector<int32_t> kept = likeliest();
  std::sort(kept.begin(), kept.end());  // parents come before their children, which are no likelier
  std::vector<int32_t> place(nodes_.size(), DraftTree::kRoot);
  DraftTree tree;
  for (const int32_t node : kept) {
    const Node& from = nodes_[size_t(node)];
    place[size_t(node)] =
        tree.add(from.token, from.parent == DraftTree::kRoot ? DraftTree::kRoot : place[size_t(from.parent)]);
    tree.score.push_back(from.prob);
  }
  return tree;
}

}  // namespace paceline
