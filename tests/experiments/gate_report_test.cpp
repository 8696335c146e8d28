// What regress prints and writes: each form against its published format.

#include "experiments/report/text/gate_report.h"

#include <regex>

#include <gtest/gtest.h>

#include "tests/experiments/synthetic_run.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::synthetic_run;

GateReport report_of(const RunResult& run, const json& baseline) {
  return {.name = "ngram_tp2",
          .started_at = "2026-11-21T09:30:12Z",
          .baseline = "results/baselines/cpu.json",
          .made_on = "X; this run: Y",
          .exact = exact_verdicts(run, baseline),
          .baseline_bin = {},
          .timing = {},
          .timing_note = {}};
}

/// One accepted token too many in cell 5: what an off-by-one in acceptance does.
RunResult with_acceptance_bug(RunResult run) {
  RunCounters& counters = run.cells[5].repetitions[0].counters;
  ++counters.accepted;
  ++counters.accepted_by_position[0];
  for (RepetitionResult& r : run.cells[5].repetitions) r.counters = counters;
  return run;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(GateReport, ACellThatIsNotLosslessFailsInEveryForm) {
  RunResult run = synthetic_run({.with_trouble = false});
  const json baseline = make_baseline(run);
  run.cells[5].certificate = {
      .status = CertificateStatus::fail, .method = "token-exact", .mismatches = 2, .detail = "request <a>: token 5"};
  const GateReport report = report_of(run, baseline);
  EXPECT_EQ(gate_exit_code(report), ExitCode::correctness);
  const std::string text = gate_text(report);
  EXPECT_NE(text.find(run.cells[5].id + ": NOT LOSSLESS: 2 requests of this run differ"), std::string::npos) << text;
  EXPECT_NE(text.find("28 cells, no difference, 1 NOT LOSSLESS\n"), std::string::npos) << text;
  EXPECT_NE(gate_junit(report).find("<failure type=\"not lossless\" message=\"NOT LOSSLESS"), std::string::npos);
  EXPECT_NE(gate_markdown(report).find("NOT LOSSLESS: 2 requests"), std::string::npos) << gate_markdown(report);
  EXPECT_NE(github_annotations(report).find("NOT LOSSLESS"), std::string::npos);
}

TEST(GateReport, EqualFactsPass) {
  const RunResult run = synthetic_run();
  const GateReport report = report_of(run, make_baseline(run));
  EXPECT_EQ(gate_exit_code(report), ExitCode::ok);
  EXPECT_EQ(gate_text(report), "results/baselines/cpu.json: 26 cells and 1 skipped, 1 FAILED, no difference\n");
  EXPECT_EQ(github_annotations(report),
            "::error title=cell failed%3A tp2_pp1_draft_k3_c1::rank 1 did not answer "
            "within 30 s <deadline>\n");
  EXPECT_NE(gate_markdown(report).find("regression gates passed"), std::string::npos);
}

TEST(GateReport, AnAcceptanceBugIsNamedInEveryForm) {
  const RunResult run = synthetic_run();
  const RunResult bug = with_acceptance_bug(run);
  const GateReport report = report_of(bug, make_baseline(run));
  EXPECT_EQ(gate_exit_code(report), ExitCode::correctness);
  const int64_t before = run.cells[5].repetitions[0].counters.accepted;
  const std::string id = run.cells[5].id,
                    fact = fmt::format("counters.accepted: baseline {}, now {}", before, before + 1);
  const std::string text = gate_text(report), markdown = gate_markdown(report), junit = gate_junit(report),
                    annotations = github_annotations(report);
  EXPECT_NE(text.find(id + ": " + fact + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cpu.json: made on X; this run: Y\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("26 cells and 1 skipped, 1 FAILED, 2 differences\n") ||
              text.ends_with("26 cells and 1 skipped, 1 FAILED, 3 differences\n"))
      << text;
  EXPECT_NE(markdown.find(fmt::format("| {} | counters.accepted | {} | {} |", id, before, before + 1)),
            std::string::npos)
      << markdown;
  EXPECT_EQ(count_of(junit, "<failure type=\"difference\" message=\"" + id + ": " + fact + "\">"), 1u) << junit;
  EXPECT_EQ(annotations.find("::error title=exact gate%3A " + id + "::" + id + ": "), 0u) << annotations;
  EXPECT_NE(annotations.find(fact + "%0A"), std::string::npos) << annotations;
  EXPECT_EQ(annotations.find("%0A\n"), std::string::npos) << annotations;
}

TEST(GateReport, CellsThatAreMissingOrNewFail) {
  RunResult run = synthetic_run({.with_trouble = false});
  const json baseline = make_baseline(run);
  run.cells[3].id = "new";
  const GateReport report = report_of(run, baseline);
  EXPECT_EQ(report.exact.size(), 29u);
  EXPECT_NE(gate_text(report).find("cpu.json: 28 cells, 1 of the baseline missing, 2 differences\n"), std::string::npos)
      << gate_text(report);
  EXPECT_EQ(gate_exit_code(report), ExitCode::correctness);
  EXPECT_NE(gate_markdown(report).find("| new | the cell | absent | present |"), std::string::npos);
}

TEST(GateReport, AFailedCellOfTheBaselineSaysWhyInEveryForm) {
  RunResult run = synthetic_run({.with_trouble = false});
  const json baseline = make_baseline(run);
  run.cells[5].status = CellStatus::failed;
  run.cells[5].reason = "m/model.safetensors: is truncated";
  run.cells[6].status = CellStatus::skipped;
  run.cells[6].reason = "no GPU";
  const GateReport report = report_of(run, baseline);
  EXPECT_EQ(gate_exit_code(report), ExitCode::correctness);
  const std::string failed = run.cells[5].id, skipped = run.cells[6].id, why = "m/model.safetensors: is truncated";
  const std::string text = gate_text(report), junit = gate_junit(report), markdown = gate_markdown(report);
  EXPECT_NE(text.find(failed + ": failed: " + why + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find(skipped + ": skipped: no GPU\n"), std::string::npos) << text;
  EXPECT_NE(text.find("26 cells and 1 skipped, 1 FAILED, 2 differences\n"), std::string::npos) << text;
  EXPECT_NE(junit.find("<error type=\"failed\" message=\"" + why + "\">"), std::string::npos) << junit;
  EXPECT_NE(junit.find("<failure type=\"difference\" message=\"" + skipped + ": skipped: no GPU\">"), std::string::npos);
  EXPECT_NE(markdown.find("| " + failed + " | the cell | present | failed: " + why + " |"), std::string::npos) << markdown;
  EXPECT_NE(github_annotations(report).find("::error title=cell failed%3A " + failed + "::" + why), std::string::npos);
}

TEST(GateReport, JUnitKeepsToItsSchema) {
  RunResult run = synthetic_run();
  run.cells[0].id = "a<b>&\"c'\x01\xff";
  GateReport report = report_of(with_acceptance_bug(run), make_baseline(run));
  report.baseline_bin = "old/runexp";
  report.timing = {
      {.id = "one", .pairs = 40, .median_ratio = 1.06, .p_value = 1e-6, .adjusted_p = 1e-6, .slower = true},
      {.id = "two", .judged = false, .pairs = 40, .median_ratio = 1.2, .slower = true}};
  const std::string junit = gate_junit(report);
  EXPECT_TRUE(
      junit.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"runexp regress ngram_tp2\" "
                        "tests=\"30\" failures=\"2\" errors=\"1\" time=\""))
      << junit.substr(0, 200);
  EXPECT_EQ(count_of(junit, "<testsuite name="), 2u);
  EXPECT_NE(
      junit.find("<testsuite name=\"ngram_tp2.exact\" tests=\"28\" failures=\"1\" errors=\"1\" skipped=\"1\" time=\""),
      std::string::npos);
  EXPECT_NE(junit.find("<testsuite name=\"ngram_tp2.timing\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""),
            std::string::npos);
  EXPECT_EQ(count_of(junit, "<testcase "), 30u);
  EXPECT_EQ(count_of(junit, "timestamp=\"2026-11-21T09:30:12\""), 2u);
  EXPECT_NE(junit.find("name=\"a&lt;b&gt;&amp;&quot;c&#39;\xEF\xBF\xBD\xEF\xBF\xBD\""), std::string::npos) << junit;
  // Every element that opens closes, in order: a small reader instead of a library.
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([a-z-]+)((?:\s+[a-z]+="[^"<]*")*)\s*(/?)>)");
  for (auto at = std::sregex_iterator(junit.begin(), junit.end(), tag); at != std::sregex_iterator(); ++at) {
    if ((*at)[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), (*at)[2]);
      open.pop_back();
    } else if ((*at)[4].length() == 0) {
      open.push_back((*at)[2]);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(count_of(junit, "<"),
            size_t(std::distance(std::sregex_iterator(junit.begin(), junit.end(), tag), std::sregex_iterator())) + 1)
      << "a < that begins no element (the first is the declaration)";
}

TEST(GateReport, TimingIsJudgedAndAdvised) {
  GateReport report{.name = "x",
                    .started_at = {},
                    .baseline = {},
                    .made_on = {},
                    .exact = {},
                    .baseline_bin = "old/runexp",
                    .timing = {{.id = "one", .pairs = 40, .median_ratio = 1.012, .adjusted_p = 0.2},
                               {.id = "two", .judged = false, .pairs = 40, .median_ratio = 1.2, .slower = true}},
                    .timing_note = "40 pairs"};
  EXPECT_EQ(gate_exit_code(report), ExitCode::ok);
  EXPECT_EQ(github_annotations(report).find("::warning title=timing gate%3A two::wall time is 1.200×"), 0u);
  EXPECT_TRUE(gate_text(report).ends_with("old/runexp: 40 pairs, no cell slower\n")) << gate_text(report);
  report.timing[0].slower = true;
  report.timing[0].same_work = false;
  EXPECT_EQ(gate_exit_code(report), ExitCode::timing);
  EXPECT_EQ(github_annotations(report).find("::error title=timing gate%3A one::CPU time is 1.012×"), 0u);
  EXPECT_NE(gate_text(report).find("SLOWER, other work: tokens or counters differ"), std::string::npos);
  report.baseline = "b";
  report.exact = {{.id = "one", .reason = {}, .differences = {{.cell = "one", .field = "x", .baseline = 1, .now = 2}}}};
  EXPECT_EQ(gate_exit_code(report), ExitCode::correctness) << "wrong comes before slow";
}

TEST(GateReport, AnnotationsEscapeWhatGitHubReads) {
  GateReport report{
      .name = "x",
      .started_at = {},
      .baseline = "b",
      .made_on = {},
      .exact = {{.id = "a,b:c%\n", .status = CellStatus::failed, .reason = "100 %, not: 5\r\n6", .differences = {}}},
      .baseline_bin = {},
      .timing = {},
      .timing_note = {}};
  EXPECT_EQ(github_annotations(report), "::error title=cell failed%3A a%2Cb%3Ac%25%0A::100 %25, not: 5%0D%0A6\n");
}

TEST(GateReport, BenchmarkEntriesHaveTheFieldsOfTheAction) {
  const RunResult run = synthetic_run();
  const json entries = benchmark_entries(run);
  ASSERT_TRUE(entries.is_array());
  EXPECT_EQ(entries.size(), 26u * 3);  // two cells are not done
  for (const json& entry : entries) {
    EXPECT_TRUE(entry.at("name").is_string() && entry.at("unit").is_string() && entry.at("value").is_number());
    for (const auto& [key, value] : entry.items()) {
      EXPECT_TRUE(key == "name" || key == "unit" || key == "value" || key == "range" || key == "extra") << key;
      if (key == "range" || key == "extra") {
        EXPECT_TRUE(value.is_string());
      }
    }
  }
  EXPECT_EQ(entries[0].at("name"), "tp1_pp1_none_c1 TPOT");
  EXPECT_TRUE(entries[0].at("range").get<std::string>().starts_with("± "));
  EXPECT_EQ(entries[2].at("unit"), "steps");
}

}  // namespace
}  // namespace paceline
