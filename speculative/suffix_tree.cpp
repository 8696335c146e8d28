#include "speculative/suffix_tree.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "speculative/tree_growth.h"

namespace paceline {

SuffixTree::SuffixTree(int max_depth) : max_depth_(max_depth) {
  PACELINE_CHECK(max_depth >= 2, "suffixes of {} tokens", max_depth);
  nodes_.push_back({});
}

void SuffixTree::begin_text() {
  texts_.emplace_back();
  active_.clear();
}

void SuffixTree::append(std::span<const int32_t> tokens) {
  PACELINE_CHECK(!texts_.empty(), "{} tokens without a text", tokens.size());
  for (const int32_t token : tokens) append(token);
}

// The longest suffixes first: one that becomes a leaf is there when a shorter one meets it.
void SuffixTree::append(int32_t token) {
  std::vector<int32_t>& text = texts_.back();
  const int32_t number = first_text_ + int32_t(texts_.size()) - 1, end = int32_t(text.size()) + 1;
  text.push_back(token);
  ++num_tokens_;
  const int longest = std::min(int(active_.size()), max_depth_ - 1);
  next_active_.assign(size_t(longest) + 1, kNone);
  for (int length = longest; length >= 0; --length) {
    const int32_t parent = length == 0 ? kRoot : active_[size_t(length) - 1];
    if (parent == kNone) continue;
    const int32_t child = find_child(parent, token);
    if (child == kNone) {
      add_leaf(parent, token, number, end);
      continue;
    }
    if (node(child).is_leaf()) expand(child, length + 1);
    count_up(parent, child);
    next_active_[size_t(length)] = child;
  }
  active_.swap(next_active_);
}

void SuffixTree::drop_oldest() {
  PACELINE_CHECK(texts_.size() >= 2, "{} texts, the newest stays", texts_.size());
  const std::vector<int32_t>& text = texts_.front();
  std::vector<int32_t> path;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    path.assign(1, kRoot);
    for (size_t at = begin; at < std::min(text.size(), begin + size_t(max_depth_)); ++at) {
      path.push_back(find_child(path.back(), text[at]));
      if (node(path.back()).is_leaf()) break;
    }
    for (size_t depth = path.size() - 1; depth > 0; --depth) {
      const int32_t child = path[depth], parent = path[depth - 1];
      if (node(child).count == 1) {
        remove_child(parent, child);
      } else {
        count_down(parent, child);
        collapse(child);
      }
    }
  }
  num_tokens_ -= int64_t(text.size());
  texts_.pop_front();
  ++first_text_;
}

size_t SuffixTree::bytes() const {
  constexpr size_t kOfEntry = 48;  // of a hash table's: the pair, the next one, what the allocator adds
  size_t bytes = nodes_.capacity() * sizeof(Node) + many_.size() * kOfEntry + many_.bucket_count() * sizeof(void*);
  for (const std::vector<int32_t>& text : texts_) bytes += sizeof(text) + text.capacity() * sizeof(int32_t);
  return bytes;
}

int32_t SuffixTree::find_child(int32_t parent, int32_t token) const {
  if (node(parent).num_children() > kListed) {
    const auto found = many_.find(key(parent, token));
    return found == many_.end() ? kNone : found->second;
  }
  int32_t child = node(parent).first;
  while (child != kNone && node(child).token != token) child = node(child).next;
  return child;
}

int32_t SuffixTree::add_leaf(int32_t parent, int32_t token, int32_t text, int32_t where) {
  int32_t child = free_;
  if (child == kNone) {
    child = int32_t(nodes_.size());
    nodes_.emplace_back();
  } else {
    free_ = node(child).next;
  }
  node(child) = {.count = 1, .token = token, .first = text, .where = where};
  const int before = node(parent).num_children();
  int32_t ahead = kNone;
  for (int i = 0; i < std::min(before, kOrdered); ++i) ahead = ahead == kNone ? node(parent).first : node(ahead).next;
  link_behind(parent, ahead, child);
  --node(parent).where;
  if (before == kListed)
    for (int32_t each = node(parent).first; each != kNone; each = node(each).next)
      many_.emplace(key(parent, node(each).token), each);
  else if (before > kListed)
    many_.emplace(key(parent, token), child);
  return child;
}

void SuffixTree::expand(int32_t leaf, int depth) {
  const Node was = node(leaf);
  node(leaf).first = kNone;
  node(leaf).where = -1;
  const std::vector<int32_t>& text = text_of(was);
  if (depth < max_depth_ && size_t(was.where) < text.size())
    add_leaf(leaf, text[size_t(was.where)], was.first, was.where + 1);
}

void SuffixTree::collapse(int32_t parent) {
  if (node(parent).count != 1 || node(parent).num_children() != 1) return;
  const int32_t child = node(parent).first;
  if (!node(child).is_leaf()) return;
  const Node was = node(child);
  remove_child(parent, child);
  node(parent).first = was.first;
  node(parent).where = was.where - 1;
}

void SuffixTree::remove_child(int32_t parent, int32_t child) {
  const int before = node(parent).num_children();
  if (before > kListed) {
    many_.erase(key(parent, node(child).token));
    if (before == kListed + 1)
      for (int32_t each = node(parent).first; each != kNone; each = node(each).next)
        many_.erase(key(parent, node(each).token));
  }
  unlink(parent, child);
  ++node(parent).where;
  node(child) = {.next = free_};
  free_ = child;
}

void SuffixTree::link_behind(int32_t parent, int32_t ahead, int32_t child) {
  int32_t& next = ahead == kNone ? node(parent).first : node(ahead).next;
  node(child).prev = ahead;
  node(child).next = next;
  if (next != kNone) node(next).prev = child;
  next = child;
}

void SuffixTree::unlink(int32_t parent, int32_t child) {
  const auto [prev, next] = std::pair(node(child).prev, node(child).next);
  (prev == kNone ? node(parent).first : node(prev).next) = next;
  if (next != kNone) node(next).prev = prev;
}

// Those that stand first are in order, and none behind them is more frequent.
void SuffixTree::count_up(int32_t parent, int32_t child) {
  const int32_t count = ++node(child).count;
  const int32_t prev = node(child).prev;
  if (prev == kNone || node(prev).count >= count) return;
  int32_t at = node(parent).first;
  for (int i = 0; i < kOrdered && at != child; ++i, at = node(at).next) {
    if (node(at).count >= count) continue;
    unlink(parent, child);
    return link_behind(parent, node(at).prev, child);
  }
}

void SuffixTree::count_down(int32_t parent, int32_t child) {
  const int32_t count = --node(child).count;
  int32_t at = node(parent).first;
  int place = 0;
  while (place < kOrdered && at != child) at = node(at).next, ++place;
  if (place == kOrdered) return;
  int32_t ahead = child;  // who stands before its new place
  for (int32_t next = node(child).next; place + 1 < kOrdered && next != kNone && node(next).count > count; ++place) {
    ahead = next;
    next = node(next).next;
  }
  int32_t best = kNone;  // of those behind, where it would be the last in order
  if (place + 1 == kOrdered)
    for (int32_t each = node(ahead).next; each != kNone; each = node(each).next)
      if (node(each).count > (best == kNone ? count : node(best).count)) best = each;
  if (best == kNone && ahead == child) return;
  if (ahead == child) ahead = node(child).prev;
  unlink(parent, child);
  if (best != kNone) {
    unlink(parent, best);
    link_behind(parent, ahead, best);
    ahead = best;
  }
  link_behind(parent, ahead, child);
}

template <class Each>
void SuffixTree::for_next(const Place& place, int depth, int most, Each&& each) const {
  const Node& from = node(place.node);
  if (depth >= max_depth_) return;
  if (from.is_leaf()) {
    const std::vector<int32_t>& text = text_of(from);
    const size_t at = size_t(from.where) + size_t(place.ahead);
    if (at < text.size()) each(text[at], 1, Place{place.node, place.ahead + 1});
    return;
  }
  int32_t child = from.first;
  for (int i = 0; i < most && child != kNone; ++i, child = node(child).next)
    each(node(child).token, node(child).count, Place{child, 0});
}

SuffixTree::Place SuffixTree::walk(const Place& from, int depth, int32_t token) const {
  if (!node(from.node).is_leaf()) return {find_child(from.node, token), 0};
  Place found;
  for_next(from, depth, 1, [&](int32_t next, int32_t, const Place& place) {
    if (next == token) found = place;
  });
  return found;
}

SuffixDraft SuffixTree::draft(std::span<const int32_t> text, const SuffixQuery& query, bool is_newest) const {
  SuffixDraft best;
  const int longest = int(std::min<size_t>(text.size(), size_t(max_depth_) - 1));
  for (int length = 1; length <= longest; ++length) {
    Place place{.node = kRoot, .ahead = 0};
    int32_t occurrences = 0;
    if (is_newest) {
      place.node = active_[size_t(length) - 1];
      if (place.node == kNone) break;  // nor does a longer one
      occurrences = node(place.node).count - 1;
    } else {
      for (int i = 0; i < length && place.node != kNone; ++i)
        place = walk(place, i, text[text.size() - size_t(length) + size_t(i)]);
      if (place.node == kNone) break;
      occurrences = node(place.node).is_leaf() ? 1 : node(place.node).count;
    }
    if (occurrences <= 0) continue;
    const int budget = std::min(query.max_drafts, int(double(length) * query.factor + 1e-6));
    // A chain costs no memory before it is the best.
    if (!query.branches && chain_behind(place, length, occurrences, budget, query, nullptr) < best.sum) continue;
    SuffixDraft found{.tree = {}, .sum = 0, .match_length = length};
    found.sum = query.branches ? tree_behind(place, length, occurrences, budget, query, found.tree)
                               : chain_behind(place, length, occurrences, budget, query, &found.tree);
    if (!found.tree.empty() && found.sum >= best.sum) best = std::move(found);
  }
  return best;
}

double SuffixTree::chain_behind(Place place, int length, int32_t occurrences, int budget, const SuffixQuery& query,
                                DraftTree* tree) const {
  double prob = 1, sum = 0;
  for (int i = 0; i < std::min(budget, query.max_depth); ++i) {
    const double before = prob;
    prob = 0;
    for_next(place, length + i, 1, [&](int32_t token, int32_t count, const Place& next) {
      const double share = double(count) / occurrences;
      prob = before * share;
      if (prob < query.min_prob) return;
      if (tree) {
        tree->add(token, i - 1);
        tree->score.push_back(float(share));
      }
      occurrences = count;
      place = next;
    });
    if (prob <= 0 || prob < query.min_prob) break;
    sum += prob;
  }
  return sum;
}

double SuffixTree::tree_behind(const Place& from, int length, int32_t occurrences, int budget, const SuffixQuery& query,
                               DraftTree& tree) const {
  using Child = LikelyChild<std::pair<Place, int32_t>>;  // and its occurrences
  return grow_likeliest_first(tree, std::pair(from, occurrences), budget, query.max_depth, query.min_prob,
                              [&](const std::pair<Place, int32_t>& at, int level, auto&& add) {
                                for_next(at.first, length + level, kOrdered,
                                         [&](int32_t token, int32_t count, const Place& place) {
                                           add(Child{token, double(count) / at.second, {place, count}});
                                         });
                              });
}

}  // namespace paceline
