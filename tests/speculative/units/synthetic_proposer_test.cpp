// Drafts that are right as often as stated.

#include "speculative/synthetic_proposer.h"

#include <gtest/gtest.h>

#include "speculative/cascade_proposer.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

using Tokens = std::vector<int32_t>;

TEST(StatedAcceptance, KeepsTheMeanOfAStatedLength) {
  for (const double length : {1.0, 1.37, 2.5, 3.0, 4.999, 6.0}) {
    StatedAcceptance stated(length, {});
    int64_t accepted = 0;
    for (int64_t step = 1; step <= 500; ++step) {
      accepted += stated.next(step % 7, int(step), 5);
      ASSERT_EQ(accepted, int64_t(double(step) * (length - 1.0) + 1e-6)) << length << " after " << step;
    }
  }
  EXPECT_EQ(StatedAcceptance(6.0, {}).next(1, 1, 2), 2);  // no more than there are
}

TEST(StatedAcceptance, KeepsEachPositionAsOftenAsItsRateSays) {
  StatedAcceptance stated(0, {0.8, 0.5});
  constexpr int kSteps = 40000, kDrafts = 4;
  std::array<int, kDrafts> reached{}, kept{};
  for (int step = 0; step < kSteps; ++step) {
    const int right = stated.next(step % 50, 1000 + step, kDrafts);
    EXPECT_EQ(stated.next(step % 50, 1000 + step, kDrafts), right);  // of these numbers alone
    for (int i = 0; i < kDrafts && i <= right; ++i) {
      ++reached[size_t(i)];
      kept[size_t(i)] += i < right;
    }
  }
  const double rates[kDrafts] = {0.8, 0.5, 0.5, 0.5};
  for (int i = 0; i < kDrafts; ++i)
    EXPECT_NEAR(double(kept[size_t(i)]) / reached[size_t(i)], rates[i], 4 / std::sqrt(double(reached[size_t(i)]))) << i;
  EXPECT_EQ(StatedAcceptance(0, {0.0}).next(1, 1, 5), 0);
  EXPECT_EQ(StatedAcceptance(0, {1.0}).next(1, 1, 5), 5);
}

TEST(StatedRates, AreNumbersFromZeroToOne) {
  EXPECT_EQ(stated_rates("0.8, 1,0"), (std::vector<double>{0.8, 1, 0}));
  for (const char* const bad : {"", "0.8,", "1.1", "-0.1", "x", "0.5 0.4", "nan"})
    EXPECT_TRUE(stated_rates(bad).empty()) << bad;
}

TEST(Synthetic, DraftsTheTextAndThenSomethingElse) {
  const auto texts = std::make_shared<KnownTexts>();
  texts->learn({.id = 1, .key = 4, .tokens = {1, 2, 3, 4, 5, 9}});
  SyntheticProposer proposer(StatedAcceptance(3.0, {}), 10, texts,
                             std::make_unique<CascadeProposer>(std::vector<std::unique_ptr<Proposer>>(), 0));
  const Sequence seq{.id = 2, .key = 4, .tokens = {1, 2}};
  const DraftRequest request{.seq = &seq, .max_drafts = 4, .max_depth = 4};
  Proposal out;
  proposer.propose(std::span(&request, 1), std::span(&out, 1));
  EXPECT_EQ(out.draft.token, (Tokens{3, 4, 6, 0}));
}

TEST(SyntheticEntry, WantsOneStatement) {
  const ProposerEntry& entry = proposer_entry("synthetic");
  const auto fault = [&](const SyntheticOptions& options) {
    const auto conflict = entry.find_conflict(std::any(options));
    return conflict ? conflict->message : "";
  };
  EXPECT_NE(fault({}).find("needs one of"), std::string::npos);
  EXPECT_NE(fault({.acceptance_length = 2, .rates = "0.5"}).find("needs one of"), std::string::npos);
  EXPECT_NE(fault({.acceptance_length = 0.5}).find("at least 1 token"), std::string::npos);
  EXPECT_NE(fault({.rates = "0.5, 2"}).find("numbers from 0 to 1"), std::string::npos);
  EXPECT_NE(fault({.rates = "0.5", .costs = "drft"}).find("did you mean \"draft\"?"), std::string::npos);
  EXPECT_NE(fault({.rates = "0.5", .costs = "oracle"}).find("expected ngram"), std::string::npos);
  EXPECT_EQ(fault({.acceptance_length = 2.5, .costs = "draft"}), "");
  EXPECT_EQ(entry.stages(std::any(SyntheticOptions{.costs = "draft"})), (std::vector<std::string_view>{"draft"}));
  EXPECT_TRUE(entry.stages(std::any(SyntheticOptions{})).empty());
}

}  // namespace
}  // namespace paceline
