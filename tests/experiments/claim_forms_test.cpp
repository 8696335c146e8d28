// One run with all that can be claimed, read back from every form in which it is said: terminal, JSON, Markdown and the
// page agree, and none decides for itself.

#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"
#include "tests/experiments/report_page.h"
#include "tests/experiments/verdict_rig.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::cell_of;
using test::holds;
using test::plain;
using test::report_of;
using test::section_of;

CellResult at_concurrency(CellResult cell, int concurrency) {
  cell.axes.concurrency = concurrency;
  cell.load = "closed";
  cell.id += fmt::format("_c{}", concurrency);
  cell.baseline_id = fmt::format("plain_c{}", concurrency);
  return cell;
}

CellResult ngram(int k, const std::vector<double>& rates) { return test::ngram(k, rates); }

/// Sent at one rate; each request takes as long as all of the cell's.
CellResult open_loop(CellResult cell, double gap_ms) {
  cell.load = "poisson 1/s";
  cell.axes.concurrency = 0;
  cell.id += "_open";
  cell.baseline_id = "plain_open";
  for (RepetitionResult& r : cell.repetitions) {
    const RequestRecord one = r.requests.front();
    r.requests.clear();
    for (int i = 0; i < 40; ++i) {
      r.requests.push_back(one);
      r.requests.back().id = fmt::format("q{}", i);
      r.requests.back().arrival_ms = gap_ms * i;
      if (gap_ms >= 20) continue;
      r.requests.back().ttft_ms += 30.0 * i;  // the queue grows
      r.requests.back().e2e_ms += 30.0 * i;
    }
    r.wall_s = 40 * gap_ms * 1e-3;
  }
  return cell;
}

/// At c=1 two k of ngram gain and tie, at c=4 nothing is shown, at c=16 ngram loses; one cell is not lossless; plain
/// decoding on two ranks; two open loops, of which one does not keep up.
RunResult run_of_everything() {
  const std::vector<double> base = {100, 101, 99, 100, 101}, fast = {150, 152, 149, 151, 150},
                            near = {149, 153, 148, 151, 150}, slow = {60, 61, 59, 60, 61},
                            wide = {80, 130, 95, 115, 100};
  std::vector<CellResult> cells = {
      at_concurrency(plain(base), 1),     at_concurrency(ngram(3, fast), 1),
      at_concurrency(ngram(5, near), 1),  at_concurrency(plain(base), 4),
      at_concurrency(ngram(3, wide), 4),  at_concurrency(ngram(5, wide), 4),
      at_concurrency(plain(base), 16),    at_concurrency(ngram(3, slow), 16),
      at_concurrency(ngram(5, slow), 16), at_concurrency(test::placed(plain(fast), 2, 1), 1),
      at_concurrency(ngram(7, fast), 1),  open_loop(plain(base), 1000),
      open_loop(ngram(3, fast), 1000),    open_loop(ngram(5, fast), 10)};
  cells[9].baseline_id = cells[9].id;  // so that its row says something else than the table of ranks
  cells[10].certificate.status = CertificateStatus::fail;
  cells[10].certificate.mismatches = 1;
  cells[10].certificate.detail = "token 3";
  RunResult run = test::run_of(std::move(cells));
  run.info.status = "done";
  return run;
}

std::string in_html(const std::string& text) { return html_escaped(text); }

/// Markdown escapes some characters by a backslash.
std::string without_backslashes(std::string text) {
  std::erase(text, '\\');
  return text;
}

struct Forms {
  RunResult run = run_of_everything();
  RunSummary summary = summarize(run);
  json data = summary_to_json(run, summary);
  std::string terminal = end_of_run_text(run, summary, TextColor::off);
  std::string markdown = without_backslashes(summary_markdown(run, summary));
  std::string page = report_of(run);

  std::vector<json> claims(const std::string& kind) const {
    std::vector<json> out;
    for (const json& claim : data.at("claims"))
      if (claim.at("kind") == kind) out.push_back(claim);
    return out;
  }
  const CellResult& cell(const std::string& id) const {
    return *std::find_if(run.cells.begin(), run.cells.end(), [&](const CellResult& one) { return one.id == id; });
  }
  /// Without its concurrency.
  std::string label(const std::string& id) const {
    CellAxes axes = cell(id).axes;
    axes.concurrency = 0;
    return axes_label(axes);
  }
  void expect_in_all(const std::string& text) const {
    EXPECT_TRUE(holds(terminal, text)) << text << "\n" << terminal;
    EXPECT_TRUE(holds(markdown, text)) << text << "\n" << markdown;
    EXPECT_TRUE(holds(page, in_html(text))) << text;
  }
};

std::string interval_of(const json& claim) {
  return interval_text(
      {.ratio = claim.at("ratio"), .low = claim.at("ratio_ci95")[0], .high = claim.at("ratio_ci95")[1]});
}

TEST(ClaimForms, SentencesAreTheSameInAll) {
  const Forms forms;
  ASSERT_EQ(forms.data.at("headline").size(), 3u);
  for (const json& text : forms.data.at("headline")) forms.expect_in_all(text);
  for (const json& sentence : forms.data.at("verdict")) forms.expect_in_all(sentence.at("text"));
  EXPECT_EQ(forms.data.at("valid"), false);
  EXPECT_EQ(forms.data.at("invalid_reasons"), json::array({"tp1 pp1 ngram k=7 is not lossless"}));
  EXPECT_TRUE(holds(forms.data.at("headline")[0], "INVALID: tp1 pp1 ngram k=7 is not lossless"))
      << forms.data.at("headline");
}

TEST(ClaimForms, RowsSayWhatIsClaimedOverTheBaseline) {
  const Forms forms;
  const std::vector<json> claims = forms.claims("over_baseline");
  ASSERT_GE(claims.size(), 9u);
  std::set<std::string> outcomes;
  for (const json& claim : claims) {
    const std::string id = claim.at("cell"), outcome = claim.at("outcome");
    outcomes.insert(outcome);
    const CellResult& cell = forms.cell(id);
    const CellSummary& s = forms.summary.cells[size_t(&cell - forms.run.cells.data())];
    const json& row = forms.data.at("cells")[s.cell];
    EXPECT_EQ(row.at("outcome"), outcome) << id;
    if (!s.rankable) continue;
    const std::string words = (s.open_loop ? "decodes " : "") + outcome;
    const std::string said = cell_verdict(VerdictView(forms.run, forms.summary), s);
    EXPECT_TRUE(said.starts_with(outcome == "inconclusive" ? "inconclusive" : words)) << id << ": " << said;
    const std::string css = outcome == "faster" ? "why good" : outcome == "slower" ? "why slow" : "why";
    EXPECT_TRUE(holds(section_of(forms.page, "cells"), fmt::format("class=\"{}\">{}", css, in_html(said)))) << id;
    EXPECT_TRUE(holds(forms.markdown, said)) << id;
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{"faster", "inconclusive", "slower"}));
}

TEST(ClaimForms, TheMapIsTintedByWhatIsClaimedOverThePlainTwin) {
  const Forms forms;
  const std::string map = section_of(forms.page, "heat");
  const std::vector<json> claims = forms.claims("over_plain");
  ASSERT_GE(claims.size(), 7u);
  for (const json& claim : claims) {
    const std::string outcome = claim.at("outcome");
    const std::string end = fmt::format(": {} over", interval_of(claim));
    const std::regex cell(
        fmt::format("<td class=\"([a-z]+)[0-9]?\" title=\"{}[^\"]*{} [^\"]*, {}",
                    std::regex_replace(axes_label(forms.cell(claim.at("cell")).axes), std::regex("[.+]"), "\\$&"),
                    std::regex_replace(end, std::regex(R"([.\[\]])"), "\\$&"), outcome));
    std::smatch found;
    ASSERT_TRUE(std::regex_search(map, found, cell)) << claim.dump();
    EXPECT_EQ(found[1].str(), outcome == "faster" ? "f" : outcome == "slower" ? "s" : "open") << claim.dump();
  }
}

TEST(ClaimForms, TheTableOfRanksHasTheRatioOverOne) {
  const Forms forms;
  const std::vector<json> claims = forms.claims("over_one_rank");
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_TRUE(holds(section_of(forms.page, "ranks"), "<td>" + interval_of(claims[0]) + "</td>"));
  forms.expect_in_all("tp2 pp1 " + interval_of(claims[0]));
}

TEST(ClaimForms, TheBestCellTiesAndCrossoversAreThoseOfTheClaims) {
  const Forms forms;
  const std::vector<json> best = forms.claims("best_throughput");
  ASSERT_EQ(best.size(), 3u) << "one for each closed load";
  EXPECT_EQ(best[0].at("cell"), "ngram3_c1");
  EXPECT_EQ(best[0].at("not_worse"), json::array({"plain_tp2_pp1_c1", "ngram5_c1"}));
  forms.expect_in_all(fmt::format("Fastest at concurrency 1: {}, {:.1f} tok/s", forms.label(best[0].at("cell")),
                                  best[0].at("value").get<double>()));
  forms.expect_in_all(fmt::format("Not significantly different in tok/s from {} at concurrency 1: {} and {}.",
                                  forms.label("ngram3_c1"), forms.label("plain_tp2_pp1_c1"), forms.label("ngram5_c1")));
  const std::vector<json> crossovers = forms.claims("crossover");
  ASSERT_EQ(crossovers.size(), 1u);
  std::vector<std::string> shown;
  for (const json& point : crossovers[0].at("points")) shown.push_back(point.at("shown"));
  EXPECT_EQ(shown, (std::vector<std::string>{"faster", "inconclusive", "slower"}));
  forms.expect_in_all("tp1 pp1 ngram pays at c=1 (k=3: 1.50×), loses at c=16 (k=3: 0.60×); not decided at c=4 (");
  EXPECT_TRUE(holds(section_of(forms.page, "heat"), "pays at c=1 (k=3: 1.50×), loses at c=16 (k=3: 0.60×)"));
}

TEST(ClaimForms, OpenLoopsAreClaimedByLatency) {
  const Forms forms;
  const std::vector<json> latency = forms.claims("best_latency");
  const auto open =
      std::find_if(latency.begin(), latency.end(), [](const json& c) { return c.at("load") != "closed"; });
  ASSERT_NE(open, latency.end());
  EXPECT_EQ(open->at("cell"), "ngram3_open");
  forms.expect_in_all("Lowest latency, poisson 1/s: " + forms.label("ngram3_open"));
  const std::vector<json> saturated = forms.claims("saturated");
  ASSERT_EQ(saturated.size(), 1u);
  EXPECT_EQ(saturated[0].at("cell"), "ngram5_open");
  forms.expect_in_all("Saturated, poisson 1/s: " + forms.label("ngram5_open"));
}

TEST(ClaimForms, ThePageListsTheFrontierOfTheClaims) {
  const Forms forms;
  const std::string section = section_of(forms.page, "pareto");
  size_t items = 0;
  for (const json& claim : forms.claims("pareto")) {
    size_t at = 0;
    for (const json& id : claim.at("cells")) {
      at = section.find("<li>" + in_html(axes_label(forms.cell(id).axes)) + ":", at);
      ASSERT_NE(at, std::string::npos) << id << "\n" << section;
      ++items;
    }
  }
  EXPECT_EQ(test::count(section, "<li>"), items) << "and no others";
  EXPECT_EQ(forms.claims("pareto").size(), 2u);
}

}  // namespace
}  // namespace paceline
