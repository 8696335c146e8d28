// What the rest of the program takes from entries without asking for a name.

#include "speculative/proposer_entry.h"

#include <set>

#include <gtest/gtest.h>

#include "speculative/draft_proposer.h"
#include "speculative/verify_rule.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

/// Unless it needs to be told something.
bool runs_by_default(const ProposerEntry& entry) {
  return !entry.find_conflict || !entry.find_conflict(entry.defaults);
}

TEST(ProposerList, NobodyComesFirstAndNamesAreKeys) {
  ASSERT_FALSE(proposer_list().empty());
  EXPECT_EQ(proposer_list().front().name, kNoProposer);
  std::set<std::string_view> names = {"proposer", "num_speculative_tokens", "verifier"};  // taken
  for (const ProposerEntry& entry : proposer_list()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(entry.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string_view::npos);
    EXPECT_FALSE(entry.help.empty()) << entry.name;
    EXPECT_EQ(entry.drafts(), entry.name != kNoProposer);
    EXPECT_EQ(find_proposer(entry.name), &entry);
  }
  const std::vector<std::string> all = proposer_names(ProposerNames::all),
                                 drafting = proposer_names(ProposerNames::drafting);
  EXPECT_EQ(std::vector(all.begin() + 1, all.end()), drafting);
  const std::string text = proposer_names_text(ProposerNames::all);
  EXPECT_TRUE(text.starts_with("none, ngram")) << text;
  EXPECT_TRUE(text.ends_with(" or " + all.back())) << text;
  EXPECT_EQ(find_proposer("medusa"), nullptr);
  test::expect_error(ExitCode::usage, {"speculation.proposer", "\"medusa\"", "none, ngram"},
                     [] { proposer_entry("medusa"); });
}

TEST(ProposerList, DefaultsLieInTheRangesOfTheirOptions) {
  for (const ProposerEntry& entry : proposer_list()) {
    EXPECT_EQ(entry.defaults.has_value(), !entry.options.empty()) << entry.name;
    std::set<std::string_view> names = {"path", "tp", "dtype", "inflate", "self"};  // of a second model
    for (const ProposerOption& option : entry.options) {
      SCOPED_TRACE(std::string(entry.name) + "." + std::string(option.name));
      EXPECT_TRUE(names.insert(option.name).second);
      EXPECT_TRUE(option.help.ends_with("."));
      const OptionValue value = option.get(entry.defaults);
      std::any copy = entry.defaults;
      option.set(copy, value);
      EXPECT_EQ(option.get(copy), value);
      const double number = std::holds_alternative<int64_t>(value)  ? double(std::get<int64_t>(value))
                            : std::holds_alternative<double>(value) ? std::get<double>(value)
                                                                    : option.range.min;
      EXPECT_GE(number, option.range.min);
      EXPECT_LE(number, option.range.max);
    }
    if (!runs_by_default(entry)) {
      EXPECT_NE(entry.find_conflict(entry.defaults)->message.find(" needs "), std::string::npos) << entry.name;
    }
    EXPECT_EQ(entry.has_second_model(), !entry.second_model.default_path.empty()) << entry.name;
  }
}

TEST(ProposerList, MakesProposersThatSayTheirNames) {
  for (const ProposerEntry& entry : proposer_list()) {
    if (!entry.drafts() || entry.has_second_model() || !runs_by_default(entry)) continue;
    EXPECT_EQ(entry.make({.options = &entry.defaults, .pool = {}})->name(), entry.name);
  }
  const ProposerEntry& draft = proposer_entry("draft");
  EXPECT_THROW(draft.make({.options = &draft.defaults, .pool = {}}), Error) << "there is no model";
}

TEST(DraftEntry, NeedsMemoryWhereProbabilitiesAreKept) {
  ProposerSetup setup{.max_num_seqs = 3, .max_draft_len = 5, .target_vocab_size = 7, .pool = {}};
  std::any options = DraftModelOptions();
  setup.options = &options;
  const auto bytes = [&](VerifyRule rule) {
    setup.rule = rule;
    return proposer_entry("draft").memory(setup).deciding_rank;
  };
  EXPECT_EQ(bytes(VerifyRule::greedy), 0u);
  EXPECT_EQ(bytes(VerifyRule::coupled), 0u);
  for (const VerifyRule rule : {VerifyRule::rejection, VerifyRule::block})
    EXPECT_EQ(bytes(rule), 3u * 5 * 7 * sizeof(float));
  options = DraftModelOptions{.sampling = DraftDraws::argmax};
  EXPECT_EQ(bytes(VerifyRule::rejection), 0u);
}

TEST(DraftSampling, FollowsTheRule) {
  constexpr DraftDraws kOwn = DraftDraws::own;
  EXPECT_EQ(draft_sampling(VerifyRule::greedy, kOwn), DraftSampling::argmax);
  EXPECT_EQ(draft_sampling(VerifyRule::coupled, kOwn), DraftSampling::shared_noise);
  EXPECT_EQ(draft_sampling(VerifyRule::rejection, kOwn), DraftSampling::own_noise);
  EXPECT_EQ(draft_sampling(VerifyRule::block, kOwn), DraftSampling::own_noise);
  for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::coupled, VerifyRule::rejection, VerifyRule::block})
    EXPECT_EQ(draft_sampling(rule, DraftDraws::argmax), DraftSampling::argmax);
}

TEST(VerifyRuleNames, AutoIsGreedyAtTemperatureZero) {
  EXPECT_EQ(parse_rule("auto", true), VerifyRule::greedy);
  EXPECT_EQ(parse_rule("auto", false), VerifyRule::rejection);
  EXPECT_EQ(parse_rule("greedy", false), VerifyRule::greedy);
  EXPECT_EQ(parse_rule("rejection", true), VerifyRule::rejection);
  for (const std::string_view word : rule_words())
    EXPECT_EQ(rule_word(parse_rule(word, true)), word == "auto" ? "greedy" : word);
  test::expect_error(ExitCode::usage, {"speculation.verifier.rule", "\"lucky\"", "rejection", "block", "coupled"},
                     [] { parse_rule("lucky", true); });
}

}  // namespace
}  // namespace paceline
