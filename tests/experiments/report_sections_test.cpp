// What each section of report.html holds.

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>

#include <gtest/gtest.h>

#include "experiments/analysis/claims/view.h"
#include "experiments/report/documents.h"
#include "tests/experiments/recorded_run.h"
#include "tests/experiments/report_page.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using test::count;
using test::holds;
using test::nesting_error;
using test::report_of;
using test::section_of;

TEST(ReportSections, AllAreThereAndInTheContents) {
  RunResult run = test::synthetic_run({.concurrencies = {1, 8}});
  for (CellResult& cell : run.cells) {
    for (RepetitionResult& r : cell.repetitions)
      for (int i = 0; i < 5; ++i) r.timeline.push_back({10.0 * i, 1, i, 7 * i, 2.0 * i});
  }
  const std::string html = report_of(run);
  EXPECT_EQ(nesting_error(html), "");
  for (const char* id : {"trouble", "headline", "speedup", "heat", "acceptance", "drafts", "steps", "ranks", "devices",
                         "timeline", "memory", "latency", "pareto", "cells", "samples", "setup"}) {
    EXPECT_NE(section_of(html, id), "") << id;
    EXPECT_TRUE(holds(html, "<a href=\"#" + std::string(id) + "\">")) << id;
  }
}

TEST(ReportSections, HeadlineHasABarForEachProposerWithinEachPlacement) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  const std::string section = section_of(report_of(run), "headline");
  EXPECT_EQ(count(section, "<rect class=\"b "), 4u * 3u);
  EXPECT_EQ(count(section, "<g class=\"w\""), 4u * 3u);  // whiskers
  for (const char* place : {">TP 1 × PP 1<", ">TP 1 × PP 2<", ">TP 2 × PP 1<", ">TP 2 × PP 2<"})
    EXPECT_EQ(count(section, place), 1u) << place;
  const RunSummary summary = summarize(run);
  const auto& first = summary.cells.front();
  ASSERT_TRUE(first.output_tok_s_interval);
  EXPECT_TRUE(holds(section, fmt::format("{:.1f} [{:.0f}, {:.0f}]", *first.output_tok_s,
                                         first.output_tok_s_interval->low, first.output_tok_s_interval->high)));
  for (CellResult& cell : run.cells) cell.repetitions.resize(1);
  EXPECT_EQ(count(section_of(report_of(run), "headline"), "<g class=\"w\""), 0u);
}

TEST(ReportSections, SpeedupFollowsXAndFacetOfTheConfiguration) {
  RunResult run = test::synthetic_run({.concurrencies = {1, 8}, .with_trouble = false});
  // Default: over k, a chart for each placement, a line for each proposer and concurrency.
  std::string section = section_of(report_of(run), "speedup");
  EXPECT_TRUE(holds(section, "Speedup by draft length k</h2>"));
  EXPECT_EQ(count(section, "<svg class=\"chart\""), 4u);
  EXPECT_TRUE(holds(section, ">TP 2 × PP 1<"));
  EXPECT_TRUE(holds(section, "ngram c=8<"));
  EXPECT_EQ(count(section, "<circle class=\"m k0\""), 2u * (4u * 3u + 1u));  // ngram at c=1 and 8, and in the legend

  run.config_resolved["report"] = {{"x", "concurrency"}, {"facet", {"engine.parallel.tp", "pp", "k"}}};
  section = section_of(report_of(run), "speedup");
  EXPECT_TRUE(holds(section, "Speedup by concurrency"));
  EXPECT_EQ(count(section, "<svg class=\"chart\""), 4u * 3u);
  EXPECT_TRUE(holds(section, "TP 1 × PP 2 × k=3"));
  EXPECT_FALSE(holds(section, "c=8<"));

  // Four placements would be too many lines for one chart: they split it.
  run.config_resolved["report"]["facet"] = {"k"};
  section = section_of(report_of(run), "speedup");
  EXPECT_EQ(count(section, "<svg class=\"chart\""), 4u * 3u);
  EXPECT_TRUE(holds(section, "k=3, TP 1 PP 2"));
}

TEST(ReportSections, SpeedupOverAKeyThatIsNoAxisOfTheTables) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  std::erase_if(run.cells, [](const CellResult& c) {
    return c.axes.tp != 1 || c.axes.pp != 1 || c.axes.num_speculative_tokens.value_or(3) != 3;
  });
  for (int i = 0; i < 2; ++i) {
    run.cells.push_back(run.cells[1]);
    run.cells.back().axes.variant = "max=" + std::to_string(5 + i);
    run.cells.back().requested = {{"speculation", {{"ngram", {{"max", 5 + i}}}}}};
  }
  run.config_resolved["report"] = {{"x", "speculation.ngram.max"}};
  const std::string section = section_of(report_of(run), "speedup");
  EXPECT_TRUE(holds(section, "Speedup by max"));
  EXPECT_EQ(count(section, "<svg class=\"chart\""), 1u);
  EXPECT_FALSE(holds(section, "ngram max=5"));  // told by x
  for (const char* tick : {">5</text>", ">6</text>"}) EXPECT_TRUE(holds(section, tick)) << tick;
}

TEST(ReportSections, TheHeatMapTellsItsNumbersAndWhereGainsEnd) {
  RunResult run = test::synthetic_run({.concurrencies = {1, 8}, .with_trouble = false});
  for (CellResult& cell : run.cells) {  // batching takes draft's gain at one placement
    if (cell.axes.tp != 1 || cell.axes.pp != 1 || cell.axes.concurrency != 8 || cell.axes.proposer != "draft") continue;
    for (RepetitionResult& r : cell.repetitions) r.wall_s *= 10;
  }
  const std::string section = section_of(report_of(run), "heat");
  EXPECT_EQ(count(section, "<th scope=\"row\">"), 6u);
  EXPECT_EQ(count(section, "<th scope=\"col\">"), 8u);
  EXPECT_EQ(count(section, "×</td>") + count(section, "× ?</td>") + count(section, "× °</td>"), 48u);
  EXPECT_TRUE(std::regex_search(section, std::regex("<td class=\"s4\"[^>]*>0\\.[0-9]+×")));
  EXPECT_TRUE(std::regex_search(section, std::regex("<td class=\"f[1-4]\"[^>]*>[1-9]\\.[0-9]+×")));
  EXPECT_TRUE(std::regex_search(section, std::regex("tp1 pp1 draft pays at c=1 \\(k=[0-9]: [0-9.]+×\\), loses at "
                                                    "c=8 \\(k=[0-9]: 0\\.[0-9]+×\\)\\.")))
      << section;
}

TEST(ReportSections, TheHeatMapColoursOnlyWhatIsShown) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  const auto with_rates = [&](const std::string& proposer, int tp, const std::vector<double>& rates) {
    for (CellResult& cell : run.cells) {
      if (cell.axes.proposer != proposer || cell.axes.tp != tp || cell.axes.pp != 1) continue;
      for (size_t r = 0; r < cell.repetitions.size(); ++r)
        cell.repetitions[r].wall_s =
            static_cast<double>(output_tokens_of(cell.repetitions[r])) / rates[r % rates.size()];
    }
  };
  // Three times as fast on the whole, but too scattered to say so; and for sure twice as slow.
  with_rates("none", 1, {100});
  with_rates("ngram", 1, {50, 300, 1800});
  with_rates("draft", 1, {50});
  const std::string section = section_of(report_of(run), "heat");
  EXPECT_TRUE(std::regex_search(section,
                                std::regex("<td class=\"open\" title=\"tp1 pp1 ngram[^>]*inconclusive\">[0-9.]+× \\?")))
      << section;
  EXPECT_TRUE(std::regex_search(section, std::regex("<td class=\"s4\" title=\"tp1 pp1 draft[^>]*slower\">0.50×<")));
  EXPECT_FALSE(std::regex_search(section, std::regex("class=\"[fs][1-4]\"[^>]*>[0-9.]+× \\?")));
}

// A cell that the map shows as faster has no interval that reads as if it began at 1.
TEST(ReportSections, TheTableAndTheMapAgreeOnWhatAnIntervalHolds) {
  const RunResult run = test::synthetic_run({.with_trouble = false});
  RunSummary summary = summarize(run);
  CellSummary& s = summary.cells[1];
  s.speedup = s.decode_speedup = RatioInterval{.ratio = 1.18, .low = 1.0049, .high = 1.38};
  const std::string html = report_html(run, summary);
  EXPECT_TRUE(holds(section_of(html, "heat"), "1.18× [1.005, 1.38] over tp1 pp1 none, faster")) << html;
  EXPECT_TRUE(holds(section_of(html, "cells"), "<td>1.18× <span class=\"ci\">[1.005, 1.38]</span></td>"));
  EXPECT_TRUE(holds(section_of(html, "cells"), "<td title=\"1.18× [1.005, 1.38]\">1.18×</td>"));
}

TEST(ReportSections, TheHeatMapIsOverPlainDecodingOfTheSamePlacement) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  const std::string own = section_of(report_of(run), "heat");
  EXPECT_TRUE(
      holds(own, "<caption>End-to-end speedup (prefill included) over no speculation in the same column.</caption>"));
  // As with sweep.baseline: one cell for all placements.
  const std::string one_rank = run.cells[0].id;
  ASSERT_EQ(run.cells[0].axes.proposer, "none");
  for (CellResult& cell : run.cells) cell.baseline_id = one_rank;
  const auto uncorrected = [](std::string map) {  // the other baseline adds comparisons
    for (size_t at; (at = map.find(" (uncorrected)\"")) != std::string::npos;) map.erase(at, map.find('"', at) - at);
    for (size_t at; (at = map.find(" °")) != std::string::npos;) map.erase(at, std::string_view(" °").size());
    return map;
  };
  EXPECT_EQ(uncorrected(section_of(report_of(run), "heat")), uncorrected(own));
  // Without the plain cell of a placement the baseline is all there is, and is named.
  for (CellResult& cell : run.cells) {
    if (cell.axes.proposer != "none" || cell.axes.tp != 2 || cell.axes.pp != 1) continue;
    cell.status = CellStatus::failed;
    cell.repetitions.clear();
  }
  const std::string named = section_of(report_of(run), "heat");
  EXPECT_TRUE(holds(named, "the same column; †: not measured, so over tp1 pp1 none.</caption>")) << named;
  EXPECT_EQ(count(named, " †</td>"), 6u);
}

TEST(ReportSections, HistogramSharesAreThoseOfAllVerifySteps) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  run.cells.resize(2);
  CellResult& cell = run.cells[1];  // ngram, k = 1
  ASSERT_EQ(cell.axes.num_speculative_tokens, 1);
  cell.repetitions.resize(1);
  for (RequestRecord& q : cell.repetitions[0].requests) {
    q.drafted = {0, 1, 1, 1};
    q.accepted = {0, 0, 1, 1};
  }
  const std::string section = section_of(report_of(run), "acceptance");
  EXPECT_TRUE(holds(section, "<th scope=\"col\">no drafts</th><th scope=\"col\">0</th><th scope=\"col\">1</th></tr>"));
  EXPECT_TRUE(holds(section,
                    "<td title=\"12 of 48 verify steps\">25 %</td><td title=\"12 of 48 verify steps\">25 %</td>"
                    "<td title=\"24 of 48 verify steps\">50 %</td></tr>"))
      << section;
}

TEST(ReportSections, TheLeagueHasAColumnForEachTextAndMarksItsWinner) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  EXPECT_EQ(section_of(report_of(run), "league"), "");  // one kind of text
  for (CellResult& cell : run.cells)
    for (RepetitionResult& r : cell.repetitions)
      for (size_t i = 0; i < r.requests.size(); ++i) {
        RequestRecord& request = r.requests[i];
        request.category = i % 2 ? "co<de" : "prose";
        // Of code, n-grams are the slowest.
        if (i % 2 && cell.axes.proposer == "ngram")
          request.e2e_ms = request.ttft_ms + 40 * (request.e2e_ms - request.ttft_ms);
      }
  const std::string section = section_of(report_of(run), "league");
  EXPECT_EQ(nesting_error(report_of(run)), "");
  EXPECT_TRUE(holds(section, "<th scope=\"col\">co&lt;de</th><th scope=\"col\">prose</th>")) << section;
  EXPECT_EQ(count(section, "<tr><th scope=\"row\">"), 6u);  // ngram and draft at three k, of the first placement
  EXPECT_EQ(count(section, "<b>★ "), 2u);
  // The star of code stands in a row of draft: its column is the first.
  for (size_t at = section.find("<tr><th scope=\"row\">ngram"); at != std::string::npos;
       at = section.find("<tr><th scope=\"row\">ngram", at + 1)) {
    const std::string of_ngram = section.substr(at, section.find("</tr>", at) - at);
    EXPECT_FALSE(holds(of_ngram.substr(0, of_ngram.find("</td>")), "★")) << of_ngram;
  }
  // What is not ranked wins nothing.
  for (CellResult& cell : run.cells) cell.forced = cell.axes.proposer == "draft";
  const std::string forced = section_of(report_of(run), "league");
  EXPECT_EQ(count(forced, "<b>★ "), 2u);
  EXPECT_EQ(count(forced, " *</td>"), 6u);
}

TEST(ReportSections, DraftsAreCountedByCellAndStage) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  CellResult& cell = run.cells[2];  // ngram, k = 3
  ASSERT_EQ(cell.axes.num_speculative_tokens, 3);
  for (RepetitionResult& r : cell.repetitions) {
    RunCounters& c = r.counters;
    c.verify_steps = 100;
    c.drafts = 50;
    c.drafted = 150;
    c.accepted = 60;
    c.proposed_by_position = {50, 50, 25};
    c.stages = {{"first", 40, 120, 60}, {"second", 10, 30, 0}};
  }
  const RunSummary summary = summarize(run);
  EXPECT_DOUBLE_EQ(*summary.cells[2].rows_per_step, 2.5);
  EXPECT_DOUBLE_EQ(*summary.cells[2].mean_draft_depth, 2.5);
  EXPECT_DOUBLE_EQ(*summary.cells[2].drafted_per_kept, 2.5);
  EXPECT_FALSE(summary.cells[0].rows_per_step);  // plain
  const int64_t repetitions = int64_t(cell.repetitions.size());
  ASSERT_EQ(summary.cells[2].counters.stages.size(), 2u);
  EXPECT_EQ(summary.cells[2].counters.stages[0].drafted, 120 * repetitions);
  const std::string section = section_of(report_of(run), "drafts");
  EXPECT_EQ(nesting_error(report_of(run)), "");
  const std::string stage = section.substr(section.find("↳ first"));
  EXPECT_TRUE(holds(stage.substr(0, stage.find("</tr>")), "<td>0.40</td><td>2.50</td>")) << stage.substr(0, 400);
  const std::string second = section.substr(section.find("↳ second"));
  EXPECT_TRUE(holds(second.substr(0, second.find("</tr>")), "<td>0.10</td><td>1.00</td>")) << second.substr(0, 400);
  EXPECT_TRUE(holds(section, "a stage of the row above"));
  for (RepetitionResult& r : cell.repetitions) r.counters.stages.clear();
  EXPECT_FALSE(holds(section_of(report_of(run), "drafts"), "↳"));
}

TEST(ReportSections, ScalingIsAgainstTheSameProposerOnOneRank) {
  const RunResult run = test::synthetic_run({.with_trouble = false});
  const RunSummary summary = summarize(run);
  const auto rate = [&](const char* id) {
    for (const CellSummary& s : summary.cells)
      if (run.cells[s.cell].id == id) return *s.output_tok_s;
    return 0.0;
  };
  const double gain = rate("tp2_pp1_none_c1") / rate("tp1_pp1_none_c1");
  const VerdictView view(run, summary);
  std::string number;  // with its interval
  for (const Claim& claim : view.claims())
    if (run.cells[claim.cell->cell].id == "tp2_pp1_none_c1") number = interval_text(claim.ratio);
  EXPECT_TRUE(number.starts_with(fmt::format("{:.2f}× [", gain))) << number;
  const std::string section = section_of(report_of(run), "ranks");
  EXPECT_TRUE(holds(section, fmt::format("<td>{}</td><td>{:.0f} %</td>", number, 50 * gain))) << section;
  EXPECT_TRUE(holds(section, "rank 3, stage 1"));
}

TEST(ReportSections, LatencyCurvesOfEachPlacement) {
  const std::string section = section_of(report_of(test::synthetic_run({.with_trouble = false})), "latency");
  EXPECT_EQ(count(section, "<svg class=\"chart\""), 4u * 4u);
  for (const char* name : {"TTFT", "TPOT", "ITL", "E2E"})
    EXPECT_EQ(count(section, fmt::format(">{}</text>", name)), 4u) << name;
  EXPECT_EQ(count(section, ">share of requests</text>"), 12u);
  EXPECT_EQ(count(section, ">share of gaps</text>"), 4u);
  for (const char* head : {">TTFT p90</th>", ">TPOT p90</th>", ">ITL p99</th>"})
    EXPECT_EQ(count(section, head), 1u) << "columns are told apart by their heads";
  EXPECT_TRUE(holds(section, ": 50 % within "));
  EXPECT_TRUE(holds(section, ": 90 % within "));
}

TEST(ReportSections, TheParetoFrontierHoldsWhatNoRankedCellBeats) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  run.cells.resize(4);
  RunSummary summary = summarize(run);
  const auto set = [&](size_t i, double user, double device) {
    summary.cells[i].tok_s_per_user = user;
    summary.cells[i].tok_s_per_device = device;
  };
  set(0, 100, 50);
  set(1, 200, 40);
  set(2, 150, 30);  // beaten by 1
  set(3, 300, 90);  // would beat all, but is not ranked
  summary.cells[3].rankable = false;
  const std::string section = section_of(report_html(run, summary), "pareto");
  EXPECT_TRUE(holds(section,
                    "<ol><li>tp1 pp1 none: 100 tok/s per user, 50 tok/s per device</li><li>tp1 pp1 ngram k=1: "
                    "200 tok/s per user, 40 tok/s per device</li></ol>"))
      << section;
}

TEST(ReportSections, SamplesShowTextsAndMarkWhatDiffers) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  const std::string same = section_of(report_of(run), "samples");
  EXPECT_TRUE(holds(same, "✓ the same in all"));
  EXPECT_TRUE(holds(same, "100 107"));  // without texts, ids
  EXPECT_FALSE(holds(same, "✗"));
  EXPECT_EQ(count(same, "<details"), 3u);  // of the first reference; the others have been compared with it
  EXPECT_TRUE(holds(same, "Against tp2 pp1 none: <span class=\"good\">✓ the same in all 18 repetitions of 6 cells"));

  const std::vector<int32_t>& output = run.cells[0].repetitions[0].requests[7].output;
  SampleTexts texts{.model = run.cells[0].model, .prompts = {{7, "q7", "Why <b>?"}}, .tokens = {}};
  std::map<int32_t, std::string> bytes;
  for (int32_t token : output) bytes[token] = fmt::format(" w{}", token);
  bytes[output[0]] = "\xC3";  // half of a character
  bytes[9999] = " <i>other</i>";
  for (const auto& [id, text] : bytes) texts.tokens.push_back({id, text});
  run.sample_texts = {texts};
  run.cells[2].repetitions[1].requests[7].output[30] = 9999;
  const std::string html = report_of(run), section = section_of(html, "samples");
  EXPECT_EQ(nesting_error(html), "");
  EXPECT_TRUE(holds(section, "✗ 1 of 30 repetitions differ")) << section;
  EXPECT_TRUE(holds(section, "tp1 pp1 ngram k=3, repetition 1: differs from token 30 on"));
  EXPECT_TRUE(holds(section, fmt::format("<del class=\"part\"> w{}", output[30])));
  EXPECT_TRUE(holds(section, "<ins class=\"part\"> &lt;i&gt;other&lt;/i&gt; w"));
  EXPECT_TRUE(holds(section, "Why &lt;b&gt;?"));
  EXPECT_TRUE(holds(section, "<pre>\xEF\xBF\xBD w"));
  EXPECT_LT(section.find("q7"), section.find("q0"));  // what differs comes first
}

// Nobody compares the text of one temperature with that of another: each is shown.
TEST(ReportSections, SamplesShowEachTextThatWasAskedFor) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  for (CellResult& cell : run.cells)
    cell.requested["sampling"]["temperature"] = cell.axes.tp == 1 && cell.axes.pp == 1 ? 0.0 : 0.8;
  const std::string section = section_of(report_of(run), "samples");
  EXPECT_EQ(count(section, "<details"), 6u) << section;
  EXPECT_TRUE(holds(section, "<h3>Against tp1 pp2 none")) << section;
}

/// What the link with this name holds.
std::string downloaded(const std::string& html, const std::string& name, const std::string& type) {
  const std::string head = "download=\"" + name + "\" href='data:" + type + ",";
  const size_t begin = html.find(head);
  if (begin == std::string::npos) return "no " + head;
  const std::string data = html.substr(begin + head.size(), html.find('\'', begin + head.size()) - begin - head.size());
  EXPECT_EQ(data.find_first_of("<>&#\n\t"), std::string::npos) << name;
  std::string decoded;
  for (size_t i = 0; i < data.size(); ++i) {
    decoded += data[i] == '%' ? static_cast<char>(std::stoi(data.substr(i + 1, 2), nullptr, 16)) : data[i];
    i += data[i] == '%' ? 2 : 0;
  }
  return decoded;
}

TEST(ReportSections, DataCanBeDownloadedFromThePage) {
  RunResult run = test::synthetic_run();
  run.info.name = "é <b> 100 % #1 'a'";
  const std::string html = report_of(run);
  const RunSummary summary = summarize(run);
  EXPECT_EQ(downloaded(html, "summary.csv", "text/csv;charset=utf-8"), summary_to_csv(run, summary));
  EXPECT_TRUE(holds(html, "download=\"summary.json.gz\" href='data:application/gzip;base64,H4sI"));
  EXPECT_EQ(nlohmann::json::parse(downloaded(html, "config.resolved.json", "application/json")), run.config_resolved);
}

TEST(ReportSections, TheFilesOfTheRunAreLinked) {
  const test::TempDir dir;
  RunResult run = test::synthetic_run();
  EXPECT_FALSE(holds(report_html(run, summarize(run)), "href=\"summary.json\"")) << "the page may stand alone";
  RunFolder folder(dir.path(), run, nlohmann::json::object());
  test::record_all(folder, run);
  folder.finish(run, run_documents(run));
  const std::string html = report_html(run, summarize(run), ".");
  EXPECT_EQ(nesting_error(html), "");
  const auto links = [](const std::string& page) {
    const std::regex pattern("<a href=\"([^\"#]*)\"");
    std::vector<std::string> found;
    for (std::sregex_iterator at(page.begin(), page.end(), pattern), end; at != end; ++at) found.push_back((*at)[1]);
    return found;
  };
  const std::vector<std::string> own = links(html);
  for (const std::string& link : own) EXPECT_TRUE(std::filesystem::exists(folder.path() / link)) << link;
  const auto has = [&](const std::string& link) { return std::find(own.begin(), own.end(), link) != own.end(); };
  EXPECT_TRUE(has("summary.json") && has("summary.csv") && has("environment.json"));
  for (const CellResult& cell : run.cells) {
    EXPECT_TRUE(has("cells/" + cell.folder + "/cell.json")) << cell.id;
    EXPECT_EQ(has("cells/" + cell.folder + "/requests.jsonl"), cell.status == CellStatus::done) << cell.id;
  }
  // From a page elsewhere they lead to the same files.
  for (const std::string& link : links(report_html(run, summarize(run), "../a b/c:#")))
    EXPECT_TRUE(link.starts_with("../a%20b/c%3A%23/")) << link;
}

TEST(ReportSections, HostileNamesStayTextInEverySection) {
  RunResult run = test::synthetic_run({.concurrencies = {1, 8}, .with_trouble = false});
  const std::string hostile = "<script>alert(1)</script>\"'";
  for (CellResult& cell : run.cells) {
    cell.axes.variant = hostile;
    cell.effective[hostile] = cell.id + hostile;
    if (cell.axes.proposer == "ngram") cell.axes.proposer = hostile;
    for (RepetitionResult& r : cell.repetitions) {
      for (RequestRecord& q : r.requests) q.id += hostile;
      r.timeline = {{0, 1, 1, 0, 0}, {5, 1, 2, 3, 1}};
    }
  }
  run.config_resolved["report"] = {{"x", "k"}, {"facet", {"tp", hostile}}};
  const std::string html = report_of(run);
  EXPECT_EQ(nesting_error(html), "");
  EXPECT_EQ(count(html, "<script"), 1u);
  EXPECT_FALSE(holds(html, "\"'"));
}

// ---------------------------------------------------------------------------------------------------------------------

double luminance(const std::string& hex) {
  const auto channel = [&](size_t i) {
    const std::string digits = hex.size() == 3 ? std::string(2, hex[i]) : hex.substr(2 * i, 2);
    const double c = std::stoi(digits, nullptr, 16) / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2);
}

/// WCAG 2.2's contrast ratio.
double contrast(const std::string& a, const std::string& b) {
  const auto [low, high] = std::minmax({luminance(a), luminance(b)});
  return (high + 0.05) / (low + 0.05);
}

/// The page's colours: of the light, the dark and the printed page, by name.
std::vector<std::map<std::string, std::string>> page_colors() {
  const std::string html = report_of(test::synthetic_run());
  const std::string style = html.substr(html.find("<style>"), html.find("</style>") - html.find("<style>"));
  const std::regex block(":root\\{([^}]*)\\}"), variable("--([a-z0-9]+):#([0-9a-f]+)");
  std::vector<std::map<std::string, std::string>> modes;
  for (std::sregex_iterator at(style.begin(), style.end(), block), end; at != end; ++at) {
    const std::string body = (*at)[1];
    modes.emplace_back();
    for (std::sregex_iterator v(body.begin(), body.end(), variable); v != end; ++v) modes.back()[(*v)[1]] = (*v)[2];
  }
  return modes;
}

TEST(ReportStyle, ColoursHaveContrastInLightDarkAndPrint) {
  EXPECT_NEAR(contrast("fff", "000000"), 21, 1e-9);
  int modes = 0;
  for (const auto& colors : page_colors()) {
    for (const char* text : {"fg", "mute", "accent", "good", "bad", "warn"})
      for (const char* ground : {"bg", "panel"})
        EXPECT_GE(contrast(colors.at(text), colors.at(ground)), 4.5) << text << " on " << ground << ", mode " << modes;
    for (const char* ground : {"f1", "f2", "f3", "f4", "s1", "s2", "s3", "s4"})
      EXPECT_GE(contrast(colors.at("fg"), colors.at(ground)), 4.5) << "fg on " << ground << ", mode " << modes;
    for (int i = 0; i < 9; ++i)
      EXPECT_GE(contrast(colors.at("p" + std::to_string(i)), colors.at("bg")), 3) << "p" << i << ", mode " << modes;
    for (int i = 0; i < 8; ++i)
      EXPECT_GE(contrast(colors.at("c" + std::to_string(i)), colors.at("bg")), 3) << "c" << i << ", mode " << modes;
    ++modes;
  }
  EXPECT_EQ(modes, 3);
}

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

Vector times(const Matrix& matrix, const Vector& v) {
  Vector out{};
  for (size_t row = 0; row < 3; ++row)
    for (size_t i = 0; i < 3; ++i) out[row] += matrix[row][i] * v[i];
  return out;
}

/// Linear RGB of six hexadecimal digits.
Vector linear_rgb(const std::string& hex) {
  Vector out{};
  for (size_t i = 0; i < 3; ++i) {
    const double c = std::stoi(hex.substr(2 * i, 2), nullptr, 16) / 255.0;
    out[i] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return out;
}

/// Oklab (Ottosson 2020), 0 to 100, of a colour as it is seen by eyes that `sight` simulates.
Vector oklab(const std::string& hex, const Matrix& sight) {
  const Matrix to_cones = {{{0.4122214708, 0.5363325363, 0.0514459929},
                            {0.2119034982, 0.6806995451, 0.1073969566},
                            {0.0883024619, 0.2817188376, 0.6299787005}}};
  const Matrix to_lab = {{{21.04542553, 79.36177850, -0.40720468},
                          {197.79984951, -242.85922050, 45.05937099},
                          {2.59040371, 78.27717662, -80.86757660}}};
  Vector seen = times(sight, linear_rgb(hex));
  for (double& c : seen) c = std::max(0.0, c);
  Vector cones = times(to_cones, seen);
  for (double& c : cones) c = std::cbrt(c);
  return times(to_lab, cones);
}

// All parts of a bar or lane may lie side by side. Slate and slate grey were 6 apart, orange and brown less than 1 for
// those who see no red.
TEST(ReportStyle, PartsDifferForEveryEye) {
  // Machado, Oliveira and Fernandes 2009, severity 1.
  const std::vector<std::pair<const char*, Matrix>> sights = {
      {"all cones", {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
      {"no long cones",
       {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}}},
      {"no medium cones",
       {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}}},
      {"no short cones",
       {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}}}};
  constexpr double kApart = 9, kApartForMost = 12;
  for (const auto& colors : page_colors()) {
    for (const auto& [name, sight] : sights) {
      for (int a = 0; a < 9; ++a) {
        for (int b = 0; b < a; ++b) {
          const Vector one = oklab(colors.at(fmt::format("p{}", a)), sight),
                       other = oklab(colors.at(fmt::format("p{}", b)), sight);
          const double apart = std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
          EXPECT_GE(apart, &sight == &sights[0].second ? kApartForMost : kApart)
              << "p" << b << " and p" << a << " on " << colors.at("bg") << ", " << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline
