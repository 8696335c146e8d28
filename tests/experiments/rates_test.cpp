// Up to which rate of an open loop report.slo is kept, and who says it.

#include <cmath>

#include <gtest/gtest.h>

#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/metrics/csv.h"
#include "experiments/analysis/statistics/statistics.h"
#include "experiments/report/text/text.h"
#include "tests/experiments/report_page.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using test::holds;

struct Sent {
  double rate_per_s = 2;
  std::vector<int> good;  // [repetition] of 40 requests
};

/// A cell with one request after the other, of which `good` have their first token in 1 ms, the others in 1 s.
CellResult cell_of(const std::string& proposer, const Sent& sent) {
  constexpr int kRequests = 40;
  CellResult cell{.id = fmt::format("{}_{:g}", proposer, sent.rate_per_s), .axes = {.proposer = proposer}};
  cell.load = fmt::format("poisson {:g}/s", sent.rate_per_s);
  cell.axes.concurrency = 0;
  cell.axes.variant = cell.load;
  if (proposer != "none") cell.axes.num_speculative_tokens = 3;
  cell.baseline_id = fmt::format("none_{:g}", sent.rate_per_s);
  cell.requested = {{"load", {{"mode", "poisson"}, {"rate_per_s", sent.rate_per_s}}}};
  for (const int good : sent.good) {
    RepetitionResult r{.wall_s = kRequests / sent.rate_per_s};
    for (int i = 0; i < kRequests; ++i) {
      RequestRecord q{.id = std::to_string(i), .ttft_ms = (i < good ? 1.0 : 1000)};
      q.arrival_ms = 1e3 * i / sent.rate_per_s;
      q.e2e_ms = q.ttft_ms + 20;
      q.output.resize(10);
      r.requests.push_back(q);
    }
    cell.repetitions.push_back(r);
  }
  return cell;
}

RunResult run_of(const std::vector<std::pair<std::string, std::vector<Sent>>>& all) {
  RunResult run;
  run.slo = {.ttft_ms = 100, .tpot_ms = {}};
  for (const auto& [proposer, sent] : all)
    for (const Sent& each : sent) run.cells.push_back(cell_of(proposer, each));
  return run;
}

RunResult two_proposers() {
  return run_of({{"none", {{2, {40, 40, 40}}, {4, {36, 37, 35}}, {8, {10, 10, 10}}}},
                 {"ngram", {{8, {20, 20, 20}}, {2, {40, 40, 40}}, {4, {40, 40, 39}}}}});
}

TEST(KeptRates, AreThoseUpToTheFirstThatIsNot) {
  const RunResult run = two_proposers();
  const RunSummary summary = summarize(run);
  const VerdictView view(run, summary);
  ASSERT_EQ(view.kept_rates().size(), 2u);
  const KeptRates &plain = view.kept_rates()[0], &ngram = view.kept_rates()[1];
  EXPECT_EQ(plain.name, "tp1 pp1 none");
  EXPECT_EQ(plain.rate_per_s(), 2);
  EXPECT_EQ(kept_text(plain), "2/s, 4/s not decided (90 %)");
  EXPECT_EQ(shares_text(plain), "2/s 100 %, 4/s 90 % (not decided), 8/s 25 % (missed)");
  EXPECT_EQ(ngram.name, "tp1 pp1 ngram k=3");
  EXPECT_EQ(ngram.rate_per_s(), 4);
  EXPECT_EQ(kept_text(ngram), "4/s, 8/s missed (50 %)");
}

TEST(KeptRates, AShareBelowTheGoalDoesNotReadAsIt) {
  EXPECT_EQ(percent_text(0.8996, 0.9), "89.96 %");
  EXPECT_EQ(percent_text(0.8996), "90 %");
  EXPECT_EQ(percent_text(0.9, 0.9), "90 %");
  RunResult run = run_of({{"none", {{2, {40, 40, 40}}, {4, {36, 36, 35}}}}});
  const auto text = [&run] {
    const RunSummary summary = summarize(run);
    return kept_text(VerdictView(run, summary).kept_rates().at(0));
  };
  EXPECT_EQ(text(), "2/s, 4/s not decided (89 %)");
  run.slo.attainment = 0.892;
  EXPECT_EQ(text(), "2/s, 4/s not decided (89.17 %)");
}

TEST(KeptRates, LeadTheVerdict) {
  const RunResult run = two_proposers();
  const std::string text = summary_markdown(run, summarize(run));
  EXPECT_TRUE(holds(text,
                    "90 % of requests meet ttft ≤ 100 ms up to 4/s: tp1 pp1 ngram k=3; without speculation 2/s, "
                    "4/s not decided (90 %)."))
      << text;
  EXPECT_TRUE(holds(text,
                    "Highest rate at which 90 % of requests meet ttft ≤ 100 ms, each by itself: tp1 pp1 none 2/s, 4/s "
                    "not decided (90 %); tp1 pp1 ngram k=3 4/s, 8/s missed (50 %)."))
      << text;
  const size_t good = text.find("Most good requests (ttft ≤ 100 ms), poisson 2/s");
  ASSERT_NE(good, std::string::npos) << text;
  EXPECT_GT(good, text.find("Highest rate")) << "is a detail";
  const std::string section = test::section_of(test::report_of(run), "latency");
  EXPECT_TRUE(holds(section, "<li>tp1 pp1 ngram k=3: 2/s 100 %, 4/s 99 %, 8/s 50 % (missed)</li>"))
      << section.substr(0, 600);
  const nlohmann::json summary = summary_to_json(run, summarize(run));
  nlohmann::json found;
  for (const nlohmann::json& claim : summary.at("claims"))
    if (claim.at("kind") == "kept_rate" && claim.at("of") == "tp1 pp1 none") found = claim;
  EXPECT_EQ(found.at("rate_per_s"), 2);
  EXPECT_EQ(found.at("points")[2], (nlohmann::json{{"rate_per_s", 8}, {"cell", "none_8"}, {"shown", "missed"}}));
}

TEST(RateSweeps, AreDrawnOverTheRate) {
  RunResult run = two_proposers();
  const auto headline = [&run] { return test::section_of(test::report_of(run), "headline"); };
  const std::string section = headline();
  EXPECT_TRUE(holds(section, "<h3>Over the rate</h3>"));
  for (const char* const title : {">Good requests<", ">TTFT, 90th percentile<", ">TPOT, 90th percentile<"})
    EXPECT_TRUE(holds(section, title)) << title;
  EXPECT_TRUE(holds(section, "<title>tp1 pp1 ngram k=3 at 8/s: 0.5</title>"));
  EXPECT_EQ(test::count(section, "<path class=\"l "), 6u + 2u) << "two lines in three charts, and in the legend";
  run.slo = {};
  EXPECT_FALSE(holds(headline(), ">Good requests<"));
  std::erase_if(run.cells, [](const CellResult& cell) { return cell.load != "poisson 2/s"; });
  EXPECT_FALSE(holds(headline(), "Over the rate"));
}

TEST(KeptRates, SayWhereNothingHigherWasSentAndWhereNoneIsKept) {
  RunResult run = run_of({{"none", {{2, {40, 40}}, {4, {40, 40}}}}, {"ngram", {{2, {40, 40}}, {4, {40, 40}}}}});
  EXPECT_TRUE(holds(summary_markdown(run, summarize(run)),
                    "90 % of requests meet ttft ≤ 100 ms up to 4/s: tp1 pp1 none and 1 more; none higher was sent."));
  run = run_of({{"none", {{2, {10, 10}}, {4, {10, 10}}}}, {"ngram", {{2, {40, 40}}, {4, {10, 10}}}}});
  EXPECT_TRUE(holds(summary_markdown(run, summarize(run)),
                    "up to 2/s: tp1 pp1 ngram k=3; without speculation none, 2/s missed (25 %)."));
  // 2/s without speculation, but 4/s is the lowest rate of the first set.
  run.cells.erase(run.cells.begin());
  run.slo.ttft_ms = 0.5;
  EXPECT_TRUE(holds(summary_markdown(run, summarize(run)),
                    "No cell is shown to meet ttft ≤ 0.5 ms for 90 % of requests at any rate from 2/s on."));
}

// A server that dies at a rate was asked for it.
TEST(KeptRates, EndWhereACellFailed) {
  const auto texts = [](size_t failed) {
    RunResult run = run_of({{"none", {{2, {40, 40}}, {4, {40, 40}}, {8, {40, 40}}}}});
    run.cells[failed].status = CellStatus::failed;
    run.cells[failed].reason = "killed";
    run.cells[failed].repetitions.clear();
    const RunSummary summary = summarize(run);
    return kept_text(VerdictView(run, summary).kept_rates().at(0)) + "|" + summary_markdown(run, summary);
  };
  EXPECT_TRUE(texts(1).starts_with("2/s, 4/s failed|")) << texts(1);
  EXPECT_TRUE(holds(texts(1), "90 % of requests meet ttft ≤ 100 ms up to 2/s: tp1 pp1 none."));
  EXPECT_TRUE(texts(2).starts_with("4/s, 8/s failed|")) << texts(2);
  EXPECT_FALSE(holds(texts(2), "none higher was sent"));
}

TEST(KeptRates, NoneHigherWasSentToAnyOfThem) {
  const RunResult run =
      run_of({{"none", {{2, {40, 40}}, {4, {40, 40}}}}, {"ngram", {{2, {40, 40}}, {4, {40, 40}}, {8, {10, 10}}}}});
  const std::string text = summary_markdown(run, summarize(run));
  EXPECT_TRUE(holds(text, "up to 4/s: tp1 pp1 none and 1 more.")) << text;
  const RunResult higher =
      run_of({{"none", {{2, {40, 40}}, {4, {10, 10}}, {8, {10, 10}}}}, {"ngram", {{2, {40, 40}}, {4, {40, 40}}}}});
  EXPECT_FALSE(holds(summary_markdown(higher, summarize(higher)), "none higher was sent"));
}

TEST(KeptRates, AHigherRateThatIsKeptIsNotDenied) {
  RunResult run = run_of({{"none", {{2, {40, 40}}, {4, {40, 40}}}}});
  run.cells[0].status = CellStatus::failed;
  run.cells[0].repetitions.clear();
  const RunSummary summary = summarize(run);
  EXPECT_TRUE(holds(summary_markdown(run, summary),
                    "No cell is shown to meet ttft ≤ 100 ms for 90 % of requests from its lowest rate on."));
  EXPECT_EQ(shares_text(VerdictView(run, summary).kept_rates().at(0)), "2/s (failed), 4/s 100 %");
}

TEST(KeptRates, SayTheGoalAsItIsWritten) {
  RunResult run = run_of({{"none", {{2, {40, 40}}, {4, {10, 10}}}}});
  run.slo.attainment = 0.925;
  EXPECT_TRUE(holds(summary_markdown(run, summarize(run)), "92.5 % of requests meet"));
}

TEST(KeptRates, NeedEnoughRequestsAndTheAskedShare) {
  // 15 of 15 and 15 of 15 do not show 90 %, twice 40 of 40 do; nor do they show 99 %; and one repetition shows nothing.
  RunResult run = run_of({{"none", {{2, {40, 40}}, {4, {40, 40}}}}});
  const auto first_kept = [&run] {
    const RunSummary summary = summarize(run);
    return VerdictView(run, summary).kept_rates().at(0).points.at(0).kept;
  };
  EXPECT_EQ(first_kept(), Kept::kept);
  run.slo.attainment = 0.99;
  EXPECT_EQ(first_kept(), Kept::undecided);
  run.slo.attainment = 0.9;
  for (RepetitionResult& r : run.cells[0].repetitions) r.requests.resize(15);
  EXPECT_EQ(first_kept(), Kept::undecided);
  run.cells[0] = cell_of("none", {2, {40}});
  EXPECT_EQ(first_kept(), Kept::undecided);
}

TEST(KeptRates, ASaturatedCellKeepsNothing) {
  // Each request waits longer than the one before, all below the limit: a longer run would not hold it.
  RunResult run = run_of({{"none", {{2, {40, 40, 40}}, {100, {40, 40, 40}}}}});
  run.slo.ttft_ms = 1e6;
  for (RepetitionResult& r : run.cells[1].repetitions)
    for (size_t i = 0; i < r.requests.size(); ++i) {
      r.requests[i].ttft_ms = 50.0 * double(i + 1);
      r.requests[i].e2e_ms = r.requests[i].ttft_ms + 20;
    }
  const RunSummary summary = summarize(run);
  ASSERT_TRUE(summary.cells[1].is_saturated());
  EXPECT_EQ(summary.cells[1].goodput->share, 1);
  const VerdictView view(run, summary);
  EXPECT_EQ(kept_text(view.kept_rates().at(0)), "2/s, 100/s saturated (100 %)");
}

TEST(KeptRates, NeedTwoRatesAndLimits) {
  RunResult run = run_of({{"none", {{2, {40}}}}});
  const auto num_kept = [&run] {
    const RunSummary summary = summarize(run);
    return VerdictView(run, summary).kept_rates().size();
  };
  EXPECT_EQ(num_kept(), 0u);
  run = two_proposers();
  EXPECT_EQ(num_kept(), 2u);
  run.slo = {};
  EXPECT_EQ(num_kept(), 0u);
}

TEST(GoodShare, IntervalIsTheWiderOne) {
  const auto interval_of = [](const std::vector<int>& good) {
    return goodput_of(cell_of("none", {2, good}), {.ttft_ms = 100, .tpot_ms = {}})->share_interval;
  };
  const Interval all = interval_of({40, 40, 40}), alike = interval_of({30, 30, 30}), apart = interval_of({40, 30, 20});
  EXPECT_NEAR(all.low, std::pow(0.025, 1.0 / 120), 1e-9);
  EXPECT_EQ(all.high, 1);
  const Interval exact = binomial_interval(90, 120);
  EXPECT_EQ(alike.low, exact.low);
  EXPECT_EQ(alike.high, exact.high);
  EXPECT_NEAR(apart.low, 0.75 - student_t_quantile(0.975, 2) * 0.25 / std::sqrt(3.0), 1e-9);
  EXPECT_EQ(apart.high, 1);
}

}  // namespace
}  // namespace paceline
