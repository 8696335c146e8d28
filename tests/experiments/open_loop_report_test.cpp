// What report.html shows of open loops: what the load asked, not tokens per second, which are what was sent.

#include <gtest/gtest.h>

#include "tests/experiments/report_page.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using test::count;
using test::holds;
using test::nesting_error;
using test::report_of;
using test::section_of;

/// The synthetic run, 28 cells, with a request every `gap_ms`, each of which waits `wait_ms` longer than the one
/// before.
RunResult open_run(double gap_ms, double wait_ms = 0) {
  RunResult run = test::synthetic_run({.requests = 24, .with_trouble = false});
  for (CellResult& cell : run.cells) {
    cell.load = "poisson 1/s";
    cell.axes.concurrency = 0;
    for (RepetitionResult& r : cell.repetitions) {
      for (size_t i = 0; i < r.requests.size(); ++i) {
        r.requests[i].arrival_ms = gap_ms * double(i);
        r.requests[i].ttft_ms += wait_ms * double(i);
        r.requests[i].e2e_ms += wait_ms * double(i);
      }
      r.wall_s = 24;
    }
  }
  return run;
}

TEST(OpenLoopReport, LeadsWithLatencyAndGoodput) {
  RunResult run = open_run(1000);
  std::string section = section_of(report_of(run), "headline");
  EXPECT_TRUE(holds(section, "Latency at a glance</h2>"));
  for (const char* const asked :
       {">time to first token, ms<", ">time per output token, ms<", ">end-to-end latency of a request, ms<"})
    EXPECT_TRUE(holds(section, asked)) << asked;
  EXPECT_FALSE(holds(section, "tokens per second"));
  EXPECT_FALSE(holds(section, "oodput"));
  EXPECT_EQ(count(section, "<rect class=\"b "), 3u * 12u);  // four placements of three proposers
  run.slo = {.ttft_ms = 30, .tpot_ms = {}};
  const std::string html = report_of(run);
  EXPECT_EQ(nesting_error(html), "");
  section = section_of(html, "headline");
  EXPECT_EQ(count(section, "<rect class=\"b "), 4u * 12u);
  EXPECT_TRUE(holds(section, ">requests per second with ttft ≤ 30 ms<")) << section;
  EXPECT_LT(section.find("<h4>Goodput</h4>"), section.find("<h4>TTFT</h4>"));
}

TEST(OpenLoopReport, ShowsTheKOfTheLowestLatency) {
  RunResult run = open_run(1000);
  run.cells.resize(4);
  for (RepetitionResult& r : run.cells[1].repetitions) r.wall_s /= 10;  // of no account: k=1 has the most tok/s
  const RunSummary summary = summarize(run);
  size_t lowest = 1;
  for (const size_t i : {2u, 3u})
    if (*summary.cells[i].e2e_ms.p50 < *summary.cells[lowest].e2e_ms.p50) lowest = i;
  ASSERT_NE(lowest, 1u);
  const std::string section = section_of(report_of(run), "headline");
  EXPECT_EQ(count(section, fmt::format(">ngram k={}</text>", *run.cells[lowest].axes.num_speculative_tokens)), 3u);
  EXPECT_EQ(count(section, ">ngram k="), 3u);
}

TEST(OpenLoopReport, MarksSaturatedCells) {
  EXPECT_FALSE(holds(section_of(report_of(open_run(1000)), "headline"), "(saturated)"));
  const std::string section = section_of(report_of(open_run(1, 50)), "headline");
  EXPECT_EQ(count(section, "(saturated)</text>"), 3u * 12u);
  EXPECT_EQ(count(section, " faded\" x="), 3u * 3u * 12u) << "label, bar and text";
  EXPECT_FALSE(holds(section_of(report_of(open_run(1, 50)), "pareto"), "<ol>")) << "none is ranked";
}

TEST(OpenLoopReport, TheParetoChartRanksLatencyAgainstRequests) {
  RunResult run = open_run(1000);
  run.cells.resize(4);
  const RunSummary summary = summarize(run);
  size_t lowest = 0;
  for (const CellSummary& s : summary.cells)
    if (*s.e2e_ms.p50 < *summary.cells[lowest].e2e_ms.p50) lowest = s.cell;
  const std::string best = fmt::format("<ol><li>{}: {:.0f} ms median E2E, ", axes_label(run.cells[lowest].axes),
                                       *summary.cells[lowest].e2e_ms.p50);
  std::string section = section_of(report_of(run), "pareto");
  EXPECT_TRUE(holds(section, "Latency against requests of a device</h2>"));
  EXPECT_TRUE(holds(section, best + "1 requests/s per device</li></ol>")) << section;
  EXPECT_FALSE(holds(section, "tok/s"));
  run.slo = {.ttft_ms = 1e6, .tpot_ms = {}};
  section = section_of(report_of(run), "pareto");
  const double achieved = *summary.cells[lowest].open_loop->achieved_rate_per_s;
  EXPECT_TRUE(holds(section, fmt::format("{}{:.3g} good requests/s per device</li>", best, achieved))) << section;
  EXPECT_TRUE(holds(section, "good requests/s and device (ttft ≤ 1e+06 ms)"));
}

TEST(OpenLoopReport, BothKindsOfLoopsStandApart) {
  RunResult run = open_run(1000);
  run.cells.resize(4);
  for (CellResult& cell : test::synthetic_run({.with_trouble = false}).cells) {
    cell.id += "_closed";
    cell.baseline_id += "_closed";
    run.cells.push_back(cell);
  }
  const std::string html = report_of(run), headline = section_of(html, "headline"), pareto = section_of(html, "pareto");
  EXPECT_TRUE(holds(headline, "<h3>poisson 1/s</h3><h4>TTFT</h4>")) << headline.substr(0, 500);
  EXPECT_TRUE(holds(headline, "<h3>Concurrency 1</h3><div class=\"wide\""));
  EXPECT_EQ(count(headline, ">output tokens per second (prefill included)<"), 1u);
  EXPECT_TRUE(holds(pareto, "<h3>Speed per user, throughput per device</h3>"));
  EXPECT_TRUE(holds(pareto, "<h3>Latency against requests of a device</h3>"));
  EXPECT_EQ(count(pareto, "<svg class=\"chart"), 2u);
}

TEST(OpenLoopReport, RanksAreNotJudgedByWhatWasSent) {
  EXPECT_TRUE(holds(section_of(report_of(test::synthetic_run({.with_trouble = false})), "ranks"), "<td>100 %</td>"));
  EXPECT_FALSE(holds(section_of(report_of(open_run(1000)), "ranks"), "<td>100 %</td>"));
}

}  // namespace
}  // namespace paceline
