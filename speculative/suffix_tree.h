#pragma once
// All suffixes of some texts, cut to a length, and how often each of their beginnings occurs: a trie whose node for a
// string is made once the string occurs twice (Oliaro et al. 2024, SuffixDecoding, section 4.1).

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/draft_tree.h"

namespace paceline {

/// What may be drafted behind a text.
struct SuffixQuery {
  int max_drafts = 0;
  int max_depth = 0;      // levels of a tree
  double factor = 1.0;    // tokens drafted behind a suffix of n known ones: factor * n at most
  double min_prob = 0.1;  // of a draft: the product of the shares along its path
  bool branches = false;  // else the likeliest chain
};

/// Drafts with scores (the share of their parent's occurrences), and the sum of their probabilities.
struct SuffixDraft {
  DraftTree tree;
  double sum = 0;
  int match_length = 0;  // tokens of the suffix that it continues
};

/// Texts of token ids. The share of a token behind a string is the number of times that it stands there, over the
/// occurrences of the string. Of equally frequent tokens the one seen there first counts as likelier.
class SuffixTree {
 public:
  explicit SuffixTree(int max_depth);

  /// The next tokens of the newest text; begin_text() starts another, whose suffixes end with the one before.
  void begin_text();
  void append(std::span<const int32_t> tokens);
  /// Forgets the oldest text. REQUIRES: there is one that is not the newest.
  void drop_oldest();

  int64_t num_tokens() const { return num_tokens_; }
  int num_texts() const { return int(texts_.size()); }
  /// Of everything that grows with the texts.
  size_t bytes() const;

  /// What follows the suffixes of `text`: of all lengths, the drafts with the largest sum, the longest of equals.
  /// is_newest: `text` is the newest text itself, whose end is no occurrence.
  SuffixDraft draft(std::span<const int32_t> text, const SuffixQuery& query, bool is_newest) const;

 private:
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kRoot = 0;
  static constexpr int kOrdered = 10;  // children of a node that stand first, in order
  static constexpr int kListed = 8;    // of more children one is looked up in many_

  /// A string. A leaf stands for one occurrence and all that follows there; it has no children.
  struct Node {
    int32_t count = 0;                   // occurrences
    int32_t token = 0;                   // the last of the string
    int32_t first = kNone;               // child; of a leaf: number of its text
    int32_t prev = kNone, next = kNone;  // siblings
    int32_t where = -1;  // of a leaf: place of the token behind, in its text; else -1 - number of children
    bool is_leaf() const { return where >= 0; }
    int num_children() const { return -1 - where; }
  };
  /// A string that occurs: a node, or what follows a leaf `ahead` tokens on.
  struct Place {
    int32_t node = kNone;
    int32_t ahead = 0;
  };

  Node& node(int32_t index) { return nodes_[size_t(index)]; }
  const Node& node(int32_t index) const { return nodes_[size_t(index)]; }
  const std::vector<int32_t>& text_of(const Node& leaf) const { return texts_[size_t(leaf.first - first_text_)]; }
  static uint64_t key(int32_t parent, int32_t token) { return uint64_t(uint32_t(parent)) << 32 | uint32_t(token); }

  void append(int32_t token);
  int32_t find_child(int32_t parent, int32_t token) const;
  int32_t add_leaf(int32_t parent, int32_t token, int32_t text, int32_t where);
  /// Its occurrence goes on in a child, so that others can branch off.
  void expand(int32_t leaf, int depth);
  /// What is left of it is one occurrence in a child: the other way round.
  void collapse(int32_t parent);
  void remove_child(int32_t parent, int32_t child);
  void link_behind(int32_t parent, int32_t ahead, int32_t child);  // ahead kNone: as the first
  void unlink(int32_t parent, int32_t child);
  void count_up(int32_t parent, int32_t child);
  void count_down(int32_t parent, int32_t child);

  /// Behind `place`, whose string has `depth` tokens: calls each(token, count, place) for the likeliest tokens in
  /// order, `most` (<= kOrdered) of them.
  template <class Each>
  void for_next(const Place& place, int depth, int most, Each&& each) const;
  Place walk(const Place& from, int depth, int32_t token) const;
  // What follows `place`, a string of `length` tokens that occurs so often: its drafts, at most `budget`; returns the
  // sum of their probabilities. tree null: the sum alone.
  double chain_behind(Place place, int length, int32_t occurrences, int budget, const SuffixQuery& query,
                      DraftTree* tree) const;
  double tree_behind(const Place& place, int length, int32_t occurrences, int budget, const SuffixQuery& query,
                     DraftTree& tree) const;

  const int max_depth_;
  std::vector<Node> nodes_;
  int32_t free_ = kNone;                        // by Node::next
  std::unordered_map<uint64_t, int32_t> many_;  // (parent, token): the child, of parents with more than kListed
  std::deque<std::vector<int32_t>> texts_;
  int32_t first_text_ = 0;  // number of texts_[0]
  int64_t num_tokens_ = 0;
  // Of the newest text's suffixes of 1, 2, ... tokens: their nodes; kNone: their only occurrence.
  std::vector<int32_t> active_, next_active_;
};

}  // namespace paceline
