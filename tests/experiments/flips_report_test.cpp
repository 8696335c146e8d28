// What reports of fast numerics claim, and what they must not.

#include <cmath>

#include <gtest/gtest.h>

#include "experiments/analysis/verdict/verdict.h"
#include "experiments/report/html/html.h"
#include "experiments/report/text/text.h"
#include "tests/experiments/synthetic_run.h"

namespace paceline {
namespace {

/// A run whose cells all flipped `found` times.
RunResult fast_run(int64_t explained, CertificateStatus status) {
  RunResult run = test::synthetic_run({.with_trouble = false});
  run.info.numerics = "fast";
  for (CellResult& cell : run.cells) {
    cell.effective["numerics"] = "fast";
    if (cell.certificate.status != CertificateStatus::baseline) cell.certificate.status = status;
    cell.certificate.method = "fast: flips within noise, against " + cell.baseline_id;
    cell.certificate.flips = {.found = 3, .explained = explained, .positions = 11, .noise = 0.03125};
  }
  return run;
}

TEST(FlipReports, SayHowManyFlipsNoiseExplains) {
  const RunResult run = fast_run(3, CertificateStatus::pass);
  const RunSummary summary = summarize(run);
  std::string verdict;
  for (const VerdictSentence& each : make_verdict(run, summary).details) verdict += each.text + "\n";
  const std::string pooled = fmt::format("{0} flips, {0} explained by noise of up to 0.0312 at {1} positions",
                                         3 * run.cells.size(), 11 * run.cells.size());
  EXPECT_NE(verdict.find("Fast numerics, not token-exact: "), std::string::npos) << verdict;
  EXPECT_NE(verdict.find(pooled), std::string::npos) << verdict;
  const std::string text = end_of_run_text(run, summary, TextColor::off), markdown = summary_markdown(run, summary);
  const std::string page = report_html(run, summary), csv = summary_to_csv(run, summary);
  for (const std::string& each : {verdict, text, markdown, page}) {
    EXPECT_NE(each.find(pooled), std::string::npos) << each.substr(0, 2000);
    for (const char* claim : {"ossless", "token-exact against", "it is the same text"})
      EXPECT_EQ(each.find(claim), std::string::npos) << claim;
  }
  EXPECT_NE(page.find("certified within noise"), std::string::npos);
  EXPECT_NE(text.find("fast: 3 flips"), std::string::npos) << text;
  EXPECT_NE(csv.find(",certificate,tokens_checked,numerics,flips,flips_explained,logit_noise,"), std::string::npos);
  EXPECT_NE(csv.find(",fast,3,3,0.03125,"), std::string::npos) << csv;
  const nlohmann::json flips = summary_to_json(run, summary)["cells"][1]["certificate"]["flips"];
  EXPECT_EQ(flips, nlohmann::json({{"found", 3}, {"explained", 3}, {"positions", 11}, {"noise", 0.03125}}));
}

TEST(FlipReports, ANanIsTheNoiseOfTheRun) {
  RunResult run = fast_run(2, CertificateStatus::fail);
  EXPECT_EQ(pooled_flips(run)->noise, 0.03125);
  run.cells[2].certificate.flips->noise = std::nan("");
  run.cells[4].certificate.flips->noise.reset();
  EXPECT_TRUE(std::isnan(*pooled_flips(run)->noise));
}

TEST(FlipReports, AnUnexplainedFlipIsNotLossless) {
  RunResult run = fast_run(2, CertificateStatus::fail);
  for (CellResult& cell : run.cells) cell.certificate.mismatches = 1;
  const auto verdict = make_verdict(run, summarize(run)).details;
  EXPECT_TRUE(verdict.front().bad);
  EXPECT_TRUE(verdict.front().text.starts_with("NOT LOSSLESS")) << verdict.front().text;
  EXPECT_NE(verdict.front().text.find("in 1 request that noise does not explain (fast numerics: 3 flips, 2 explained"),
            std::string::npos)
      << verdict.front().text;
}

}  // namespace
}  // namespace paceline
