// What is concluded once and said in several forms: the same cells, outcomes and numbers in each.

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/outputs/certificate.h"
#include "experiments/report/html/html.h"
#include "experiments/report/text/text.h"
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
    found.push_back(fmt::format("{} {} {} {}", claim.kind->name, claim.cell - summary.cells.data(),
                                claim.over - summary.cells.data(), to_string(claim.outcome)));
  EXPECT_EQ(found, (std::vector<std::string>{"over_baseline 1 0 faster", "over_baseline 2 0 faster",
                                             "over_baseline 3 0 faster", "over_plain 1 0 faster",
                                             "over_plain 3 2 inconclusive", "over_one_rank 2 0 faster",
                                             "over_one_rank 3 1 inconclusive"}));
}

TEST(Claims, AreTheSameInJsonInTheVerdictAndOnThePage) {
  const RunResult run = run_of_ranks();
  const RunSummary summary = summarize(run);
  const json claims = summary_to_json(run, summary).at("claims");
  const std::string page = report_html(run, summary), text = test::verdict(run);
  const VerdictView view(run, summary);
  ASSERT_GT(claims.size(), view.claims().size()) << "picks and the rest follow";
  for (size_t i = 0; i < view.claims().size(); ++i) {
    const Claim& claim = view.claims()[i];
    EXPECT_EQ(claims[i].at("kind"), claim.kind->name);
    EXPECT_EQ(claims[i].at("cell"), view.cell(*claim.cell).id);
    EXPECT_EQ(claims[i].at("over"), view.cell(*claim.over).id);
    EXPECT_EQ(claims[i].at("outcome"), to_string(claim.outcome));
    EXPECT_EQ(claims[i].at("ratio"), claim.ratio.ratio);
    EXPECT_EQ(claims[i].at("ratio_ci95"), json::array({*claim.ratio.low, *claim.ratio.high}));
    EXPECT_EQ(claims[i].at("shown"), to_string(claim.shown));
    const std::string number = interval_text(claim.ratio);
    const std::string on_page = claim.kind == &ClaimKind::over_one_rank ? "<td>" + number + "</td>"
                                : claim.kind == &ClaimKind::over_baseline
                                    ? fmt::format(">{:.2f}×", claim.ratio.ratio)
                                    : fmt::format("{} over tp{} pp1 none, {}\"", number, view.cell(*claim.over).axes.tp,
                                                  to_string(claim.outcome));
    EXPECT_TRUE(test::holds(page, on_page)) << on_page;
    if (claim.kind == &ClaimKind::over_one_rank && !view.speculates(*claim.cell)) {
      EXPECT_TRUE(test::holds(text, "tp2 pp1 " + number)) << text;
    }
  }
}

// What strict numerics cost: a fast cell over the strict one that was asked for the same.
TEST(Claims, AFastCellIsSetAgainstItsStrictTwin) {
  CellResult strict = test::ngram(3, test::kSlow), fast = test::ngram(3, test::kFast),
             other = test::ngram(5, test::kFast);
  strict.requested["engine"]["numerics"] = "strict";
  fast.requested["engine"]["numerics"] = other.requested["engine"]["numerics"] = "fast";
  strict.requested["speculation"] = fast.requested["speculation"] = {{"num_speculative_tokens", 3}};
  other.requested["speculation"] = {{"num_speculative_tokens", 5}};
  fast.id = "fast3";
  const RunResult run = test::run_of({test::plain(test::kSlow), strict, fast, other});
  const json claims = summary_to_json(run, summarize(run)).at("claims");
  std::vector<json> found;
  for (const json& claim : claims)
    if (claim.at("kind") == "over_strict") found.push_back(claim);
  ASSERT_EQ(found.size(), 1u) << "the other cell has no strict twin";
  EXPECT_EQ(found[0].at("cell"), "fast3");
  EXPECT_EQ(found[0].at("over"), "ngram3");
  EXPECT_EQ(found[0].at("outcome"), "faster");
}

TEST(Claims, ACellOfOtherWorkIsNoTwin) {
  CellResult one = test::plain(test::kSlow), two = test::placed(test::plain(test::kFast), 2, 1);
  two.requested["engine"]["kv_cache"] = {{"block_size", 32}};
  const RunResult run = test::run_of({one, two});
  const RunSummary summary = summarize(run);
  const VerdictView view(run, summary);
  EXPECT_FALSE(view.claim(ClaimKind::over_one_rank, summary.cells[1]));
  const json data = summary_to_json(run, summary);
  EXPECT_EQ(data.at("claims").at(0).at("kind"), "over_baseline");
  for (const json& claim : data.at("claims")) EXPECT_NE(claim.at("kind"), "over_one_rank");
}

TEST(Claims, TextsThatNobodyGotAreNotEqual) {
  CellResult a = test::plain(test::kSlow), b = test::ngram(3, test::kFast);
  EXPECT_EQ(text_certificate(b, a, std::nullopt).status, CertificateStatus::unverified);
  EXPECT_EQ(text_certificate(b, a, 0.5).status, CertificateStatus::unverified);
  for (CellResult* const cell : {&a, &b})
    for (RepetitionResult& repetition : cell->repetitions)
      for (RequestRecord& q : repetition.requests) q.text = "Paris";
  EXPECT_EQ(text_certificate(b, a, std::nullopt).status, CertificateStatus::pass);
}

TEST(Claims, CountersThatAServerDoesNotStateAreNull) {
  const auto counters_of = [](const std::optional<ClientRecord>& client) {
    CellResult drafts = test::ngram(3, test::kFast);
    for (RepetitionResult& repetition : drafts.repetitions) repetition.client = client;
    const RunResult run = test::run_of({test::plain(test::kSlow), drafts});
    return summary_to_json(run, summarize(run)).at("cells").at(1).at("counters");
  };
  const json own = counters_of(std::nullopt);
  EXPECT_GT(own.at("steps"), 0);
  const json stated = counters_of(ClientRecord{.acceptance_from = "timings"});
  EXPECT_TRUE(stated.at("steps").is_null());
  EXPECT_TRUE(stated.at("preemptions").is_null());
  EXPECT_EQ(stated.at("accepted"), own.at("accepted"));
  EXPECT_TRUE(counters_of(ClientRecord{.acceptance_from = "none"}).at("accepted").is_null());
}

/// Log-normal, 2 % from repetition to repetition.
std::vector<double> scattered(double rate, int repetitions, std::mt19937& bits) {
  std::normal_distribution<double> normal(std::log(rate), 0.02);
  std::vector<double> rates;
  for (int r = 0; r < repetitions; ++r) rates.push_back(std::exp(normal(bits)));
  return rates;
}

/// A word of praise, without those sentences that deny it.
bool says_faster(std::string text) {
  for (const char* const denied : {"is significantly faster", "not significantly faster", "speculative cell is faster"})
    for (size_t at; (at = text.find(denied)) != std::string::npos;) text.erase(at, std::string_view(denied).size());
  return test::holds(text, "faster") || test::holds(text, "pays") || test::holds(text, "Fastest: tp1 pp1 ngram");
}

TEST(Claims, APairOfCellsIsJudgedOnce) {
  std::mt19937 bits(11);
  int shown = 0, open = 0;
  for (int run_index = 0; run_index < 300; ++run_index) {
    std::vector<CellResult> cells = {test::plain(scattered(100, 3, bits))};
    for (const int k : {1, 2, 3, 5}) cells.push_back(test::ngram(k, scattered(k == 5 ? 112 : 109, 3, bits)));
    const RunResult run = test::run_of(std::move(cells));
    const RunSummary summary = summarize(run);
    const VerdictView view(run, summary);
    for (const Pick& pick : view.picks()) {
      if (pick.kind != PickKind::throughput) continue;
      for (const Claim& claim : view.claims()) {
        if (claim.cell != &pick.best() || claim.kind == &ClaimKind::in_category) continue;
        const bool is_listed = std::find(pick.cells.begin(), pick.cells.end(), claim.over) != pick.cells.end();
        EXPECT_EQ(is_listed, claim.shown != Outcome::faster) << claim.kind->name << " in run " << run_index;
        ++(is_listed ? open : shown);
      }
    }
  }
  EXPECT_GT(shown, 20);
  EXPECT_GT(open, 20);
}

TEST(Claims, OfEqualCellsNoSentenceSaysFasterInNineteenOfTwentyRuns) {
  std::mt19937 bits(7);
  constexpr int kRuns = 1000;
  int in_sentence = 0, in_row = 0;
  for (int run_index = 0; run_index < kRuns; ++run_index) {
    const int repetitions = run_index % 2 == 0 ? 3 : 7;
    std::vector<CellResult> cells = {test::plain(scattered(100, repetitions, bits))};
    for (int k = 1; k < 24; ++k) cells.push_back(test::ngram(k, scattered(100, repetitions, bits)));
    const RunResult run = test::run_of(std::move(cells));
    const RunSummary summary = summarize(run);
    const VerdictView view(run, summary);
    const auto is_shown = [](const Claim& claim) { return claim.shown == Outcome::faster; };
    const bool is_claimed = std::any_of(view.claims().begin(), view.claims().end(), is_shown);
    EXPECT_EQ(says_faster(test::verdict(run)), is_claimed) << test::verdict(run);
    in_sentence += is_claimed;
    in_row += std::any_of(summary.cells.begin(), summary.cells.end(),
                          [](const CellSummary& s) { return s.outcome == Outcome::faster; });
  }
  EXPECT_LE(in_sentence, kRuns / 20);
  EXPECT_GT(in_row, kRuns / 5) << "each row stands for itself, and one of 23 errs often";
}

/// Three pairs of which the logarithms of the ratio have the t-value that gives p = 0.02.
TEST(Claims, OneRowOfSixThatIsFasterByItselfIsNotShownAmongThem) {
  const double t = 7.0, step = 0.01, shift = t * step / std::sqrt(3.0);  // 2 degrees of freedom: p = 0.0198
  const auto around = [&](double center) {
    return std::vector<double>{100 * std::exp(center - step), 100 * std::exp(center), 100 * std::exp(center + step)};
  };
  std::vector<CellResult> cells = {test::plain({100, 100, 100}), test::ngram(1, around(shift))};
  for (int k = 2; k <= 6; ++k) cells.push_back(test::ngram(k, around(0.001)));
  const RunResult run = test::run_of(cells);
  const RunSummary summary = summarize(run);
  const VerdictView view(run, summary);
  const Claim& gain = *view.claim(ClaimKind::over_plain, summary.cells[1]);
  EXPECT_NEAR(*gain.ratio.p_value, 0.0198, 1e-4);
  EXPECT_EQ(gain.among, 6);
  EXPECT_NEAR(*gain.adjusted_p, 6 * *gain.ratio.p_value, 1e-9);
  EXPECT_EQ(gain.outcome, Outcome::faster);
  EXPECT_EQ(gain.shown, Outcome::inconclusive);
  EXPECT_TRUE(test::holds(cell_verdict(view, summary.cells[1]), "faster (uncorrected)"));
  EXPECT_TRUE(test::holds(report_html(run, summary), ", faster (uncorrected)\"")) << "the map's tooltip";
  EXPECT_TRUE(test::holds(report_html(run, summary), "× °</td>"));
  const std::string text = test::verdict(run);
  EXPECT_TRUE(test::holds(text,
                          "No speculative cell (of 6 ranked) is significantly faster after correction for the run's 6 "
                          "comparisons; highest tok/s: tp1 pp1 ngram k=1"))
      << text;
  EXPECT_TRUE(test::holds(text, "not significant after correction for the run's 6 comparisons")) << text;
  EXPECT_FALSE(says_faster(text)) << text;
}

TEST(Claims, AChangeBelowTwoPercentIsNone) {
  std::vector<double> rates;
  for (int r = 0; r < 7; ++r) rates.push_back(101.5 + 0.001 * r);
  const RunResult run = test::run_of({test::plain(std::vector<double>(7, 100.0)), test::ngram(3, rates)});
  const RunSummary summary = summarize(run);
  const VerdictView view(run, summary);
  const Claim& gain = *view.claim(ClaimKind::over_plain, summary.cells[1]);
  EXPECT_EQ(gain.outcome, Outcome::faster);
  EXPECT_LT(*gain.adjusted_p, 1e-6);
  EXPECT_EQ(gain.shown, Outcome::inconclusive);
  EXPECT_TRUE(test::holds(test::verdict(run), "below the threshold of 2 %")) << test::verdict(run);
  EXPECT_EQ(outcome_text(gain), "faster by less than 2 %");
}

}  // namespace
}  // namespace paceline
