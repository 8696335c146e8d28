// report.html in a headless Chromium: what is drawn, what the script does, what leaves the page. Skipped where there is
// none.

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/results/files.h"
#include "tests/experiments/report_page.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/paths.h"
#include "tests/support/run_process.h"

namespace paceline {
namespace {

std::filesystem::path chromium() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
      if (std::filesystem::exists(std::filesystem::path(folder) / name)) return std::filesystem::path(folder) / name;
  return {};
}

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
  out.charts = 0; out.empty = []; out.outside = [];
  for (const svg of document.querySelectorAll("svg.chart")) {
    const box = svg.viewBox.baseVal;
    if (svg.closest("details:not([open])")) continue;
    ++out.charts;
    if (svg.getBoundingClientRect().width < 50 || !svg.querySelector(".l,.b,.m")) out.empty.push(svg.getAttribute("aria-label"));
    for (const text of svg.querySelectorAll("text")) {
      const b = text.getBBox();
      if (b.x < -1 || b.x + b.width > box.width + 1 || b.y + b.height > box.height + 1) out.outside.push(text.textContent);
    }
  }
  out.overflow = page.scrollWidth - innerWidth;
  out.background = getComputedStyle(document.body).backgroundColor;
  out.first_bar = getComputedStyle(document.querySelector("svg .b")).fill;
  const table = document.querySelector("#cells table"), body = table.tBodies[0];
  const head = [...table.tHead.rows[0].cells].find(h => h.textContent === "tok/s");
  const column = head.cellIndex, button = head.querySelector("button");
  const values = () => [...body.rows].map(r => r.cells[column].textContent);
  out.plan = values();
  button.focus(); out.focusable = document.activeElement === button;
  button.click(); out.rising = values(); out.sort = head.getAttribute("aria-sort");
  button.click(); out.falling = values();
  button.click(); out.again = values();
  const input = document.querySelector("#cells input");
  input.value = "NGRAM tp2"; input.dispatchEvent(new Event("input"));
  out.shown = [...body.rows].filter(r => !r.hidden).map(r => r.dataset.label);
  out.count = document.querySelector("#cells .filter").textContent;
  input.value = ""; input.dispatchEvent(new Event("input"));
  out.links = [...document.querySelectorAll("a[href]")].map(a => a.getAttribute("href").slice(0, 5));
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

struct Look {
  int width = 1300;
  bool dark = false;
};

class ReportInBrowser : public testing::Test {
 protected:
  void SetUp() override {
    if (chromium().empty()) GTEST_SKIP() << "no chromium in PATH";
  }

  nlohmann::json look_at(const RunResult& run, const Look& look) {
    std::string html = test::report_of(run);
    const std::string style = "<style>", end = "</body>";
    const auto script = [](const char* text) {
      return "<script nonce=\"paceline\">" + std::string(text) + "</script>";
    };
    html.insert(html.find(style), script(kWatch));
    html.insert(html.rfind(end), script(kProbe));
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

  ASSERT_EQ(page["shown"].size(), 12u);
  for (const auto& label : page["shown"]) EXPECT_TRUE(label.get<std::string>().starts_with("tp2 ")) << label;
  EXPECT_NE(page["count"].get<std::string>().find("12 of 56 rows"), std::string::npos) << page["count"];

  EXPECT_GE(page["refused"].get<int>(), 2) << "the policy lets requests out";
  EXPECT_EQ(page["intruder"], false);
}

TEST_F(ReportInBrowser, IsDarkWhereTheReaderIs) {
  const RunResult run = run_with_timelines({});
  const nlohmann::json light = look_at(run, {}), dark = look_at(run, {.dark = true});
  expect_sound(dark);
  EXPECT_EQ(light["background"], "rgb(255, 255, 255)");
  EXPECT_EQ(dark["background"], "rgb(18, 22, 27)");
  EXPECT_NE(light["first_bar"], dark["first_bar"]);
}

TEST_F(ReportInBrowser, FitsANarrowWindow) { expect_sound(look_at(run_with_timelines({}), {.width = 700})); }

TEST_F(ReportInBrowser, OpensSoonWithManyCells) {
  // Time of a loaded page, the browser's own start left out; the limits have room for a busy machine.
  const nlohmann::json some = look_at(run_with_timelines({.repetitions = 7, .concurrencies = {1, 8}}), {});
  expect_sound(some);
  EXPECT_LT(some["ready_ms"].get<double>(), 1000 * test::time_factor());
  test::SyntheticOptions many{.repetitions = 3, .concurrencies = {}};
  for (int i = 0; i < 18; ++i) many.concurrencies.push_back(1 + i);
  const RunResult run = run_with_timelines(many);
  ASSERT_GT(run.cells.size(), 500u);
  const nlohmann::json page = look_at(run, {});
  expect_sound(page);
  EXPECT_LT(page["ready_ms"].get<double>(), 3000 * test::time_factor());
  RecordProperty("ready_ms_56_cells", std::to_string(some["ready_ms"].get<double>()));
  RecordProperty("bytes_504_cells", std::to_string(test::report_of(run).size()));
  RecordProperty("ready_ms_504_cells", std::to_string(page["ready_ms"].get<double>()));
}

}  // namespace
}  // namespace paceline
