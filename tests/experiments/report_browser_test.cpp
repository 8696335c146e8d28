// report.html in a headless Chromium: what is drawn, what the script does, what leaves the page. Skipped where there is
// none.

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/report/comparison/comparison.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/store.h"
#include "tests/experiments/report_page.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/browser.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/run_process.h"

namespace paceline {
namespace {

using test::chromium;

// Before the page: collects what goes wrong. After it: what a user would see and do, told as JSON in <pre id=probe>.
const char* const kWatch = R"js(
window.problems = []; window.refused = 0;
addEventListener("error", e => problems.push(String(e.message)));
addEventListener("securitypolicyviolation", () => ++refused);
for (const kind of ["error", "warn"]) console[kind] = (...words) => problems.push(words.join(" "));
)js";

const char* const kProbe = R"js(
addEventListener("load", async () => {
  const out = {problems: [...problems], refused_before: refused};
  const page = document.documentElement;
  out.ready_ms = performance.now();
  out.charts = 0; out.empty = []; out.outside = []; out.scrolled = 0; out.widest = 0;
  for (const svg of document.querySelectorAll("svg.chart")) {
    if (svg.closest("details:not([open])")) continue;
    ++out.charts;
    if (svg.getBoundingClientRect().width < 50 || !svg.querySelector(".l,.b,.m")) out.empty.push(svg.getAttribute("aria-label"));
    // A chart of rows has its texts in its margins, within the box that scrolls; others have them inside.
    const rows = svg.classList.contains("rows"), outer = (rows ? svg.parentElement : svg).getBoundingClientRect();
    const right = outer.left + (rows ? svg.parentElement.scrollWidth : outer.width);
    for (const text of svg.querySelectorAll("text")) {
      const b = text.getBoundingClientRect();
      if (b.width > 0 && (b.left < outer.left - 1 || b.right > right + 1 || b.bottom > outer.bottom + 1))
        out.outside.push(text.textContent);
    }
    if (rows && svg.parentElement.scrollWidth > svg.parentElement.clientWidth) ++out.scrolled;
    out.widest = Math.max(out.widest, svg.parentElement.getBoundingClientRect().width);
  }
  out.overflow = page.scrollWidth - innerWidth;
  out.background = getComputedStyle(document.body).backgroundColor;
  out.first_bar = getComputedStyle(document.querySelector("svg .b")).fill;
  const closed = document.querySelectorAll("details:not([open])").length;
  dispatchEvent(new Event("beforeprint"));
  out.closed_on_paper = document.querySelectorAll("details:not([open])").length;
  dispatchEvent(new Event("afterprint"));
  out.closes_again = closed > 0 && document.querySelectorAll("details:not([open])").length === closed;
  const table = document.querySelector("#cells table"), body = table.tBodies[0];
  const head = [...table.tHead.rows[0].cells].find(h => h.textContent === "tok/s");
  out.unsorted = head.getAttribute("aria-sort");
  const column = head.cellIndex, button = head.querySelector("button");
  const values = () => [...body.rows].map(r => r.cells[column].textContent);
  out.plan = values();
  button.focus(); out.focusable = document.activeElement === button;
  out.outline = getComputedStyle(button).outlineStyle;
  button.click(); out.rising = values(); out.sort = head.getAttribute("aria-sort");
  button.click(); out.falling = values();
  button.click(); out.again = values();
  const input = document.querySelector("#cells input");
  input.value = "NGRAM tp2"; input.dispatchEvent(new Event("input"));
  out.shown = [...body.rows].filter(r => !r.hidden).map(r => r.dataset.label);
  out.count = document.querySelector("#cells .filter").textContent;
  input.value = ""; input.dispatchEvent(new Event("input"));
  out.links = [...document.querySelectorAll("a[href]")].map(a => a.getAttribute("href").slice(0, 5));
  // What a browser makes of the links that hold files.
  out.held = {};
  for (const a of document.querySelectorAll("a[download]")) {
    const data = a.href.slice(a.href.indexOf(",") + 1);
    if (a.download.endsWith(".gz")) {
      const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0));
      const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      out.held[a.download] = JSON.parse(await new Response(plain).text()).num_cells;
    } else {
      const text = decodeURIComponent(data);
      out.held[a.download] = a.download.endsWith(".json") ? typeof JSON.parse(text) : text.split("\n").length;
    }
  }
  out.requests = performance.getEntriesByType("resource").length;
  // The policy must refuse what an escaped text could ask for.
  const image = document.createElement("img"); image.src = "http://127.0.0.1:9/x"; document.body.append(image);
  const script = document.createElement("script"); script.textContent = "window.intruder = true"; document.body.append(script);
  await new Promise(done => setTimeout(done, 50));
  out.refused = refused; out.intruder = !!window.intruder;
  image.remove();
  document.body.innerHTML = "<pre id=probe></pre>";
  document.getElementById("probe").textContent = JSON.stringify(out);
});
)js";

const char* const kProbeTables = R"js(
addEventListener("load", () => {
  const out = {problems: [...problems], tables: 0, cut: [], overflow: document.documentElement.scrollWidth - innerWidth};
  for (const table of document.querySelectorAll("table")) {
    ++out.tables;
    const box = table.parentElement.getBoundingClientRect();
    for (const cell of table.querySelectorAll("th,td"))
      if (cell.getBoundingClientRect().right > box.right + 1 || cell.scrollWidth > cell.clientWidth + 1) out.cut.push(cell.textContent);
  }
  document.body.innerHTML = "<pre id=probe></pre>";
  document.getElementById("probe").textContent = JSON.stringify(out);
});
)js";

const char* const kProbePrint = R"js(
addEventListener("load", () => {
  const out = {problems: [...problems], print_rules: 0, heads: 0, unnamed: []};
  // What the style sheet keeps for paper holds on the screen from here on.
  for (const sheet of document.styleSheets)
    for (const rule of sheet.cssRules)
      if (rule instanceof CSSMediaRule && rule.media.mediaText === "print") { rule.media.mediaText = "screen"; ++out.print_rules; }
  for (const head of document.querySelectorAll("table.sortable thead th")) {
    ++out.heads;
    const button = head.querySelector("button"), text = getComputedStyle(head, "::before").content;
    // Buttons are left out of heads that are repeated on the next page.
    if (getComputedStyle(button).display !== "none" || text !== JSON.stringify(button.textContent))
      out.unnamed.push(button.textContent + ": " + text);
  }
  document.body.innerHTML = "<pre id=probe></pre>";
  document.getElementById("probe").textContent = JSON.stringify(out);
});
)js";

struct Look {
  int width = 1300;
  bool dark = false;
};

class ReportInBrowser : public testing::Test {
 protected:
  void SetUp() override {
    if (chromium().empty()) GTEST_SKIP() << "no chromium in PATH";
  }

  nlohmann::json look_at(const RunResult& run, const Look& look) { return ask(test::report_of(run), kProbe, look); }

  /// What the probe tells of a page.
  nlohmann::json ask(std::string html, const char* probe, const Look& look) {
    const std::string style = "<style>", end = "</body>";
    const auto script = [](const char* text) {
      return "<script nonce=\"paceline\">" + std::string(text) + "</script>";
    };
    html.insert(html.find(style), script(kWatch));
    html.insert(html.rfind(end), script(probe));
    write_file_atomic(dir_ / "report.html", html);
    std::vector<std::string> argv = {chromium().string(),
                                     "--headless",
                                     "--no-sandbox",
                                     "--disable-gpu",
                                     "--user-data-dir=" + (dir_ / "profile").string(),
                                     "--window-size=" + std::to_string(look.width) + ",2000",
                                     "--virtual-time-budget=5000",
                                     std::string("--blink-settings=preferredColorScheme=") + (look.dark ? "0" : "1"),
                                     "--dump-dom",
                                     "file://" + (dir_ / "report.html").string()};
    const test::ProcessResult result = test::run_process(argv, {.timeout_s = 120});
    const std::string open = "<pre id=\"probe\">";
    const size_t begin = result.out.find(open);
    if (begin == std::string::npos) {
      ADD_FAILURE() << "no answer from the page; exit code " << result.exit_code << "\n" << result.err.substr(0, 2000);
      return {};
    }
    std::string text = result.out.substr(begin + open.size(), result.out.find("</pre>", begin) - begin - open.size());
    for (const auto& [from, to] : {std::pair("&lt;", "<"), std::pair("&gt;", ">"), std::pair("&amp;", "&")})
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += 1)
        text.replace(at, std::string(from).size(), to);
    return nlohmann::json::parse(text);
  }

  test::TempDir dir_;
};

RunResult run_with_timelines(const test::SyntheticOptions& options) {
  RunResult run = test::synthetic_run(options);
  for (CellResult& cell : run.cells)
    for (RepetitionResult& r : cell.repetitions)
      for (int i = 0; i < 200; ++i) r.timeline.push_back({3.0 * i, i % 9, i % 40, 7 * i, 1.0 * i});
  return run;
}

double number(const nlohmann::json& text) { return text == "–" ? 0 : std::stod(text.get<std::string>()); }

void expect_sound(const nlohmann::json& page) {
  EXPECT_EQ(page["problems"], nlohmann::json::array());
  EXPECT_EQ(page["empty"], nlohmann::json::array());
  EXPECT_EQ(page["outside"], nlohmann::json::array()) << "texts that leave their chart";
  EXPECT_LE(page["overflow"].get<int>(), 0) << "the page scrolls sideways";
  EXPECT_EQ(page["refused_before"], 0);
  EXPECT_EQ(page["requests"], 0);
  for (const auto& link : page["links"]) EXPECT_TRUE(link == "data:" || link.get<std::string>()[0] == '#') << link;
}

TEST_F(ReportInBrowser, DrawsSortsFiltersAndAsksForNothing) {
  const RunResult run = run_with_timelines({.concurrencies = {1, 8}});
  const nlohmann::json page = look_at(run, {});
  ASSERT_TRUE(page.is_object());
  expect_sound(page);
  EXPECT_GT(page["charts"].get<int>(), 40);

  ASSERT_EQ(page["plan"].size(), 56u);
  const auto rising = page["rising"], falling = page["falling"];
  EXPECT_NE(rising, page["plan"]);
  EXPECT_EQ(page["sort"], "ascending");
  for (size_t i = 1; i < 56; ++i) {
    EXPECT_TRUE(rising[i] == "–" || number(rising[i - 1]) <= number(rising[i])) << i;
    EXPECT_TRUE(falling[i] == "–" || number(falling[i - 1]) >= number(falling[i])) << i;
  }
  EXPECT_EQ(rising[55], "–");
  EXPECT_EQ(falling[55], "–");
  EXPECT_EQ(page["again"], page["plan"]);
  EXPECT_EQ(page["focusable"], true);
  EXPECT_EQ(page["unsorted"], "none");
  EXPECT_EQ(page["outline"], "solid") << "the focus cannot be seen";
  EXPECT_EQ(page["closed_on_paper"], 0);
  EXPECT_EQ(page["closes_again"], true);
  EXPECT_EQ(page["scrolled"], 0) << "charts of rows fit";
  EXPECT_GT(page["widest"].get<double>(), 1150) << "charts take the width of the page";

  ASSERT_EQ(page["shown"].size(), 12u);
  for (const auto& label : page["shown"]) EXPECT_TRUE(label.get<std::string>().starts_with("tp2 ")) << label;
  EXPECT_NE(page["count"].get<std::string>().find("12 of 56 rows"), std::string::npos) << page["count"];

  EXPECT_GE(page["refused"].get<int>(), 2) << "the policy lets requests out";
  EXPECT_EQ(page["intruder"], false);
}

TEST_F(ReportInBrowser, LinksToFilesBesideItLoadNothing) {
  RunResult run = run_with_timelines({});
  RunFolder folder(dir_.path(), run, nlohmann::json::object());
  folder.finish(run, {});
  nlohmann::json page = ask(report_html(run, summarize(run), run.folder), kProbe, {});
  ASSERT_TRUE(page.is_object());
  size_t files = 0;
  for (const auto& link : page["links"]) files += link != "data:" && link.get<std::string>()[0] != '#';
  EXPECT_GE(files, 6u);
  // 28 rows, a head and the end of the last line.
  EXPECT_EQ(page["held"],
            nlohmann::json::parse(R"({"summary.csv": 30, "summary.json.gz": 28, "config.resolved.json": "object"})"));
  page["links"] = nlohmann::json::array();
  expect_sound(page);
}

TEST_F(ReportInBrowser, IsDarkWhereTheReaderIs) {
  const RunResult run = run_with_timelines({});
  const nlohmann::json light = look_at(run, {}), dark = look_at(run, {.dark = true});
  expect_sound(dark);
  EXPECT_EQ(light["background"], "rgb(255, 255, 255)");
  EXPECT_EQ(dark["background"], "rgb(18, 22, 27)");
  EXPECT_NE(light["first_bar"], dark["first_bar"]);
}

TEST_F(ReportInBrowser, FitsANarrowWindow) {
  for (const int width : {700, 400}) {
    SCOPED_TRACE(width);
    expect_sound(look_at(run_with_timelines({}), {.width = width}));
  }
}

TEST_F(ReportInBrowser, OnPaperTheHeadsOfTablesAreText) {
  const nlohmann::json page = ask(test::report_of(run_with_timelines({})), kProbePrint, {});
  ASSERT_TRUE(page.is_object());
  EXPECT_EQ(page["problems"], nlohmann::json::array());
  EXPECT_EQ(page["print_rules"], 1);
  EXPECT_GT(page["heads"].get<int>(), 50);
  EXPECT_EQ(page["unnamed"], nlohmann::json::array());
}

TEST_F(ReportInBrowser, AComparisonShowsItsLastColumn) {
  std::vector<RunResult> runs;
  for (const double slower : {1.0, 1.02}) {
    runs.push_back(test::synthetic_run({.with_trouble = false}));
    for (CellResult& cell : runs.back().cells) {
      if (cell.axes.proposer == "draft") cell.axes.variant = "TP2 + self-draft";
      for (size_t r = 0; r < cell.repetitions.size(); ++r)
        cell.repetitions[r].wall_s *= slower * (1 + 0.2 * static_cast<double>(r % 3));
    }
  }
  const RunComparison comparison = compare_runs(runs);
  ASSERT_NE(comparison_html(comparison).find("inconclusive (needs n"), std::string::npos);
  const nlohmann::json page = ask(comparison_html(comparison), kProbeTables, {.width = 1300});
  ASSERT_TRUE(page.is_object());
  EXPECT_EQ(page["problems"], nlohmann::json::array());
  EXPECT_GE(page["tables"], 2);
  EXPECT_EQ(page["cut"], nlohmann::json::array());
  EXPECT_LE(page["overflow"].get<int>(), 0);
}

TEST_F(ReportInBrowser, OpensSoonWithManyCells) {
  // Time of a loaded page, the browser's own start left out; the limits have room for a busy machine, and one of three
  // looks may keep them: what the machine does besides only adds.
  const auto least_ms = [&](const RunResult& run, double limit) {
    double least = INFINITY;
    for (int look = 0; look < 3 && least >= limit; ++look) {
      const nlohmann::json page = look_at(run, {});
      expect_sound(page);
      least = std::min(least, page["ready_ms"].get<double>());
    }
    EXPECT_LT(least, limit);
    return least;
  };
  const double some_ms =
      least_ms(run_with_timelines({.repetitions = 7, .concurrencies = {1, 8}}), 1000 * test::time_factor());
  test::SyntheticOptions many{.repetitions = 3, .concurrencies = {}};
  for (int i = 0; i < 18; ++i) many.concurrencies.push_back(1 + i);
  const RunResult run = run_with_timelines(many);
  ASSERT_GT(run.cells.size(), 500u);
  const double many_ms = least_ms(run, 3000 * test::time_factor());
  RecordProperty("ready_ms_56_cells", std::to_string(some_ms));
  RecordProperty("bytes_504_cells", std::to_string(test::report_of(run).size()));
  RecordProperty("ready_ms_504_cells", std::to_string(many_ms));
}

}  // namespace
}  // namespace paceline
