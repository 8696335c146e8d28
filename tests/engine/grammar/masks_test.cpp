// The tokens that may follow a text: those that brute force finds.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/grammar/grammar_constraint.h"
#include "kernels/logit_edits.h"
#include "tests/engine/grammar/grammar_cases.h"
#include "tests/engine/grammar/reference.h"

namespace paceline::test {
namespace {

std::string joined(const std::vector<std::string>& tokens, std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) text += tokens[size_t(id)];
  return text;
}

struct MaskRig {
  MaskRig(ByteGrammar grammar, const std::vector<std::string>& of_tokens, std::vector<int32_t> ends,
          bool strips_blank = false)
      : tokens(of_tokens),
        compiled(std::make_shared<CompiledGrammar>(std::move(grammar),
                                                   std::make_shared<TokenTrie>(of_tokens, strips_blank))),
        constraint(make_grammar_constraint(compiled, std::move(ends))) {}

  /// The ids that may follow; "refused" is {-1}.
  std::vector<int32_t> allowed(std::span<const int32_t> output, std::span<const int32_t> drafts = {}) {
    std::vector<uint32_t> mask(size_t(mask_words(int32_t(tokens.size()))), 0);
    if (!constraint->allow(output, drafts, mask)) return {-1};
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < int32_t(mask.size()) * 32; ++id) {
      if (mask[size_t(id) / 32] >> (id % 32) & 1) ids.push_back(id);
    }
    return ids;
  }

  const std::vector<std::string> tokens;
  std::shared_ptr<CompiledGrammar> compiled;
  std::shared_ptr<TokenConstraint> constraint;
};

TEST(GrammarMasks, EqualBruteForceOnSixTokens) {
  const std::vector<std::string> tokens = {"a", "b", "ab", "ca", "c", ""};
  constexpr int32_t kEnd = 5;
  size_t texts = 0, complete = 0, refused = 0;
  for (const GrammarCase& one : small_grammars()) {
    SCOPED_TRACE(one.name);
    GrammarReference reference(one.grammar);
    MaskRig rig(one.grammar, tokens, {kEnd});
    // All texts of up to five tokens, in and out of the grammar, in an order that jumps back.
    std::vector<std::vector<int32_t>> outputs = {{}};
    for (size_t next = 0; next < outputs.size(); ++next) {
      const std::vector<int32_t> output = outputs[next];
      std::vector<int32_t> expected;
      for (int32_t token = 0; token < kEnd; ++token) {
        if (reference.begins(joined(tokens, output) + tokens[size_t(token)])) expected.push_back(token);
      }
      if (reference.matches(joined(tokens, output))) expected.push_back(kEnd), ++complete;
      ++texts;
      ASSERT_EQ(rig.allowed(output), expected) << joined(tokens, output);
      // The same, of drafts behind a text.
      for (size_t cut = 0; cut < output.size(); ++cut) {
        const auto drafts = std::span(output).subspan(cut);
        ASSERT_EQ(rig.allowed(std::span(output).first(cut), drafts), expected);
      }
      if (output.size() == 5) continue;
      for (int32_t token = 0; token < kEnd; ++token) {
        std::vector<int32_t> longer = output;
        longer.push_back(token);
        if (std::find(expected.begin(), expected.end(), token) != expected.end()) {
          outputs.push_back(longer);
        } else if (longer.size() > 1) {
          EXPECT_EQ(rig.allowed(output, std::vector<int32_t>{token}), std::vector<int32_t>{-1});
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(texts, 2000u);
  EXPECT_GT(complete, 500u);
  EXPECT_GT(refused, 1000u);
}

TEST(GrammarMasks, EqualBruteForceOnPiecesOfJson) {
  std::vector<std::string> tokens = {"",   "{",    "}",    "\"", "\"a", "\":", ":", ",",  " ",  "\\",
                                     "n",  "tr",   "ue",   "1",  "23",  "-",   ".", "e+", "[",  "]",
                                     "[]", "\xC3", "\xA9", "u0", "0a0", "{\"", "x", "\n", "}]", "\",\""};
  const ByteGrammar grammar = ebnf_grammar(kJsonEbnf);
  GrammarReference reference(grammar);
  MaskRig rig(grammar, tokens, {0});
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<int32_t> output;
    while (output.size() < 14) {
      std::vector<int32_t> expected;
      const std::string text = joined(tokens, output);
      if (reference.matches(text)) expected.push_back(0);
      for (size_t token = 1; token < tokens.size(); ++token) {
        if (reference.begins(text + tokens[token])) expected.push_back(int32_t(token));
      }
      ASSERT_EQ(rig.allowed(output), expected) << text;
      if (expected.empty()) break;  // "n": no token goes on with it
      const int32_t next = expected[random() % expected.size()];
      if (next == 0) break;
      output.push_back(next);
    }
  }
}

TEST(GrammarMasks, TokensOfTheSameBytesAndThoseWithoutAny) {
  MaskRig rig(regex_grammar("ab*"), {"", "a", "a", "b", "ab", "a", ""}, {6});
  EXPECT_EQ(rig.allowed({}), (std::vector<int32_t>{1, 2, 4, 5}));
  EXPECT_EQ(rig.allowed(std::vector<int32_t>{5}), (std::vector<int32_t>{3, 6}));
}

// A stop token may spell what the grammar would take.
TEST(GrammarMasks, EndsComeWhereTheTextIsComplete) {
  MaskRig rig(regex_grammar("ab*c?"), {"a", "b", "c", "", "ab"}, {3, 1});
  EXPECT_EQ(rig.allowed({}), (std::vector<int32_t>{0, 4}));
  EXPECT_EQ(rig.allowed(std::vector<int32_t>{0}), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(rig.allowed(std::vector<int32_t>{0, 2}), (std::vector<int32_t>{1, 3}));
  MaskRig later(regex_grammar("a(b|c)*c"), {"a", "b", "c", ""}, {3, 1});
  EXPECT_EQ(later.allowed(std::vector<int32_t>{0}), std::vector<int32_t>{2});
  EXPECT_EQ(later.allowed(std::vector<int32_t>{0, 2}), (std::vector<int32_t>{1, 2, 3}));
  // With ignore_eos the text goes on; behind an end are ends.
  EXPECT_EQ(rig.allowed(std::vector<int32_t>{0, 3}), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(rig.allowed(std::vector<int32_t>{0, 3, 1}), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(rig.allowed(std::vector<int32_t>{0, 3}, std::vector<int32_t>{0}), std::vector<int32_t>{-1});
  EXPECT_EQ(rig.allowed({}, std::vector<int32_t>{3}), std::vector<int32_t>{-1});
  // Before it is complete none is allowed: what came was not of this grammar.
  EXPECT_EQ(rig.allowed(std::vector<int32_t>{3}), std::vector<int32_t>{});
}

TEST(GrammarMasks, ABlankAtTheBeginningIsNotOfTheText) {
  const std::vector<std::string> tokens = {"", " ", " a", "a", "  a", " b"};
  MaskRig plain(regex_grammar("a| a"), tokens, {0}), stripped(regex_grammar("a| a"), tokens, {0}, true);
  EXPECT_EQ(plain.allowed({}), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(stripped.allowed({}), (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(stripped.allowed(std::vector<int32_t>{2}), (std::vector<int32_t>{0}));
  EXPECT_EQ(stripped.allowed(std::vector<int32_t>{1}), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(stripped.allowed(std::vector<int32_t>{1, 1}), (std::vector<int32_t>{3}));
}

TEST(GrammarMasks, AStateIsWalkedForOnce) {
  const std::vector<std::string> tokens = {"", "a", "b", "ab", "ba"};
  MaskRig rig(regex_grammar("(a|b)*"), tokens, {0});
  std::vector<int32_t> output;
  for (int i = 0; i < 50; ++i) {
    rig.allowed(output);
    output.push_back(1 + i % 4);
  }
  EXPECT_EQ(rig.compiled->num_walks(), 1u);
  const auto other = make_grammar_constraint(rig.compiled, {0});
  uint32_t mask = 0;
  EXPECT_TRUE(other->allow({}, {}, std::span(&mask, 1)));
  EXPECT_EQ(mask, 31u);
  EXPECT_EQ(rig.compiled->num_walks(), 1u);
}

// 300 states with masks of 128 KiB each are more than what is kept: all is forgotten, and the masks are the same.
TEST(GrammarMasks, WhatIsRememberedStaysWithinItsBounds) {
  std::vector<std::string> tokens(size_t(1) << 20);
  tokens[7] = "a";
  tokens[tokens.size() - 3] = "aa";
  MaskRig rig(regex_grammar("a{300}"), tokens, {0});
  std::vector<int32_t> output;
  size_t most = 0;
  for (int i = 0; i <= 300; ++i) {
    const std::vector<int32_t> expected = i == 300   ? std::vector<int32_t>{0}
                                          : i == 299 ? std::vector<int32_t>{7}
                                                     : std::vector<int32_t>{7, int32_t(tokens.size()) - 3};
    ASSERT_EQ(rig.allowed(output), expected);
    most = std::max(most, rig.compiled->bytes());
    output.push_back(7);
  }
  EXPECT_LE(most, CompiledGrammar::kMaxBytes);
  EXPECT_GT(rig.compiled->generation(), 0u);
}

// 2^n readings of n bytes, n stacks of them.
TEST(GrammarMasks, ReadingsOfAnAmbiguousTextShareTheirStacks) {
  const char* source = "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\" root \"b\" \"c\" | \"a\"";
  MaskRig rig(ebnf_grammar(source), {"", "a", "b", "c"}, {0});
  std::vector<int32_t> output(300, 1);
  EXPECT_EQ(rig.allowed(output), (std::vector<int32_t>{0 + 1, 2, 3}));
  EXPECT_LT(rig.compiled->bytes(), size_t(1) << 20);
  for (int i = 0; i < 299; ++i) output.push_back(2 + i % 2);
  const std::vector<int32_t> now = rig.allowed(output);
  EXPECT_EQ(now.front(), 0);
}

// A grammar of which every text leaves more places than are followed: no token is allowed, and nothing throws.
TEST(GrammarMasks, TooManyPlacesEndTheRequest) {
  GrammarBuilder builder({.max_ms = 600'000});
  std::vector<GrammarBuilder::Expr> all;
  for (int i = 0; i < 5000; ++i) {
    ByteSet set = ByteSet::range('b', 'b');
    set.add(uint8_t(128 + i % 100));
    set.add(uint8_t(i / 100));
    const std::array<GrammarBuilder::Expr, 2> parts = {builder.bytes(set), builder.text("c")};
    all.push_back(builder.sequence(parts));
  }
  const std::array<GrammarBuilder::Expr, 2> whole = {builder.text("ca"), builder.any_of(all)};
  MaskRig rig(builder.finish(builder.sequence(whole)), {"", "a", "b", "c"}, {0});
  EXPECT_EQ(rig.allowed(std::vector<int32_t>{3}), std::vector<int32_t>{});
  EXPECT_EQ(rig.allowed({}), std::vector<int32_t>{3});  // the next request is served
}

// Many rules that each open a long chain of rules for one byte: a step has an end, too.
TEST(GrammarMasks, TooManyRulesAtOneByteEndTheRequest) {
  constexpr int kNum = 600;
  std::string source = "root ::= s0";
  for (int i = 1; i < kNum; ++i) source += fmt::format(" | s{}", i);
  for (int i = 0; i < kNum; ++i) source += fmt::format("\ns{} ::= \"b\" r0 \"c\"\nr{} ::= r{} | \"a\"", i, i, i + 1);
  source += fmt::format("\nr{} ::= \"a\"", kNum);
  MaskRig rig(ebnf_grammar(source, {.max_ms = 600'000}), {"", "a", "b", "c"}, {0});
  EXPECT_EQ(rig.allowed({}), std::vector<int32_t>{});
}

// Each mask may be cheap enough, but not for ever.
TEST(GrammarMasks, TheMasksOfATextHaveABudget) {
  const std::vector<std::string> tokens = {"", "a", "b"};
  const auto rig_within = [&](size_t max_work) {
    MaskRig rig(regex_grammar("[ab]{40}"), tokens, {0});
    rig.constraint = make_grammar_constraint(rig.compiled, {0}, max_work);
    return rig;
  };
  const std::vector<int32_t> both = {1, 2};
  MaskRig free = rig_within(kMaxWorkOfAText);
  const size_t before = free.compiled->work();  // of the start
  std::vector<int32_t> output;
  for (int i = 0; i < 20; ++i, output.push_back(1)) ASSERT_EQ(free.allowed(output), both);
  const size_t work = free.compiled->work() - before;
  MaskRig enough = rig_within(work), short_of_one = rig_within(work - 1);
  output.clear();
  for (int i = 0; i < 20; ++i, output.push_back(1)) {
    EXPECT_EQ(enough.allowed(output), both);
    EXPECT_EQ(short_of_one.allowed(output), i < 19 ? both : std::vector<int32_t>{}) << i;
  }
}

// What drafts cost is not the text's; they stop where it is too much, and go on where the text has caught up.
TEST(GrammarMasks, DraftsHaveABudgetOfTheirOwn) {
  const std::vector<std::string> tokens = {"", "a", "b"};
  constexpr int kLength = 60;
  const auto rig_within = [&](size_t max_work) {
    MaskRig rig(regex_grammar("(a[ab]{0,9}|b[ab]{3}){0,30}b{9}"), tokens, {0});
    rig.constraint = make_grammar_constraint(rig.compiled, {0}, max_work);
    return rig;
  };
  MaskRig free = rig_within(kMaxWorkOfAText);
  const size_t start = free.compiled->work();
  std::vector<std::vector<int32_t>> plain;
  std::vector<int32_t> output;
  for (int i = 0; i < kLength; ++i, output.push_back(1 + i % 2)) plain.push_back(free.allowed(output));
  const size_t work = free.compiled->work() - start;

  MaskRig rig = rig_within(work);
  output.clear();
  int num_refused = 0, num_taken = 0;
  for (int i = 0; i < kLength; ++i, output.push_back(1 + i % 2)) {
    ASSERT_EQ(rig.allowed(output), plain[size_t(i)]) << i;
    if (!rig.constraint->takes_drafts()) {
      ++num_refused;
      continue;
    }
    ++num_taken;
    for (int path = 0; path < 4; ++path) {  // two more tokens, this way or that
      std::vector<int32_t> drafts;
      for (int bit = 0; bit < 2; ++bit) {
        drafts.push_back(1 + (path >> bit & 1));
        EXPECT_FALSE(rig.allowed(output, drafts).empty());
      }
    }
  }
  EXPECT_GT(num_refused, 0);
  EXPECT_GT(num_taken, 1);
}

}  // namespace
}  // namespace paceline::test
