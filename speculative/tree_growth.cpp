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

void TreePasses::add_children(std::span<const int32_t> token, std::span<const float> prob) {
  if (level_.empty()) return;
  const size_t each = token.size() / level_.size();
  for (size_t i = 0; i < level_.size(); ++i)
    growth_.add_children(level_[i], token.subspan(i * each, each), prob.subspan(i * each, each));
}

std::vector<int32_t> TreePasses::tokens_of(const Row& row) const {
  std::vector<int32_t> tokens;
  for (const int32_t number : row.path) tokens.push_back(rows_.token[size_t(number)]);
  return tokens;
}

std::span<const TreePasses::Row> TreePasses::next_level() {
  const int first_above = rows_.size() - int(level_.size());
  const std::span<const int32_t> chosen = growth_.next_level();
  level_.assign(chosen.begin(), chosen.end());
  next_.clear();
  for (const int32_t node : level_) {
    const int32_t parent_node = growth_.parent(node);
    Row row{.token = growth_.token(node), .depth = growth_.depth(node)};
    std::vector<int32_t> path;
    if (parent_node != DraftTree::kRoot) {
      row.parent = number_[size_t(parent_node)];
      row.above = row.parent - first_above;
      path = path_[size_t(row.parent)];
    }
    row.number = rows_.add(row.token, row.parent);
    path.push_back(row.number);
    number_.resize(std::max(number_.size(), size_t(node) + 1));
    number_[size_t(node)] = row.number;
    path_.push_back(std::move(path));
    next_.push_back(row);
  }
  for (Row& row : next_) row.path = path_[size_t(row.number)];
  return next_;
}

}  // namespace paceline
