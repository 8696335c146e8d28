// The trie against counting in the texts themselves: after every token, and after texts that were dropped.

#include "speculative/suffix_tree.h"

#include <deque>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/random_seed.h"

namespace paceline {
namespace {

using Tokens = std::vector<int32_t>;

/// Occurrences of `string` in the texts, and of what follows it there.
struct Counted {
  int count = 0;
  std::map<int32_t, int> next;
};
Counted count_of(const std::deque<Tokens>& texts, std::span<const int32_t> string) {
  Counted found;
  for (const Tokens& text : texts)
    for (size_t begin = 0; begin + string.size() <= text.size(); ++begin) {
      if (!std::equal(string.begin(), string.end(), text.begin() + std::ptrdiff_t(begin))) continue;
      ++found.count;
      if (begin + string.size() < text.size()) ++found.next[text[begin + string.size()]];
    }
  return found;
}

/// Each step of `draft` is a most frequent one with its share; and none that may follow is left out.
void check(const std::deque<Tokens>& texts, const Tokens& text, const SuffixDraft& draft, const SuffixQuery& query,
           int max_depth, bool is_newest) {
  ASSERT_GT(draft.match_length, 0);
  Tokens string(text.end() - draft.match_length, text.end());
  double prob = 1, sum = 0;
  for (int i = 0;; ++i) {
    const Counted counted = count_of(texts, string);
    const int all = counted.count - (is_newest && i == 0 ? 1 : 0);
    int most = 0;
    for (const auto& [token, count] : counted.next) most = std::max(most, count);
    const double share = double(most) / std::max(all, 1);
    const bool may_go_on = i < std::min(query.max_drafts, int(draft.match_length * query.factor + 1e-6)) &&
                           int(string.size()) < max_depth && most > 0 && prob * share >= query.min_prob;
    ASSERT_EQ(i < draft.tree.size(), may_go_on) << "draft " << i << " of " << draft.tree.size();
    if (!may_go_on) break;
    const int32_t token = draft.tree.token[size_t(i)];
    ASSERT_EQ(counted.next.at(token), most) << "draft " << i;
    prob *= share;
    sum += prob;
    EXPECT_FLOAT_EQ(draft.tree.score[size_t(i)], float(share));
    string.push_back(token);
  }
  EXPECT_NEAR(draft.sum, sum, 1e-9);
  EXPECT_TRUE(draft.tree.is_chain());
}

/// The longest suffix that occurs elsewhere, at most max_depth - 1 tokens.
int longest_match(const std::deque<Tokens>& texts, const Tokens& text, int max_depth, bool is_newest) {
  int longest = 0;
  for (int length = 1; length <= std::min(int(text.size()), max_depth - 1); ++length) {
    const std::span<const int32_t> string = std::span(text).last(size_t(length));
    if (count_of(texts, string).count > (is_newest ? 1 : 0)) longest = length;
  }
  return longest;
}

TEST(SuffixTree, DraftsAreCountedInTheTextItself) {
  std::mt19937 random(test::random_seed());
  for (const auto& [alphabet, depth] : {std::pair{2, 6}, {3, 24}, {14, 5}, {40, 24}}) {
    SuffixTree tree(depth);
    tree.begin_text();
    std::deque<Tokens> texts(1);
    for (int i = 0; i < 300; ++i) {
      const int32_t token = random() % 5 == 0 && texts[0].size() > 20 ? texts[0][texts[0].size() - 20]
                                                                      : int32_t(random() % unsigned(alphabet));
      tree.append(std::span(&token, 1));
      texts[0].push_back(token);
      const SuffixQuery query{.max_drafts = 1 + i % 7, .max_depth = 64, .factor = 0.5 + i % 4, .min_prob = 0.1};
      const SuffixDraft draft = tree.draft(texts[0], query, true);
      if (longest_match(texts, texts[0], depth, true) == 0)
        EXPECT_TRUE(draft.tree.empty());
      else if (!draft.tree.empty())
        check(texts, texts[0], draft, query, depth, true);
      ASSERT_FALSE(HasFatalFailure()) << "token " << i << " of alphabet " << alphabet;
    }
  }
}

TEST(SuffixTree, DroppedTextsLeaveNothingBehind) {
  std::mt19937 random(test::random_seed());
  for (const auto& [alphabet, depth] : {std::pair{2, 6}, {3, 24}, {30, 8}}) {
    SuffixTree tree(depth);
    std::deque<Tokens> texts;
    int num_drafts = 0;
    for (int round = 0; round < 120; ++round) {
      Tokens text;
      for (int i = 0, length = int(random() % 60); i < length; ++i)
        text.push_back(int32_t(random() % unsigned(alphabet)));
      if (round % 3 == 0 && !texts.empty()) text = texts[random() % texts.size()];  // whole texts come again
      tree.begin_text();
      tree.append(text);
      texts.push_back(text);
      while (texts.size() > 4) {
        tree.drop_oldest();
        texts.pop_front();
      }
      int64_t num_tokens = 0;
      for (const Tokens& each : texts) num_tokens += int64_t(each.size());
      EXPECT_EQ(tree.num_tokens(), num_tokens);
      EXPECT_EQ(tree.num_texts(), int(texts.size()));
      for (int ask = 0; ask < 20; ++ask) {
        Tokens behind;
        for (int i = 0; i < 5; ++i) behind.push_back(int32_t(random() % unsigned(alphabet)));
        const SuffixQuery query{.max_drafts = 4, .max_depth = 64, .factor = 2.0, .min_prob = 0.05};
        const SuffixDraft draft = tree.draft(behind, query, false);
        if (longest_match(texts, behind, depth, false) == 0)
          EXPECT_TRUE(draft.tree.empty());
        else if (!draft.tree.empty())
          check(texts, behind, draft, query, depth, false), ++num_drafts;
        ASSERT_FALSE(HasFatalFailure()) << "round " << round << " of alphabet " << alphabet;
      }
    }
    EXPECT_GT(num_drafts, 500);
    const size_t bytes = tree.bytes();
    for (int i = 0; i < 4; ++i) {
      tree.begin_text();
      tree.drop_oldest();
    }
    EXPECT_EQ(tree.num_tokens(), 0);
    EXPECT_TRUE(tree.draft(Tokens{0, 1, 0}, {.max_drafts = 4, .max_depth = 4}, false).tree.empty());
    EXPECT_LE(tree.bytes(), bytes + 1024) << "freed nodes are taken again";
  }
}

TEST(SuffixTree, BranchesByLikelihood) {
  SuffixTree tree(24);
  tree.begin_text();
  tree.append(Tokens{7, 1, 2, 7, 1, 2, 7, 1, 3, 7, 5, 7});
  // Behind 7: 1 thrice, 5 once; behind 7 1: 2 twice, 3 once.
  const SuffixDraft draft = tree.draft(Tokens{7, 1, 2, 7, 1, 2, 7, 1, 3, 7, 5, 7},
                                       {.max_drafts = 5, .max_depth = 9, .factor = 5, .branches = true}, true);
  EXPECT_EQ(draft.match_length, 1);
  EXPECT_EQ(draft.tree.token, (Tokens{1, 2, 7, 1, 5}));  // 0.75, 0.5, 0.5, 0.5, then 5 and others with 0.25
  EXPECT_EQ(draft.tree.parent, (Tokens{-1, 0, 1, 2, -1}));
  EXPECT_FLOAT_EQ(draft.tree.score[0], 0.75f);
  EXPECT_FLOAT_EQ(draft.tree.score[1], 2.0f / 3);
  EXPECT_NEAR(draft.sum, 0.75 + 3 * 0.5 + 0.25, 1e-9);
}

TEST(SuffixTree, LongerSuffixesWinTies) {
  SuffixTree tree(24);
  tree.begin_text();
  const Tokens text = {1, 2, 3, 4, 9, 1, 2, 3};
  tree.append(text);
  const SuffixDraft draft = tree.draft(text, {.max_drafts = 1, .max_depth = 9, .factor = 1}, true);
  EXPECT_EQ(draft.match_length, 3);
  EXPECT_EQ(draft.tree.token, Tokens{4});
}

}  // namespace
}  // namespace paceline
