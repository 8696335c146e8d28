// Whether an engine kept up, goodput and categories, on simulated queues and made-up records.

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "experiments/analysis/claims/pick.h"
#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/metrics/loads.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/verdict/verdict.h"
#include "experiments/report/html/html.h"
#include "experiments/report/text/text.h"
#include "experiments/workload/arrivals.h"

namespace paceline {
namespace {

/// Poisson arrivals to a server that takes `service_s` for each request, one after the other.
CellResult simulated(double rate_per_s, double service_s, uint64_t seed, int requests = 60, int repetitions = 7) {
  CellResult cell{.id = "cell", .load = "poisson"};
  for (int r = 0; r < repetitions; ++r) {
    RepetitionResult repetition;
    double free_at = 0;
    int index = 0;
    for (const Arrival& arrival : draw_arrivals({.rate_per_s = rate_per_s, .seed = seed}, requests, uint32_t(r))) {
      const double start = std::max(arrival.t_s, free_at);
      free_at = start + service_s;
      RequestRecord q{.id = std::to_string(index), .dataset_index = index};
      q.output = {1, 2, 3};
      q.tokens_per_emission = {1, 2};
      q.itl_ms = {service_s * 500};
      q.drafted = q.accepted = {1};
      q.arrival_ms = arrival.t_s * 1e3;
      q.send_delay_ms = index % 4 == 0 ? 3.0 : 0.5;
      q.ttft_ms = (start - arrival.t_s + service_s / 2) * 1e3;
      q.e2e_ms = (free_at - arrival.t_s) * 1e3;
      q.category = index % 2 ? "odd" : "even";
      q.finish_reason = "length";
      repetition.requests.push_back(std::move(q));
      ++index;
    }
    repetition.wall_s = free_at;
    cell.repetitions.push_back(std::move(repetition));
  }
  cell.baseline_id = "cell";
  cell.certificate.status = CertificateStatus::baseline;
  return cell;
}

RunResult run_of(CellResult plain, CellResult speculative) {
  plain.id = plain.baseline_id = speculative.baseline_id = "plain";
  speculative.id = "ngram";
  speculative.axes.proposer = "ngram";
  speculative.axes.num_speculative_tokens = 3;
  speculative.certificate.status = CertificateStatus::pass;
  RunResult run;
  run.cells = {std::move(plain), std::move(speculative)};
  return run;
}

TEST(OpenLoop, QueuesThatGrowAreToldFromThoseThatDoNot) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_NE(summarize_open_loop(simulated(0.7, 1, seed))->saturated, true) << seed;
    EXPECT_EQ(summarize_open_loop(simulated(0.7, 1, seed, 1500))->saturated, false) << seed;
    EXPECT_EQ(summarize_open_loop(simulated(1.5, 1, seed))->saturated, true) << seed;
    EXPECT_EQ(summarize_open_loop(simulated(20, 1, seed))->saturated, true) << seed;
  }
  EXPECT_FALSE(summarize_open_loop(simulated(20, 1, 1, 11))->saturated) << "too few arrivals to judge";
}

// All repetitions of a trace meet the same arrivals: seven say no more of its queue than one.
TEST(OpenLoop, RepetitionsOfATraceAreNoSevenSamples) {
  const auto width_of = [](const std::string& load, size_t repetitions) {
    CellResult cell = simulated(0.9, 1, 1);
    cell.load = load;
    const RepetitionResult first = cell.repetitions.front();
    cell.repetitions.assign(repetitions, first);
    const OpenLoopSummary summary = *summarize_open_loop(cell);
    return summary.queue_growth_interval->high - summary.queue_growth_interval->low;
  };
  EXPECT_NEAR(width_of("trace monday", 7), width_of("trace monday", 1), 1e-12);
  EXPECT_NEAR(width_of("poisson 0.9/s", 7), width_of("trace monday", 7) / std::sqrt(7.0), 1e-12);
}

// An overload of 9 % grows by less than a tenth of what is sent; a run that is long enough shows it.
TEST(OpenLoop, ASlowOverloadIsSaturation) {
  int shown = 0, false_alarms = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const OpenLoopSummary over = *summarize_open_loop(simulated(1.09, 1, seed, 1500));
    ASSERT_LT(*over.queue_growth_per_s, 0.13 * *over.offered_rate_per_s) << seed;
    EXPECT_LT(over.queue_growth_interval->low, *over.queue_growth_per_s);
    EXPECT_EQ(over.saturated == true, over.queue_growth_interval->low > 0);
    shown += over.saturated == true ? 1 : 0;
    EXPECT_NE(over.saturated, false) << seed;
    false_alarms += summarize_open_loop(simulated(0.9, 1, seed, 1500))->saturated == true ? 1 : 0;
  }
  EXPECT_GE(shown, 18);
  EXPECT_LE(false_alarms, 1);
}

/// An engine with room for all: the queue fills while the first requests run, and then stays.
TEST(OpenLoop, FillingUpIsNoGrowth) {
  CellResult cell = simulated(10, 0.001, 5, 400);
  for (RepetitionResult& r : cell.repetitions)
    for (RequestRecord& q : r.requests) q.e2e_ms = 1500;
  const OpenLoopSummary summary = *summarize_open_loop(cell);
  EXPECT_EQ(summary.saturated, false);
  EXPECT_LT(std::abs(*summary.queue_growth_per_s), 0.8);
}

/// So it does where the run is over before many requests have left: more and more are in flight, and nobody waits.
TEST(OpenLoop, ARunThatIsShortBesideARequestSaysNothing) {
  CellResult cell = simulated(10, 0.001, 5, 24, 3);
  for (RepetitionResult& r : cell.repetitions)
    for (RequestRecord& q : r.requests) q.e2e_ms = 1990 + double(q.dataset_index * 20);
  const OpenLoopSummary summary = *summarize_open_loop(cell);
  EXPECT_GT(summary.queue_growth_interval->low, 0);
  EXPECT_FALSE(summary.saturated);
  const RunResult run = run_of(cell, cell);
  EXPECT_NE(
      summary_markdown(run, summarize(run))
          .find("Whether 2 cells keep up is not known: more and more requests were in flight, but later ones were not "
                "seen to wait longer, or found the engine empty: the run is short beside its requests or bursts. "
                "Send more."),
      std::string::npos);
}

// In most repetitions: of many some are empty again under a slow overload, too.
TEST(OpenLoop, AnEngineThatIsEmptyAgainKeepsUp) {
  CellResult cell = simulated(3, 1, 1, 60, 4);
  const auto empty_again = [&](size_t repetition) {
    for (RequestRecord& q : cell.repetitions[repetition].requests)
      if (q.dataset_index < 35) q.e2e_ms = q.ttft_ms = 0.01;
    return *summarize_open_loop(cell);
  };
  EXPECT_EQ(empty_again(0).saturated, true);
  const OpenLoopSummary half = empty_again(1);
  EXPECT_GT(half.queue_growth_interval->low, 0);
  EXPECT_GT(half.wait_growth_interval->low, 0);
  EXPECT_FALSE(half.saturated);

  int shown = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    shown += summarize_open_loop(simulated(1.2, 1, seed, 60, 20))->saturated == true ? 1 : 0;
  EXPECT_GE(shown, 18);
}

TEST(OpenLoop, RatesDelaysAndRequestsInFlight) {
  const CellResult cell = simulated(0.5, 1, 4, 400);
  const OpenLoopSummary summary = *summarize_open_loop(cell);
  EXPECT_NEAR(*summary.offered_rate_per_s, 0.5, 0.05);
  EXPECT_NEAR(*summary.achieved_rate_per_s, *summary.offered_rate_per_s, 0.01);
  // M/D/1 at load 0.5: in flight 0.5 + 0.25 / (2 (1 - 0.5)) = 0.75 (Pollaczek and Khinchine).
  EXPECT_NEAR(*summary.mean_in_flight, 0.75, 0.08);
  EXPECT_EQ(summary.late_requests, 7 * 100);
  EXPECT_EQ(summary.send_delay_ms.p50, 0.5);
  EXPECT_NEAR(*summarize_open_loop(simulated(20, 1, 1, 400))->achieved_rate_per_s, 1.0, 0.01);

  CellResult closed = cell;
  for (RepetitionResult& r : closed.repetitions)
    for (RequestRecord& q : r.requests) q.arrival_ms.reset();
  EXPECT_FALSE(summarize_open_loop(closed));
}

TEST(OpenLoop, CellsAreComparedByLatencyNotByTokensASecond) {
  const RunResult run = run_of(simulated(0.5, 1, 2), simulated(0.5, 0.5, 2));
  const RunSummary summary = summarize(run);
  for (const CellSummary& s : summary.cells) EXPECT_FALSE(s.speedup);
  EXPECT_EQ(summary.cells[1].outcome, Outcome::faster);
  EXPECT_NEAR(summary.cells[1].decode_speedup->ratio, 2.0, 1e-6);
  const std::string text = end_of_run_text(run, summary, TextColor::off);
  for (const char* const piece : {"Lowest latency, poisson: tp1 pp1 ngram k=3, 500.0 ms end to end",
                                  "2.00× [2.00, 2.00]", "decodes faster, lossless", "req/s of offered",
                                  "open loop, poisson: times count from when", "tok/s is what was sent"})
    EXPECT_NE(text.find(piece), std::string::npos) << piece << "\n" << text;
  for (const char* const piece : {"Fastest", "Saturated", "saturated", "closed loop", "goodput"})
    EXPECT_EQ(text.find(piece), std::string::npos) << piece << "\n" << text;
}

TEST(OpenLoop, NoTableSaysZeroConcurrentRequests) {
  RunResult run = run_of(simulated(0.5, 1, 2), simulated(0.5, 0.5, 2));
  for (CellResult& cell : run.cells) cell.axes.concurrency = 0;
  const std::string page = report_html(run, summarize(run));
  EXPECT_EQ(page.find("<td class=\"s\">none</td><td>–</td><td>0</td>"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"s\">none</td><td>–</td><td>–</td>"), std::string::npos);
}

TEST(OpenLoop, WhatTooFewArrivalsDoNotTellIsSaid) {
  const auto text_of = [](int requests) {
    const RunResult run = run_of(simulated(0.7, 1, 2, requests, 3), simulated(0.5, 0.5, 2, requests, 3));
    return summary_markdown(run, summarize(run));
  };
  const char* const known = "Whether 2 cells keep up is not known: of so few requests a queue that grows by up to ";
  EXPECT_NE(text_of(64).find(known), std::string::npos) << text_of(64);
  EXPECT_EQ(text_of(1000).find("is not known: of so few"), std::string::npos) << text_of(1000);
}

TEST(OpenLoop, AnEngineThatDoesNotKeepUpIsNamed) {
  const RunResult run = run_of(simulated(1.5, 1, 2), simulated(1.5, 0.5, 2));
  const std::string text = summary_markdown(run, summarize(run));
  for (const char* const piece : {"Saturated, poisson: tp1 pp1 none; latencies depend", "baseline, saturated",
                                  "Lowest latency, poisson: tp1 pp1 ngram k=3"})
    EXPECT_NE(text.find(piece), std::string::npos) << piece << "\n" << text;
  const RunResult fast = run_of(simulated(4000, 0.001, 2), simulated(4000, 0.0005, 2));
  EXPECT_EQ(summary_markdown(fast, summarize(fast)).find("e+0"), std::string::npos);
  const RunResult both = run_of(simulated(9, 1, 2), simulated(9, 0.5, 2));
  EXPECT_NE(summary_markdown(both, summarize(both)).find("No cell keeps up"), std::string::npos);
}

TEST(Goodput, CountsRequestsThatMeetEveryLimit) {
  CellResult cell;
  RepetitionResult repetition{.wall_s = 2};
  const auto add = [&](double ttft_ms, double e2e_ms, size_t tokens) {
    RequestRecord q{.ttft_ms = ttft_ms, .e2e_ms = e2e_ms};
    q.output.resize(tokens);
    repetition.requests.push_back(q);
  };
  add(100, 140, 3);  // tpot 20: meets both, at the edge
  add(100, 142, 3);  // tpot 21
  add(101, 103, 3);  // ttft 101
  add(90, 90, 1);    // no tpot
  cell.repetitions.push_back(repetition);
  EXPECT_FALSE(goodput_of(cell, {}));
  const Goodput both = *goodput_of(cell, {.ttft_ms = 100, .tpot_ms = 20});
  EXPECT_DOUBLE_EQ(both.share, 0.5);
  EXPECT_DOUBLE_EQ(*both.rate_per_s, 1.0);
  EXPECT_DOUBLE_EQ(goodput_of(cell, {.ttft_ms = 100, .tpot_ms = {}})->share, 0.75);
  EXPECT_DOUBLE_EQ(goodput_of(cell, {.ttft_ms = {}, .tpot_ms = 20})->share, 0.75);
  EXPECT_FALSE(goodput_of({}, {.ttft_ms = 100, .tpot_ms = {}}));
  EXPECT_EQ(slo_text({.ttft_ms = 200, .tpot_ms = 2.5}), "ttft ≤ 200 ms, tpot ≤ 2.5 ms");
}

TEST(Goodput, StandsInAllSummaries) {
  RunResult run = run_of(simulated(0.5, 1, 2), simulated(0.5, 0.5, 2));
  run.slo = {.ttft_ms = 600, .tpot_ms = {}};
  const RunSummary summary = summarize(run);
  const nlohmann::json json = summary_to_json(run, summary);
  EXPECT_EQ(json.at("slo"), (nlohmann::json{{"ttft_ms", 600.0}, {"tpot_ms", nullptr}, {"attainment", 0.9}}));
  EXPECT_GT(json.at("cells")[1].at("goodput").at("share"), json.at("cells")[0].at("goodput").at("share"));
  EXPECT_EQ(json.at("cells")[1].at("open_loop").at("saturated"), false);
  EXPECT_EQ(json.at("cells")[1].at("load"), "poisson");
  const std::string text = end_of_run_text(run, summary, TextColor::off);
  EXPECT_NE(text.find("Most good requests (ttft ≤ 600 ms): tp1 pp1 ngram k=3, "), std::string::npos) << text;
  const std::string csv = summary_to_csv(run, summary);
  EXPECT_NE(csv.find(",goodput_share,"), std::string::npos);
  run.slo.ttft_ms = 0.001;
  EXPECT_NE(summary_markdown(run, summarize(run)).find("No request meets ttft ≤ 0.001 ms."), std::string::npos);
}

/// Cells of one request a repetition, told apart by their variants. `good_of`: of `requests`, so many meet 100 ms.
CellResult goodput_cell(const char* id, const std::vector<double>& walls_s, int requests, int good_of) {
  CellResult cell{.id = id, .axes = {.proposer = "ngram", .num_speculative_tokens = 3}};
  cell.axes.variant = id;
  for (const double wall_s : walls_s) {
    RepetitionResult r{.wall_s = wall_s};
    for (int i = 0; i < requests; ++i) {
      RequestRecord q{.id = std::to_string(i), .ttft_ms = i < good_of ? 1.0 : 1000, .e2e_ms = 2000};
      q.output.resize(10);
      r.requests.push_back(q);
    }
    cell.repetitions.push_back(r);
  }
  return cell;
}
std::string goodput_text(std::vector<CellResult> cells) {
  RunResult run;
  run.slo = {.ttft_ms = 100, .tpot_ms = {}};
  run.cells = std::move(cells);
  return summary_markdown(run, summarize(run));
}

TEST(Goodput, IsRankedByGoodRequestsASecond) {
  // 100 % at 5 requests/s, 99 % at 8.
  const std::string text = goodput_text(
      {goodput_cell("few", {20, 20.1, 19.9}, 100, 100), goodput_cell("many", {12.5, 12.4, 12.6}, 100, 99)});
  EXPECT_NE(text.find("Most good requests (ttft ≤ 100 ms): tp1 pp1 ngram, many k=3, 7.92 per second, 99 % of all."),
            std::string::npos)
      << text;
}

TEST(Goodput, ATieIsNoMost) {
  const std::string text =
      goodput_text({goodput_cell("a", {20, 21, 19}, 100, 100), goodput_cell("b", {19.8, 20.9, 19.2}, 100, 100),
                    goodput_cell("c", {40, 41, 39}, 100, 100)});
  EXPECT_NE(
      text.find("tp1 pp1 ngram, b k=3, 5.01 per second, 100 % of all; 1 cell is not significantly worse than it."),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("Not significantly different in good requests from tp1 pp1 ngram, b k=3: tp1 pp1 ngram, a k=3."),
            std::string::npos)
      << text;
  // Without intervals equal shares tie: the rates of one repetition each show nothing.
  EXPECT_NE(goodput_text({goodput_cell("a", {20}, 10, 10), goodput_cell("b", {19}, 10, 10)})
                .find("; 1 cell is not significantly worse than it."),
            std::string::npos);
}

// 4 a second, none in one repetition, which counts as half a request: so wide an interval shows no loss.
TEST(Goodput, ARepetitionWithoutAGoodRequestLosesNothing) {
  CellResult uneven = goodput_cell("uneven", {20, 20, 10}, 100, 100);
  for (RequestRecord& q : uneven.repetitions[0].requests) q.ttft_ms = 1000;
  const std::string text = goodput_text({uneven, goodput_cell("even", {26, 26.1, 25.9}, 100, 100)});
  EXPECT_NE(text.find("1 cell is not significantly worse than it."), std::string::npos) << text;
}

TEST(Goodput, ACellWithoutAGoodRequestIsWorse) {
  const std::vector<double> walls_s = {20, 20.1, 19.9, 20, 20.2};
  const std::string text =
      goodput_text({goodput_cell("fast", walls_s, 100, 100), goodput_cell("slow", walls_s, 100, 0)});
  EXPECT_NE(text.find("ngram, fast k=3, 4.99 per second, 100 % of all."), std::string::npos) << text;
  EXPECT_EQ(text.find("worse than it"), std::string::npos) << text;
}

// What does not fit into a headline is not that the winner ties.
TEST(Goodput, ATieIsSaidBeforeLimitsRatesAndShares) {
  RunResult run{.slo = {.ttft_ms = 100, .tpot_ms = 1e6}};
  run.cells = {goodput_cell("a", {20, 21, 19}, 100, 100), goodput_cell("b", {19.8, 20.9, 19.2}, 100, 100)};
  for (CellResult& cell : run.cells) cell.axes.variant += " has a name of some more words";
  const std::string text = summary_markdown(run, summarize(run));
  EXPECT_NE(
      text.find("Most good requests: tp1 pp1 ngram, b has a name of some more words k=3, 5.01 per second, 100 % of "
                "all; 1 cell is not significantly worse than it."),
      std::string::npos)
      << text;
}

TEST(Goodput, IsAllOnlyWhereItIs) {
  EXPECT_EQ(percent_text(1), "100 %");
  EXPECT_EQ(percent_text(0), "0 %");
  EXPECT_EQ(percent_text(0.71), "71 %");
  EXPECT_EQ(percent_text(0.9972), "99.7 %");
  EXPECT_EQ(percent_text(0.99996), "99.996 %");
  EXPECT_EQ(percent_text(0.0004), "0.04 %");
  EXPECT_EQ(percent_text(1.003), "100.3 %");
}

TEST(Goodput, CellsWithoutAGoodRequestTie) {
  RunResult run{.slo = {.ttft_ms = 100, .tpot_ms = {}}};
  run.cells = {goodput_cell("a", {20, 20.1, 19.9}, 100, 0), goodput_cell("b", {40, 40.1, 39.9}, 100, 0)};
  const RunSummary summary = summarize(run);
  const VerdictView view(run, summary);
  const auto most =
      std::find_if(view.picks().begin(), view.picks().end(), [](const Pick& p) { return p.kind == PickKind::goodput; });
  ASSERT_NE(most, view.picks().end());
  EXPECT_EQ(most->cells.size(), 2u);
}

// Of an open loop it is counted as the rates beside it are: behind the first arrival.
TEST(Goodput, OfAnOpenLoopIsNotAboveWhatWasAchieved) {
  const CellResult cell = simulated(2, 0.01, 3, 12, 3);
  const Goodput all = *goodput_of(cell, {.ttft_ms = 1e6, .tpot_ms = {}});
  EXPECT_EQ(all.share, 1);
  EXPECT_DOUBLE_EQ(*all.rate_per_s, *summarize_open_loop(cell)->achieved_rate_per_s);
  EXPECT_FALSE(goodput_of(simulated(2, 0.01, 3, 1, 1), {.ttft_ms = 1e6, .tpot_ms = {}})->rate_per_s);
}

TEST(OpenLoop, AchievedIsNeverAboveOffered) {
  for (const double rate : {0.2, 0.7, 1.5}) {
    for (const int requests : {2, 6, 40}) {
      const OpenLoopSummary summary = *summarize_open_loop(simulated(rate, 0.01, 3, requests));
      EXPECT_LE(*summary.achieved_rate_per_s, *summary.offered_rate_per_s) << rate << ", " << requests;
    }
  }
}

TEST(Categories, HaveTheirOwnAcceptanceAndSpeedup) {
  CellResult slow = simulated(0.5, 1, 2), fast = simulated(0.5, 1, 2);
  for (RepetitionResult& r : fast.repetitions) {
    for (RequestRecord& q : r.requests) {
      if (q.category == "odd") q.e2e_ms = q.ttft_ms + (q.e2e_ms - q.ttft_ms) / 4;
      if (q.category == "even") q.accepted = {0};
    }
  }
  const auto categories = summarize_categories(fast, &slow);
  ASSERT_EQ(categories.size(), 2u);
  EXPECT_EQ(categories[0].category, "even");
  EXPECT_EQ(categories[0].num_requests, 7 * 30);
  EXPECT_NEAR(categories[0].decode_speedup->ratio, 1.0, 1e-9);
  EXPECT_NEAR(categories[1].decode_speedup->ratio, 4.0, 1e-9);
  EXPECT_EQ(categories[0].mean_acceptance_length, 1.0);
  EXPECT_EQ(categories[1].mean_acceptance_length, 2.0);
  EXPECT_EQ(categories[1].tokens_per_target_forward, 1.5);
  const RunResult run = run_of(slow, fast);
  const RunSummary summary = summarize(run);
  EXPECT_EQ(summary_to_json(run, summary).at("cells")[1].at("by_category")[1].at("category"), "odd");
  EXPECT_NE(
      summary_markdown(run, summary)
          .find("Decode speedup by category, tp1 pp1 ngram k=3: highest in \"odd\", 4.00× [4.00, 4.00]; lowest in "
                "\"even\", 1.00× [1.00, 1.00]."),
      std::string::npos);
  for (RepetitionResult& r : slow.repetitions)
    for (RequestRecord& q : r.requests) q.category = "one";
  EXPECT_TRUE(summarize_categories(slow, nullptr).empty());
}

}  // namespace
}  // namespace paceline
