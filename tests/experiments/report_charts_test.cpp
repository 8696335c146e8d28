// What every chart of the pages keeps to: one colour for a proposer, legends of what is drawn, words for who cannot
// see.

#include <algorithm>
#include <regex>

#include <gtest/gtest.h>

#include "experiments/report/comparison/comparison.h"
#include "experiments/report/svg/chart.h"
#include "tests/experiments/report_page.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::count;
using test::holds;
using test::report_of;
using test::section_of;

/// All first groups of a pattern.
std::vector<std::string> all_of(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

/// The rows of configs/tp_pp_speculative.json, and a second draft model.
RunResult run_of_labels() {
  RunResult run = test::synthetic_run({.with_trouble = false});
  std::vector<CellResult> cells;
  const auto take = [&](const char* id, const char* label, json draft) {
    for (const CellResult& cell : run.cells) {
      if (cell.id != id) continue;
      cells.push_back(cell);
      cells.back().axes.variant = label;
      cells.back().requested["speculation"]["draft"] = std::move(draft);
      cells.back().baseline_id = run.cells.front().id;
      cells.back().id += "_" + std::to_string(cells.size());
      cells.back().repetitions.front().timeline = {{0, 1, 1, 0, 0}, {5, 1, 3, 3, 1}, {9, 0, 2, 4, 1}};
      return;
    }
  };
  take("tp1_pp1_none_c1", "one rank", {});
  cells.front().id = cells.front().baseline_id;
  take("tp2_pp1_draft_k5_c1", "TP2 + self-draft", {{"self", true}, {"path", "models/target"}});
  take("tp2_pp1_draft_k5_c1", "TP2 + small", {{"self", false}, {"path", "models/small"}});
  take("tp2_pp1_ngram_k5_c1", "TP2 + ngram", {});
  run.cells = cells;
  return run;
}

TEST(ReportCharts, AProposerHasOneColourAndLegendsListWhatIsDrawn) {
  const std::string html = report_of(run_of_labels());
  // ngram: 0, the first draft: 1, those listed behind it up to 5, the small model: 6, none: 7.
  const std::string headline = section_of(html, "headline"), speedup = section_of(html, "speedup"),
                    acceptance = section_of(html, "acceptance"), timeline = section_of(html, "timeline");
  const auto has_bar = [](const std::string& section, const std::string& label, int color) {
    return holds(section, fmt::format(">{}</text><rect class=\"b k{}\"", label, color));
  };
  EXPECT_TRUE(has_bar(headline, "none, one rank", 7)) << headline;
  for (const std::string& section : {headline, speedup}) {
    EXPECT_TRUE(has_bar(section, "draft, TP2 + self-draft k=5", 1)) << section;
    EXPECT_TRUE(has_bar(section, "draft, TP2 + small k=5", 6)) << section;
    EXPECT_TRUE(has_bar(section, "ngram, TP2 + ngram k=5", 0)) << section;
  }
  for (const auto& [name, color] :
       {std::pair("draft (self)", 1), std::pair("draft (small)", 6), std::pair("ngram", 0)}) {
    const std::string legend = fmt::format("<path class=\"l k{}\" d=\"M1 7H25\"/>", color);
    EXPECT_TRUE(holds(acceptance, legend)) << name;
    EXPECT_TRUE(holds(acceptance, std::string("</svg>") + name + ". k=5: ")) << acceptance;
    EXPECT_TRUE(holds(timeline, std::string("</svg>") + name + " at its fastest k<")) << timeline;
  }
  // One value of k is no line: the chart has a bar for each cell.
  EXPECT_FALSE(holds(speedup, "class=\"legend\""));
  EXPECT_EQ(count(speedup, "<rect class=\"b "), 3u);
}

TEST(ReportCharts, AProposerHasItsColourWhateverComesFirst) {
  for (const bool draft_first : {false, true}) {
    RunResult run = test::synthetic_run({.with_trouble = false});
    if (draft_first) std::reverse(run.cells.begin(), run.cells.end());
    const RunSummary summary = summarize(run);
    const std::string section = section_of(report_html(run, summary), "acceptance");
    EXPECT_TRUE(holds(section,
                      "<path class=\"l k0\" d=\"M1 7H25\"/><circle class=\"m k0\" cx=\"13.0\" cy=\"7.0\" "
                      "r=\"4\"></circle></svg>ngram. "))
        << section.substr(0, 3000);
    EXPECT_TRUE(holds(section, "y=\"3.2\" width=\"7.5\" height=\"7.5\"></rect></svg>draft. "));
  }
}

TEST(ReportCharts, NoPhaseLooksLikeAProposer) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  for (CellResult& cell : run.cells)
    for (RepetitionResult& r : cell.repetitions) r.phases.bubble_ms = r.passes->decode.phases.bubble_ms = 0;
  const std::string section = section_of(report_of(run), "steps");
  EXPECT_TRUE(holds(section, "<rect class=\"b p1\""));
  EXPECT_FALSE(holds(section, "<rect class=\"b k"));
  EXPECT_TRUE(holds(section, "</svg>draft<"));
  EXPECT_FALSE(holds(section, "</svg>bubble<"));  // nothing of it is drawn
}

// A prefill pass is no part of what drafts cost; records that do not tell the two apart are charted as they are.
TEST(ReportCharts, PhasesAreThoseOfDecodePasses) {
  RunResult run = test::synthetic_run({.prefill_share = 0.5, .with_trouble = false});
  const std::string section = section_of(report_of(run), "steps");
  EXPECT_TRUE(holds(section, "Time of a decode pass by phase")) << section;
  EXPECT_TRUE(holds(section, "<td>50.0</td><td>49.6</td><td>0.0</td>")) << section;
  EXPECT_TRUE(holds(section, fmt::format("{:.2f} ms", test::synthetic_step({}).total_ms() - 0.05))) << section;
  for (RepetitionResult& r : run.cells[0].repetitions) r.passes.reset();
  const std::string older = section_of(report_of(run), "steps");
  EXPECT_TRUE(holds(older, "Time of a pass by phase"));
  EXPECT_TRUE(holds(older, "prefill included, as this run was recorded before"));
}

TEST(ReportCharts, ALegendHasNoSeriesThatNoChartShows) {
  RunResult run = test::synthetic_run({.concurrencies = {1, 8}, .with_trouble = false});
  std::erase_if(run.cells, [](const CellResult& c) { return c.axes.proposer == "draft" && c.axes.concurrency == 8; });
  for (CellResult& cell : run.cells) {
    if (cell.axes.proposer != "ngram" || cell.axes.concurrency != 1) continue;
    cell.status = CellStatus::failed;
    cell.repetitions.clear();
  }
  const std::string section = section_of(report_of(run), "speedup");
  EXPECT_EQ(all_of(section, "</svg>([a-z]+ c=[0-9])<"), (std::vector<std::string>{"ngram c=8", "draft c=1"}));
}

TEST(ReportCharts, OutputsAreCalledTheSameWhereThatIsCertified) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  EXPECT_TRUE(holds(section_of(report_of(run), "speedup"), "Outputs are the same at every k."));
  run.cells.back().certificate.status = CertificateStatus::unverified;
  EXPECT_FALSE(holds(section_of(report_of(run), "speedup"), "Outputs are the same"));
}

TEST(ReportCharts, TheAbscissaIsTheSweptNumberOfSpeculation) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  std::erase_if(run.cells, [](const CellResult& c) {
    return c.axes.tp != 1 || c.axes.pp != 1 || c.axes.proposer == "ngram" ||
           c.axes.num_speculative_tokens.value_or(5) != 5;
  });
  const CellResult draft = run.cells.back();
  run.cells.pop_back();
  for (const double length : {1.0, 3.0, 6.0}) {
    run.cells.push_back(draft);
    run.cells.back().id += fmt::format("_{}", length);
    run.cells.back().forced = true;
    run.cells.back().axes.variant = fmt::format("acceptance_length={}", length);
    run.cells.back().requested["speculation"] = {{"num_speculative_tokens", 5},
                                                 {"synthetic", {{"acceptance_length", length}}}};
  }
  run.config_resolved["report"] = {{"x", "auto"}};
  std::string section = section_of(report_of(run), "speedup");
  EXPECT_TRUE(holds(section, "Speedup by stated acceptance length</h2>")) << section;
  EXPECT_TRUE(holds(section, "middle\">stated acceptance length</text>"));
  EXPECT_EQ(count(section, "<svg class=\"chart\""), 1u);
  EXPECT_EQ(count(section, "<rect class=\"m k1"), 3u + 1u);
  EXPECT_FALSE(holds(section, "Outputs are the same"));
  run.config_resolved["report"] = {{"x", "num_speculative_tokens"}};  // what is asked for is drawn
  section = section_of(report_of(run), "speedup");
  EXPECT_FALSE(holds(section, "by stated"));
}

TEST(ReportCharts, StatesOverTimeAreSteps) {
  LineChart chart{
      .title = "t", .x_ticks = {0, 10}, .y_max = 10, .series = {{.name = "s", .markers = false, .points = {}}}};
  chart.series[0].points = {{.x = 0, .y = 1}, {.x = 5, .y = 3}};
  const auto path = [&](LineCourse course) {
    chart.series[0].course = course;
    return all_of(svg_line_chart(chart), "class=\"l k0\" d=\"([^\"]*)\"").at(0);
  };
  EXPECT_TRUE(std::regex_match(path(LineCourse::straight), std::regex("M[0-9. ]+L[0-9. ]+")));
  EXPECT_TRUE(std::regex_match(path(LineCourse::keeps), std::regex("M[0-9. ]+H[0-9.]+V[0-9.]+")));
  EXPECT_TRUE(std::regex_match(path(LineCourse::reaches), std::regex("M[0-9. ]+V[0-9.]+H[0-9.]+")));
  const std::string timeline = section_of(report_of(run_of_labels()), "timeline");
  EXPECT_TRUE(std::regex_search(timeline, std::regex("class=\"l k7[^\"]*\" d=\"M[0-9. ]+H[0-9.]+V"))) << timeline;
}

TEST(ReportCharts, AHeadingNamesWhatIsDrawn) {
  EXPECT_TRUE(holds(section_of(report_of(run_of_labels()), "timeline"), ">Memory over time<"));
  RunResult run = test::synthetic_run({.concurrencies = {1, 8}, .with_trouble = false});
  for (CellResult& cell : run.cells) cell.repetitions.front().timeline = {{0, 1, 1, 0, 0}, {5, 1, 3, 3, 1}};
  EXPECT_TRUE(holds(section_of(report_of(run), "timeline"), ">Batch, memory and bubbles over time<"));
  std::erase_if(run.cells, [](const CellResult& cell) { return cell.axes.pp > 1; });
  const std::string section = section_of(report_of(run), "timeline");
  EXPECT_TRUE(holds(section, ">Batch and memory over time<"));
  EXPECT_FALSE(holds(section, "ubble"));
}

TEST(ReportCharts, ACaptionSaysWhatCellsAreComparedWith) {
  const auto says = [](const RunResult& run, const char* section, const char* words) {
    return holds(section_of(report_of(run), section), words);
  };
  for (const char* section : {"speedup", "headline"}) {
    const RunResult usual = test::synthetic_run({.with_trouble = false});
    EXPECT_TRUE(says(usual, section, ": no speculation in the same placement and load. ")) << section;
    EXPECT_FALSE(says(usual, section, "sweep.baseline")) << section;
    EXPECT_TRUE(says(run_of_labels(), section, ": the cell that sweep.baseline names. ")) << section;
    EXPECT_FALSE(says(run_of_labels(), section, "no speculation in")) << section;
    RunResult batches = usual;  // of a plain baseline that differs in more than its speculation
    for (CellResult& cell : batches.cells)
      cell.requested["engine"]["scheduler"]["batching"] = cell.axes.drafts() ? "continuous" : "static";
    EXPECT_TRUE(says(batches, section, ": the cell that sweep.baseline names. ")) << section;
  }
}

TEST(ReportCharts, RequestsAndPositionsHaveTheirAcceptance) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  run.cells.resize(4);  // none and three ngram cells
  const std::string section = section_of(report_of(run), "acceptance");
  EXPECT_TRUE(holds(section, "Acceptance length of each request"));
  EXPECT_EQ(count(section, "<g class=\"w\""), 3u);  // quartiles
  EXPECT_TRUE(std::regex_search(section, std::regex(R"(>1\.[0-9]+ \[1\.[0-9]+, [12]\.[0-9]+\], 12 requests<)")));
  EXPECT_TRUE(holds(section, "output position (tokens)"));
  for (CellResult& cell : run.cells)
    for (RepetitionResult& r : cell.repetitions)
      for (RequestRecord& q : r.requests) q.drafted.assign(q.drafted.size(), 0);
  EXPECT_FALSE(holds(section_of(report_of(run), "acceptance"), "<g class=\"w\""));
}

TEST(ReportPage, WhatIsMissingComesFirst) {
  RunResult run = test::synthetic_run();
  run.info.status = "interrupted";
  for (size_t i = 20; i < 24; ++i) {
    run.cells[i].status = CellStatus::skipped;
    run.cells[i].not_run = true;
    run.cells[i].reason = "not run: the run ended earlier";
    run.cells[i].repetitions.clear();
  }
  const std::string html = report_of(run);
  const size_t badges = html.find("<div class=\"badges\">");
  EXPECT_EQ(html.find("<span class=\"badge bad\">INTERRUPTED: ", badges), badges + 20) << html.substr(badges, 200);
  const std::string section = section_of(html, "trouble");
  EXPECT_LT(html.find(section), html.find("id=\"headline\""));
  EXPECT_TRUE(holds(html, "<span class=\"badge warn\">4 not run</span>")) << html.substr(badges, 400);
  EXPECT_TRUE(holds(html, "<span class=\"badge \">1 skipped</span>"));
  EXPECT_TRUE(holds(section, "<h3>Not run</h3><ul><li>not run: "));
  EXPECT_TRUE(holds(section_of(html, "heat"), ">not run</td>"));
  EXPECT_TRUE(holds(section, "rank 1 did not answer within 30 s &lt;deadline&gt;"));
  EXPECT_TRUE(holds(section, "not run: the run ended earlier <span class=\"sub\">(4: "));
  EXPECT_TRUE(holds(section, "runexp resume " + run.info.id));
  run = test::synthetic_run({.with_trouble = false});
  EXPECT_EQ(section_of(report_of(run), "trouble"), "");
}

TEST(ReportPage, ABadgeTellsOfDisturbedCells) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  EXPECT_FALSE(holds(report_of(run), "disturbed</span>"));
  for (size_t i : {1u, 4u})
    for (RepetitionResult& r : run.cells[i].repetitions)
      r.disturbance = {.wall_s = 10,
                       .cores = 2,
                       .foreign_cpu_s = 8,
                       .stolen_s = {},
                       .throttled_s = {},
                       .throttled_periods = {},
                       .thermal_events = {},
                       .clock_ghz = {}};
  ASSERT_FALSE(summarize(run).cells[1].noise.empty());
  EXPECT_TRUE(holds(report_of(run), "<span class=\"badge warn\">2 of 28 cells disturbed</span>"));
}

TEST(ReportPage, TellsGoodputAndPreemptions) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  EXPECT_TRUE(holds(section_of(report_of(run), "latency"), "report.slo is not set"));
  EXPECT_TRUE(holds(section_of(report_of(run), "memory"), "No request was preempted."));
  run.slo = {.ttft_ms = 5000, .tpot_ms = {}};
  run.cells[1].repetitions[0].counters.preemptions = 3;
  const std::string html = report_of(run);
  EXPECT_EQ(count(section_of(html, "latency"), "<td>100 %</td>"), run.cells.size());
  EXPECT_TRUE(holds(section_of(html, "latency"), "ttft ≤ 5000 ms"));
  EXPECT_TRUE(holds(section_of(html, "memory"), "<p>3 preemptions: "));
  EXPECT_TRUE(holds(section_of(html, "memory"), "<td>1.0</td>"));  // of three repetitions
}

TEST(ReportPage, TellsBytesAndTimeOfCommunication) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  const RunSummary summary = summarize(run);
  const std::string section = section_of(report_of(run), "ranks");
  const auto sent = [](const CellSummary& s) {
    return fmt::format("<td>{:.3f}</td><td>{:.1f}</td>", s.phase_ms_per_step.communicate_ms,
                       s.devices.communicate.bytes / 1024);
  };
  for (size_t i = 0; i < run.cells.size(); ++i) {
    if (run.cells[i].id != "tp2_pp1_none_c1") continue;
    EXPECT_TRUE(holds(section, sent(summary.cells[i]))) << section;
  }
}

TEST(ReportPage, TellsWhereEachValueWasWritten) {
  RunResult run = test::synthetic_run();
  run.config_resolved = {
      {"load", {{"concurrency", 1}}}, {"name", "x"}, {"sweep", {{"axes", {{"engine.parallel.tp", {1, 2}}}}}}};
  std::string setup = section_of(report_of(run), "setup");
  EXPECT_TRUE(holds(setup, "<summary>Resolved configuration</summary><pre>{")) << "an old run has no places";
  run.config_origins = {{"name", "configs/<x>.json:3"}, {"sweep.axes.engine.parallel.tp", "--axis"}};
  setup = section_of(report_of(run), "setup");
  EXPECT_FALSE(holds(setup, "<summary>Resolved configuration</summary><pre>"));
  EXPECT_TRUE(holds(setup,
                    "<td class=\"s\">name</td><td class=\"why\">&quot;x&quot;</td><td class=\"s\">configs/"
                    "&lt;x&gt;.json:3</td>"));
  EXPECT_TRUE(
      holds(setup, "sweep.axes.engine.parallel.tp</td><td class=\"why\">[1,2]</td><td class=\"s\">--axis</td>"));
  EXPECT_TRUE(holds(setup, "load.concurrency</td><td class=\"why\">1</td><td class=\"s\">default</td>"));
}

/// Charts that tell nothing, tables that a screen reader cannot announce.
void expect_accessible(const std::string& html) {
  for (const std::string& attributes : all_of(html, "<svg class=\"chart([^>]*)>")) {
    EXPECT_TRUE(holds(attributes, "role=\"img\"")) << attributes;
    EXPECT_TRUE(std::regex_search(attributes, std::regex("aria-label=\"[^\"]+\""))) << attributes;
  }
  EXPECT_GT(count(html, "<svg class=\"chart"), 0u);
  EXPECT_EQ(all_of(html, "<svg class=\"chart[^>]*>(<desc>[^<]+</desc>)").size(), count(html, "<svg class=\"chart"));
  EXPECT_EQ(count(html, "<table"), count(html, "<caption>"));
  EXPECT_EQ(all_of(html, "(<th(?![^>]* scope=)[ >])").size(), 0u);
}

TEST(ReportPage, TellsItsChartsAndTablesToAScreenReader) {
  expect_accessible(report_of(test::synthetic_run({.concurrencies = {1, 8}})));
  expect_accessible(report_of(run_of_labels()));
  const std::string headline = section_of(report_of(run_of_labels()), "headline");
  EXPECT_TRUE(std::regex_search(headline, std::regex("<desc>Longest of 4: TP 2 × PP 1, [^<]*k=5: [0-9.]+ ")))
      << headline;
  EXPECT_TRUE(holds(headline, ". Shortest: TP 1 × PP 1, none, one rank: ")) << headline;
}

TEST(ReportPage, NeedsNoMotionAndNoPositions) {
  const std::string html = report_of(test::synthetic_run({.concurrencies = {1, 8}}));
  for (const char* motion : {"transition:", "animation:", "scroll-behavior:"})
    EXPECT_FALSE(holds(html, motion)) << motion;
  // Charts stand beside or below each other as the window allows.
  for (const char* place : {"Left:", "Right:", " on the left", " on the right"})
    EXPECT_FALSE(holds(html, place)) << place;
}

TEST(ComparisonPage, LabelsHaveTheirRoomAndTablesTheirHeads) {
  std::vector<RunResult> runs = {run_of_labels(), run_of_labels()};
  const std::string html = comparison_html(compare_runs(runs));
  EXPECT_EQ(test::nesting_error(html), "");
  expect_accessible(html);
  const std::string label = "tp2 pp1 draft, TP2 + self-draft k=5 c=1";
  EXPECT_TRUE(holds(html, ">" + label + "</text>"));
  const std::vector<std::string> rooms = all_of(html, "margin:0 [0-9]+px 0 ([0-9]+)px");
  ASSERT_EQ(rooms.size(), 1u);
  EXPECT_GE(std::stod(rooms[0]), 6.5 * static_cast<double>(label.size()));
}

}  // namespace
}  // namespace paceline
