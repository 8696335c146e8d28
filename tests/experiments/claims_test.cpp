// What is concluded once and said in several forms: the same cells, outcomes and numbers in each.

#include <gtest/gtest.h>

#include "experiments/analysis/verdict_view.h"
#include "experiments/report/html.h"
#include "tests/experiments/verdict_rig.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using nlohmann::json;

/// Plain and ngram cells on one rank and on two; ngram gains on one and nothing that is shown on two.
RunResult run_of_ranks() {
  return test::run_of({test::plain(test::kSlow), test::ngram(3, test::kFast),
                       test::placed(test::plain(test::kFast), 2, 1),
                       test::placed(test::ngram(3, test::kNearFast), 2, 1)});
}

TEST(Claims, AreOverThePlainTwinAndOverTheTwinOnOneRank) {
  const RunResult run = run_of_ranks();
  const RunSummary summary = summarize(run);
  const VerdictView view(run, summary);
  std::vector<std::string> found;
  for (const Claim& claim : view.claims())
    found.push_back(fmt::format("{} {} {} {}", to_string(claim.kind), claim.cell - summary.cells.data(),
                                claim.over - summary.cells.data(), to_string(claim.outcome)));
  EXPECT_EQ(found, (std::vector<std::string>{"over_plain 1 0 faster", "over_plain 3 2 inconclusive",
                                             "over_one_rank 2 0 faster", "over_one_rank 3 1 inconclusive"}));
}

TEST(Claims, AreTheSameInJsonInTheVerdictAndOnThePage) {
  const RunResult run = run_of_ranks();
  const RunSummary summary = summarize(run);
  const json claims = summary_to_json(run, summary).at("claims");
  const std::string page = report_html(run, summary), text = test::verdict(run);
  const VerdictView view(run, summary);
  ASSERT_EQ(claims.size(), view.claims().size());
  for (size_t i = 0; i < claims.size(); ++i) {
    const Claim& claim = view.claims()[i];
    EXPECT_EQ(claims[i].at("kind"), to_string(claim.kind));
    EXPECT_EQ(claims[i].at("cell"), view.cell(*claim.cell).id);
    EXPECT_EQ(claims[i].at("over"), view.cell(*claim.over).id);
    EXPECT_EQ(claims[i].at("outcome"), to_string(claim.outcome));
    EXPECT_EQ(claims[i].at("ratio"), claim.ratio.ratio);
    EXPECT_EQ(claims[i].at("ratio_ci95"), json::array({*claim.ratio.low, *claim.ratio.high}));
    const std::string number = interval_text(claim.ratio);
    const std::string on_page = claim.kind == ClaimKind::over_one_rank
                                    ? "<td>" + number + "</td>"
                                    : fmt::format("{} over tp{} pp1 none, {}\"", number, view.cell(*claim.over).axes.tp,
                                                  to_string(claim.outcome));
    EXPECT_TRUE(test::holds(page, on_page)) << on_page;
    if (claim.kind == ClaimKind::over_one_rank && !view.speculates(*claim.cell))
      EXPECT_TRUE(test::holds(text, "tp2 pp1 " + number)) << text;
  }
}

TEST(Claims, ACellOfOtherWorkIsNoTwin) {
  CellResult one = test::plain(test::kSlow), two = test::placed(test::plain(test::kFast), 2, 1);
  two.requested["engine"]["kv_cache"] = {{"block_size", 32}};
  const RunResult run = test::run_of({one, two});
  const RunSummary summary = summarize(run);
  EXPECT_TRUE(VerdictView(run, summary).claims().empty());
  EXPECT_TRUE(summary_to_json(run, summary).at("claims").empty());
}

}  // namespace
}  // namespace paceline
