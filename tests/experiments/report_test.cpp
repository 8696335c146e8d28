#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/analysis/published_rows.h"
#include "experiments/report/html/html.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"
#include "experiments/results/results.h"
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

TEST(NestingChecker, CanFail) {
  EXPECT_EQ(nesting_error("<p>a<b>c</b></p>"), "");
  EXPECT_NE(nesting_error("<p>a<b>c</p></b>"), "");
  EXPECT_NE(nesting_error("<div><p></p>"), "");
  EXPECT_EQ(nesting_error("<svg><path d=\"M1 2\"/></svg>"), "");
}

TEST(ReportHtml, HoldsEveryCellAndIsWellNested) {
  const RunResult run = test::synthetic_run();
  const std::string html = report_of(run);
  EXPECT_EQ(nesting_error(html), "");
  // A row of the table of all cells has text for the filter. Of the others, one for each finished cell, and the head.
  EXPECT_EQ(count(html, "<tr data-label="), 28u);
  EXPECT_EQ(count(section_of(html, "cells"), "<tr data-label="), 28u);
  for (const char* id : {"devices", "latency", "steps"}) EXPECT_EQ(count(section_of(html, id), "<tr"), 26u + 1u) << id;
  EXPECT_NE(html.find("rank 1 did not answer within 30 s &lt;deadline&gt;"), std::string::npos);
  EXPECT_NE(html.find("skipped: excluded by sweep.exclude[0]"), std::string::npos);
  EXPECT_NE(html.find("Example CPU &lt;2 cores&gt; &amp; more"), std::string::npos);
  EXPECT_NE(html.find("runexp configs/ngram_tp2.json --profile quick"), std::string::npos);
}

TEST(ReportHtml, NeedsNoNetworkAndNoScript) {
  const std::string html = report_of(test::synthetic_run());
  for (const char* text : {"http://", "https://", "src=", "@import", "url(", "<link"}) {
    EXPECT_EQ(html.find(text), std::string::npos) << text;
  }
  EXPECT_NE(html.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(html.find("@media print"), std::string::npos);
}

TEST(ReportHtml, VerdictComesFirstAndLeavesOversubscribedCellsOut) {
  const std::string html = report_of(test::synthetic_run());
  const size_t begin = html.find("<div class=\"verdict\">"), end = html.find("</ul>", begin);
  ASSERT_NE(begin, std::string::npos);
  EXPECT_LT(begin, html.find("<h2 "));
  EXPECT_NE(html.find(">7 not ranked<"), std::string::npos);
  const std::string verdict = html.substr(begin, end - begin);
  EXPECT_EQ(verdict.find("tp2 pp2"), std::string::npos) << verdict;
  EXPECT_NE(verdict.find("Fastest: tp2 pp1 ngram k=5"), std::string::npos) << verdict;
}

TEST(ReportHtml, StaysSmall) {
  const RunResult run = test::synthetic_run({.repetitions = 7, .concurrencies = {1, 8}});
  ASSERT_EQ(run.cells.size(), 56u);
  EXPECT_LT(report_of(run).size(), 500u * 1000u);
  // With timelines, as an engine leaves them.
  RunResult full = run;
  for (CellResult& cell : full.cells)
    for (RepetitionResult& r : cell.repetitions)
      for (size_t i = 0; i < kMaxTimelinePoints; ++i)
        r.timeline.push_back({2.5 * double(i), int(i % 8), int(i % 40), int64_t(i) * 3, 0.3 * double(i)});
  EXPECT_LT(report_of(full).size(), 600u * 1000u);
}

TEST(ReportHtml, OneCellAndNoFinishedCellStillGiveAReport) {
  RunResult run = test::synthetic_run({.repetitions = 1});
  run.cells.resize(1);
  EXPECT_EQ(nesting_error(report_of(run)), "");
  run.cells[0].status = CellStatus::failed;
  run.cells[0].repetitions.clear();
  run.cells[0].reason = "out of memory";
  const std::string html = report_of(run);
  EXPECT_EQ(nesting_error(html), "");
  EXPECT_NE(html.find("Nothing was measured"), std::string::npos);
  EXPECT_NE(html.find("out of memory"), std::string::npos);
  run.cells.clear();
  EXPECT_EQ(nesting_error(report_of(run)), "");
}

TEST(ReportHtml, HostileTextIsEscaped) {
  RunResult run = test::synthetic_run();
  run.info.name = "<script>alert(1)</script>";
  run.cells[19].reason = "</td><img src=x onerror=alert(2)>";
  run.config_resolved = {{"name", "</pre><script>alert(3)</script>"}};
  const std::string html = report_of(run);
  EXPECT_EQ(nesting_error(html), "");
  EXPECT_EQ(count(html, "<script"), 1u);  // ours
  EXPECT_EQ(html.find("<img"), std::string::npos);
}

TEST(BarChart, TheTextBehindTheLongestBarFits) {
  const std::string text = "2761.9 · 1.24× (oversubscribed)";  // 31 characters
  const BarChart chart{.rows = {{.label = "a", .value = 1.0, .low = 0.9, .high = 3.0, .text = text}}};
  const std::string svg = svg_bar_chart(chart);
  const size_t at = svg.find("class=\"v\" x=\"");
  ASSERT_NE(at, std::string::npos);
  // In per cent of the element, whose right margin holds what stands behind the end.
  const double begin = std::stod(svg.substr(at + std::string("class=\"v\" x=\"").size()));
  EXPECT_DOUBLE_EQ(begin, 100);  // the axis ends at 3
  const size_t margin = svg.find("margin:0 ");
  ASSERT_NE(margin, std::string::npos);
  EXPECT_GE(std::stod(svg.substr(margin + 9)), 31 * 6.3);
}

TEST(NiceTicks, CoverTheRange) {
  EXPECT_EQ(nice_ticks(0, 1, 5), (std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
  for (double high : {0.003, 0.9, 1.0, 7.3, 446.0, 12345.0}) {
    const auto ticks = nice_ticks(0, high, 6);
    EXPECT_EQ(ticks.front(), 0);
    EXPECT_GE(ticks.back(), high * (1 - 1e-9));
    EXPECT_LE(ticks.size(), 9u);
  }
  EXPECT_GE(nice_ticks(0, 0, 5).size(), 2u);
  EXPECT_GE(nice_ticks(3, 3, 5).size(), 2u);
}

TEST(Charts, ALongLabelHasItsRoom) {
  const auto chart_of = [](const std::string& label) {
    return svg_bar_chart({.rows = {{.label = label, .value = 1.0}}});
  };
  const auto room = [&](const std::string& label) {
    const std::string svg = chart_of(label);
    return std::stod(svg.substr(svg.find("px 0 ") + 5));  // the left margin
  };
  EXPECT_EQ(room("short"), room("a little longer"));
  EXPECT_GT(room(std::string(40, 'x')), 40 * 6.0);
  EXPECT_GT(room("tp2 pp1 draft, TP2 + self-draft k=5 c=1"), 39 * 6.5);
  EXPECT_LE(room(std::string(400, 'x')), 400);
  const std::string cut = chart_of(std::string(400, 'x'));
  EXPECT_NE(cut.find(std::string(49, 'x') + "…<title>" + std::string(400, 'x')), std::string::npos) << cut;
}

TEST(Charts, AWhiskerThatIsCutHasAnArrowHead) {
  const auto head = [](bool is_cut) {
    BarChart chart{.title = "t", .x_label = "x", .rows = {}, .scale_to = {}};
    chart.rows.push_back({.label = "a", .value = 2, .low = 1, .high = 3, .is_cut = is_cut, .text = "2 [1, 9]"});
    return test::count(svg_bar_chart(chart), "<svg class=\"cut\" x=\"100.00%\"");
  };
  EXPECT_EQ(head(true), 1u);
  EXPECT_EQ(head(false), 0u);

  const auto caps = [](double low, double high) {
    LineChart chart{
        .title = "t", .x_label = "x", .y_label = "y", .x_ticks = {1, 2}, .x_tick_texts = {}, .reference = {}};
    chart.y_max = 2;
    LineSeries series{.name = "a", .shape = {}, .points = {}};
    series.points.push_back({.x = 1, .y = 1, .low = low, .high = high, .tooltip = ""});
    chart.series.push_back(series);
    const std::string svg = svg_line_chart(chart);
    return std::pair(test::count(svg, "h6"), test::count(svg, "l4 -6 4 6") + test::count(svg, "l4 6 4 -6"));
  };
  EXPECT_EQ(caps(0.5, 1.5), std::pair(size_t(2), size_t(0)));
  EXPECT_EQ(caps(0.5, 9), std::pair(size_t(1), size_t(1)));
  EXPECT_EQ(caps(-1, 9), std::pair(size_t(0), size_t(2)));
}

TEST(Charts, TicksArePlainNumbers) {
  LineChart chart{.title = "t",
                  .x_label = "x",
                  .y_label = "y",
                  .x_ticks = {0, 2.5, 999, 1000},
                  .x_tick_texts = {},
                  .reference = {}};
  chart.y_max = 20000;
  LineSeries series{.name = "a", .shape = {}, .points = {}};
  series.points.push_back({.x = 1000, .y = 12345, .low = {}, .high = {}, .tooltip = ""});
  chart.series.push_back(series);
  for (const double large : {40000.0, 3e6}) {
    chart.x_ticks.back() = large;
    const std::string svg = svg_line_chart(chart);
    EXPECT_NE(svg.find(">10,000</text>"), std::string::npos) << svg;
    EXPECT_NE(svg.find(large > 1e6 ? ">3M</text>" : ">40,000</text>"), std::string::npos) << svg;
    EXPECT_NE(svg.find("a: 12,345 at 1,000"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("e+"), std::string::npos) << svg;
  }
}

TEST(Charts, NoLineRunsThroughTheNameOfAnother) {
  LineChart chart{.title = "t", .x_label = "x", .y_label = "y", .x_ticks = {1, 2}, .x_tick_texts = {}, .reference = {}};
  for (const char* name : {"k=1", "k=2"}) {
    LineSeries series{.name = name, .shape = {}, .points = {}, .end_text = name};
    for (const double x : {1.0, 2.0}) series.points.push_back({.x = x, .y = 0.5, .low = {}, .high = {}, .tooltip = ""});
    chart.series.push_back(series);
  }
  const std::string svg = svg_line_chart(chart);
  EXPECT_GT(svg.find(">k=1</text>"), svg.rfind("<path class=\"l ")) << svg;
}

TEST(ReportText, TableVerdictAndPaths) {
  RunResult run = test::synthetic_run();
  run.folder = "results/x";
  const std::string text = end_of_run_text(run, summarize(run), TextColor::off);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(count(text, "lossless\n"), 22u);  // finished, certified, not a baseline
  EXPECT_NE(text.find("28 cells: 26 done, 1 failed, 1 skipped"), std::string::npos);
  EXPECT_NE(text.find("results/x/report.html"), std::string::npos);
  EXPECT_NE(end_of_run_text(run, summarize(run), TextColor::on).find("\x1b[32m"), std::string::npos);
  const auto head_at = [&](int columns) {
    const std::string narrow = end_of_run_text(run, summarize(run), TextColor::off, {}, columns);
    return narrow.substr(0, narrow.find('\n'));
  };
  const std::string whole = text.substr(0, text.find('\n'));
  EXPECT_NE(whole.find("speedup [95 %]  decode speedup"), std::string::npos) << whole;
  EXPECT_EQ(head_at(1000), whole);
  EXPECT_EQ(head_at(1).find("req/dev/min"), std::string::npos);
  EXPECT_EQ(head_at(1).find("ttft p50"), std::string::npos);
  EXPECT_NE(head_at(1).find("speedup"), std::string::npos);
  EXPECT_TRUE(head_at(1).ends_with("speedup [95 %]")) << "the verdict stands below each row";
  int widest = 0;
  for (size_t at = 0; at < text.find("\n\n"); at = text.find('\n', at) + 1)
    widest = std::max(widest, display_width(text.substr(at, text.find('\n', at) - at)));
  EXPECT_EQ(head_at(widest), whole);
  EXPECT_EQ(head_at(widest - 1).find("req/dev/min"), std::string::npos);
  EXPECT_NE(head_at(widest - 1).find("degen."), std::string::npos) << "as few as it takes";
}

// A sweep over four placements on one GPU has three times as many rows for what cannot run as for what did.
TEST(ReportText, ManyCellsSkippedForOneReasonAreOneLine) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  const auto skip = [](CellResult& cell, const std::string& reason) {
    cell.status = CellStatus::skipped;
    cell.reason = reason;
    cell.repetitions.clear();
  };
  std::string first, last;
  int fewer = 0;
  for (CellResult& cell : run.cells) {
    if (cell.axes.tp == 2 && cell.axes.pp == 2) {
      skip(cell, "needs 4 devices");
      if (first.empty()) first = cell.id;
      last = cell.id;
    } else if (cell.axes.tp == 2 && cell.axes.num_speculative_tokens && fewer < 3) {
      skip(cell, "k is too large");
      ++fewer;
    }
  }
  const std::string text = end_of_run_text(run, summarize(run), TextColor::off);
  EXPECT_EQ(count(text, "needs 4 devices"), 1u) << text;
  EXPECT_TRUE(holds(text, fmt::format("\n  7 cells ({} … {}) skipped: needs 4 devices\n", first, last))) << text;
  EXPECT_EQ(count(text, " skipped: k is too large\n"), 3u) << "three keep their rows" << text;
  EXPECT_EQ(size_t(std::count(text.begin(), text.begin() + std::ptrdiff_t(text.find("7 cells (")), '\n')), 1u + 21u);

  for (CellResult& cell : run.cells) {
    skip(cell, "not run: interrupted");
    cell.not_run = true;
  }
  const std::string none = end_of_run_text(run, summarize(run), TextColor::on);
  EXPECT_TRUE(none.starts_with(
      fmt::format("  28 cells ({} … {}) not run: interrupted\n", run.cells.front().id, run.cells.back().id)))
      << "no table without a row: " << none;
  EXPECT_EQ(count(summary_markdown(run, summarize(run)), "| not run: interrupted |"), 28u) << "the file has all";
}

TEST(ReportText, BusySharesByRank) {
  EXPECT_EQ(busy_text({}), "–");
  EXPECT_EQ(busy_text({0.994}), "0.99");
  EXPECT_EQ(busy_text({0.66, 0.312}), "0.66/0.31");
  EXPECT_EQ(busy_text({0.5, 0.25, 0.75, 1.0, 0.3}), "0.25–1.00");
  RunResult run = test::synthetic_run({.with_trouble = false});
  run.cells[0].repetitions.resize(1);
  run.cells[0].repetitions[0].wall_s = 2.0;
  run.cells[0].repetitions[0].ranks[0] = {.verify = {.seconds = 1.62}};
  const RunSummary summary = summarize(run);
  EXPECT_NE(end_of_run_text(run, summary, TextColor::off).find(" 0.81 "), std::string::npos);
  EXPECT_NE(summary_markdown(run, summary).find("| 0.81 |"), std::string::npos);
  EXPECT_NE(report_html(run, summary).find("<td>0.81</td>"), std::string::npos);
  EXPECT_EQ(summary_to_json(run, summary)["cells"][0]["device_busy"], nlohmann::json::parse("[0.81]"));
}

TEST(ReportText, TheGpusOfTheCellsAreInEveryHeader) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  EXPECT_EQ(gpus_text(run), "");
  run.environment["gpus"] = {"cuda:0 Example <1> a", "cuda:1 Example b", "cuda:10 Example c", "cuda:3 Example d"};
  for (CellResult& cell : run.cells) cell.effective["devices"] = {"cpu"};
  EXPECT_EQ(gpus_text(run), "");
  run.cells[1].effective["devices"] = {"cuda:3", "cuda:1"};
  run.cells[2].effective["devices"] = {"cuda:1"};
  run.cells[3].effective["devices"] = {"cuda:9"};
  EXPECT_EQ(devices_used(run), (std::vector<std::string>{"cpu", "cuda:3", "cuda:1", "cuda:9"}));
  EXPECT_EQ(gpus_text(run), "cuda:3 Example d, cuda:1 Example b, cuda:9");
  run.environment["cuda_visible_devices"] = "4,5";
  const std::string text = "cuda:3 Example d, cuda:1 Example b, cuda:9 (CUDA_VISIBLE_DEVICES 4,5)";
  const RunSummary summary = summarize(run);
  EXPECT_NE(end_of_run_text(run, summary, TextColor::off).find("  GPUs    " + text + "\n"), std::string::npos);
  EXPECT_NE(summary_markdown(run, summary).find("GPUs: " + text + "\n"), std::string::npos);
  const std::string html = report_html(run, summary);
  EXPECT_NE(html.substr(0, html.find("</header>")).find(text), std::string::npos);
  const nlohmann::json json = summary_to_json(run, summary);
  EXPECT_EQ(json["devices"].size(), 4u);
  EXPECT_EQ(json["cuda_visible_devices"], "4,5");
}

TEST(ReportText, MarkdownTableHasEqualColumns) {
  RunResult run = test::synthetic_run();
  run.cells[19].reason = "a | b";
  const std::string text = summary_markdown(run, summarize(run));
  EXPECT_NE(text.find("a \\| b"), std::string::npos);
  EXPECT_EQ(count(text, "\n| "), 29u);
}

TEST(ReportText, CommandIsQuotedForAShell) {
  EXPECT_EQ(reproduce_command({.argv = {"runexp", "x.json"}, .variables = {{"MODELS", "/my models"}, {"N", "3"}}}),
            "MODELS='/my models' N=3 runexp x.json");
  EXPECT_EQ(reproduce_command({.argv = {"runexp", "a b.json", "--set", "x='1'"}}),
            "runexp 'a b.json' --set 'x='\\''1'\\'''");
}

TEST(Reports, RowsBesideWhatOthersMeasured) {
  RunResult run = test::synthetic_run();
  EXPECT_EQ(end_of_run_text(run, summarize(run), TextColor::off).find("others measured"), std::string::npos);
  const auto find = [&](CellStatus status, int from) {
    int i = from;
    while (run.cells[size_t(i)].status != status) ++i;
    return i;
  };
  const int base = find(CellStatus::done, 0), faster = find(CellStatus::done, base + 1);
  CellResult& failed = run.cells[size_t(find(CellStatus::failed, 0))];
  run.cells[size_t(base)].axes.variant = "base <1>";
  run.cells[size_t(faster)].axes.variant = "faster";
  run.cells[size_t(faster)].published = {.over = "base <1>", .speedup = 1.6, .source = "a <paper>"};
  failed.axes.variant = "failed";
  failed.published = {.over = "base <1>", .speedup = 0.5, .source = {}};

  const RunSummary summary = summarize(run);
  const std::vector<PublishedRow> rows = published_rows(run, summary);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].label, "faster");
  ASSERT_TRUE(rows[0].measured);
  EXPECT_DOUBLE_EQ(*rows[0].measured,
                   *summary.cells[size_t(faster)].output_tok_s / *summary.cells[size_t(base)].output_tok_s);
  EXPECT_NE(rows[0].why.find("tokens per sequence per pass against 1.00; a decode pass takes "), std::string::npos)
      << rows[0].why;
  EXPECT_FALSE(rows[1].measured);
  EXPECT_EQ(rows[1].why, failed.reason);

  const std::string measured = ratio_text(rows[0].measured), text = end_of_run_text(run, summary, TextColor::off);
  EXPECT_NE(text.find("  " + measured + "      1.60×  "), std::string::npos) << text;
  EXPECT_NE(summary_markdown(run, summary).find("| " + measured + " | 1.60× |"), std::string::npos);
  const std::string html = report_html(run, summary);
  EXPECT_EQ(nesting_error(html), "");
  EXPECT_NE(html.find("<td class=\"s\">base &lt;1&gt;</td>"), std::string::npos);
  EXPECT_NE(html.find("<td>" + measured + "</td><td>1.60×</td>"), std::string::npos);
  EXPECT_NE(summary_markdown(run, summary).find("a &lt;paper&gt; (faster)"), std::string::npos);
  RunResult hostile = run;
  hostile.cells[size_t(faster)].published->source = "a\x1b[31m\n";
  EXPECT_EQ(end_of_run_text(hostile, summary, TextColor::off).find('\x1b'), std::string::npos);
  EXPECT_EQ(summary_markdown(hostile, summary).find('\x1b'), std::string::npos);
  const nlohmann::json json = summary_to_json(run, summary);
  const std::string sources = "; published: a <paper> (faster); source not named (failed)";
  EXPECT_NE(text.find("each row over the one that it names" + sources + ":"), std::string::npos) << text;
  EXPECT_NE(html.find("that it names; published: a &lt;paper&gt; (faster); source not named (failed)"),
            std::string::npos);
  EXPECT_EQ(json["published"][0]["source"], "a <paper>");
  CellResult read;
  read_cell_plan(cell_plan_to_json(run.cells[size_t(faster)]), read);
  EXPECT_EQ(read.published->source, "a <paper>");
  EXPECT_EQ(json["published"].size(), 2u);
  EXPECT_EQ(json["published"][0]["published"], 1.6);
  EXPECT_TRUE(json["published"][1]["measured"].is_null());
  EXPECT_EQ(json["cells"][size_t(faster)]["published"]["over"], "base <1>");
}

}  // namespace
}  // namespace paceline
