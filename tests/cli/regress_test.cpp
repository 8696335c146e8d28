// runexp compare and runexp regress, as a CI job calls them.

#include <algorithm>
#include <filesystem>

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

using nlohmann::json;

class Gates : public testing::Test {
 protected:
  ProcessResult call(std::vector<std::string> args) const {
    args.insert(args.end(), {"--results", workspace_.results().string()});
    return runexp(args, {.environment = {"GITHUB_ACTIONS"}, .timeout_s = 120});
  }
  ProcessResult run(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"run", workspace_.config().string(), "--ui", "quiet"};
    args.insert(args.end(), more.begin(), more.end());
    return call(args);
  }
  ProcessResult regress(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"regress", workspace_.config().string(), "--ui", "quiet"};
    args.insert(args.end(), more.begin(), more.end());
    return call(args);
  }
  std::string file(const std::string& name) const { return (workspace_.folder() / name).string(); }

  /// A program that runs the one under test with more requests.
  std::string program_with_requests(int requests) const {
    const std::string path = file("runexp-" + std::to_string(requests));
    write_file(path, "#!/bin/sh\nexec '" + kRunexp.string() +
                         "' \"$@\" --set workload.requests=" + std::to_string(requests) + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  Workspace workspace_;
};

TEST_F(Gates, CompareSetsTwoRunsSideBySide) {
  ASSERT_EQ(run().exit_code, 0);
  ASSERT_EQ(run({"--set", "measure.repetitions=2"}).exit_code, 0);
  const ProcessResult text = call({"compare", "last~1", "last"});
  EXPECT_EQ(text.exit_code, 0) << described(text);
  EXPECT_TRUE(holds(text.out, "B: output tokens identical to A's in 2 of 2 cells, counters in 2")) << text.out;
  EXPECT_TRUE(holds(text.out, "measure.repetitions")) << text.out;
  EXPECT_TRUE(holds(text.out, "needs n >= 7")) << text.out;
  EXPECT_EQ(text.err, "");
  const ProcessResult data = call({"compare", "last~1", "last", "last", "--format", "json"});
  EXPECT_EQ(json::parse(data.out).at("runs").size(), 3u);
  EXPECT_TRUE(holds(data.err, "last and last are the same run")) << data.err;
  EXPECT_TRUE(call({"compare", "last~1", "last", "--format", "md"}).out.starts_with("# Comparison"));
  EXPECT_TRUE(call({"compare", "last~1", "last", "--format", "html"}).out.starts_with("<!doctype html>"));
  EXPECT_TRUE(call({"compare", "last~1", "last", "--format", "csv"}).out.starts_with("cell,first_run,"));
}

TEST_F(Gates, CompareRefusesOtherExperimentsAndBadOptions) {
  ASSERT_EQ(run().exit_code, 0);
  ASSERT_EQ(run({"--set", "sampling.seed=2", "--set", "workload.requests=1"}).exit_code, 0);
  expect_failure(call({"compare", "last~1", "last"}), 2,
                 {"different experiments", "sampling.seed (1 / 2)", "workload.requests (2 / 1)", "--force"});
  const ProcessResult forced = call({"compare", "last~1", "last", "--force"});
  EXPECT_EQ(forced.exit_code, 0) << described(forced);
  EXPECT_TRUE(holds(forced.out, "only because of --force")) << forced.out;
  expect_failure(call({"compare", "last"}), 2, {"compare --help"});
  expect_failure(call({"compare", "last", "nothing-like-it"}), 2, {"nothing-like-it"});
  expect_failure(call({"compare", "last", "last", "--min-effect", "two"}), 2, {"--min-effect two", "2% or 0.02"});
  expect_failure(call({"compare", "last", "last", "--min-effect", "200%"}), 2, {"between 0 and 1"});
  expect_failure(call({"compare", "last", "last", "--format", "pdf"}), 2, {"pdf"});
}

TEST_F(Gates, AnAcceptanceBugIsExitCode7InEveryForm) {
  ASSERT_EQ(regress({"--baseline", file("base.json"), "--update-baseline"}).exit_code, 0);
  const std::vector<std::string> forms = {"--baseline",  file("base.json"),  "--junit",
                                          file("j.xml"), "--markdown",       file("m.md"),
                                          "--github",    "--benchmark-json", file("bench.json")};
  const ProcessResult good = regress(forms);
  EXPECT_EQ(good.exit_code, 0) << described(good);
  EXPECT_TRUE(holds(good.out, "2 cells, no difference")) << good.out;
  EXPECT_FALSE(holds(good.out, "::error")) << good.out;
  EXPECT_TRUE(holds(read_file(file("j.xml")), "tests=\"2\" failures=\"0\" errors=\"0\""));
  size_t noisy = 0;  // cells that something disturbed have steps there, and no times
  for (const json& cell : workspace_.cells()) noisy += cell.at("noisy").get<bool>() ? 1 : 0;
  EXPECT_EQ(json::parse(read_file(file("bench.json"))).size(), 6u - 2 * noisy);

  // What a bug in acceptance does to the counts, the other way round.
  json baseline = json::parse(read_file(file("base.json")));
  json& counters = baseline["cells"]["tp1_pp1_ngram_k3_c1"]["counters"];
  ASSERT_TRUE(counters.is_object());
  counters["accepted"] = counters["accepted"].get<int>() + 1;
  counters["steps"] = counters["steps"].get<int>() - 1;
  write_file(file("base.json"), baseline.dump());
  const ProcessResult bad = regress(forms);
  EXPECT_EQ(bad.exit_code, 7) << described(bad);
  EXPECT_TRUE(holds(bad.out, "tp1_pp1_ngram_k3_c1: counters.accepted: baseline ")) << bad.out;
  EXPECT_TRUE(holds(bad.out, "2 cells, 2 differences\n")) << bad.out;
  EXPECT_TRUE(holds(bad.out, "::error title=exact gate%3A tp1_pp1_ngram_k3_c1::")) << bad.out;
  EXPECT_TRUE(holds(read_file(file("j.xml")), "<failure type=\"difference\"")) << read_file(file("j.xml"));
  EXPECT_TRUE(holds(read_file(file("m.md")), "| tp1_pp1_ngram_k3_c1 | counters.accepted |"));
}

TEST_F(Gates, ARecordedRunIsABaselineToo) {
  ASSERT_EQ(run().exit_code, 0);
  const ProcessResult same = regress({"--baseline", "last"});
  EXPECT_EQ(same.exit_code, 0) << described(same);
  EXPECT_TRUE(holds(same.out, "_tiny_")) << same.out;
  expect_failure(regress({"--baseline", "last", "--set", "sampling.max_tokens=4", "--set", "load.concurrency=2"}), 2,
                 {": load.concurrency 1, here 2; sampling.max_tokens 8, here 4; name a baseline"});
  EXPECT_EQ(regress({"--baseline", "last", "--set", "measure.repetitions=2", "--axis", "k=3"}).exit_code, 0);
  expect_failure(regress({"--baseline", "nothing-like-it"}), 2, {"nothing-like-it"});
  expect_failure(regress({"--baseline", "absent.json"}), 2, {"absent.json", "--update-baseline"});
  write_file(file("edited.json"),
             R"({"schema": "paceline.baseline", "schema_version": 1, "cells": {}, "settings": null})");
  expect_failure(regress({"--baseline", file("edited.json")}), 6, {"edited.json: is no baseline"});
}

TEST_F(Gates, AnUpdateWritesAFileWholeAndWhatCannotBeWrittenIsSaidBeforeTheRun) {
  const std::string base = file("base.json");
  expect_failure(regress({"--baseline", "last", "--update-baseline"}), 2,
                 {"--baseline last: --update-baseline writes a file: expected a name that ends in .json"});
  ASSERT_EQ(regress({"--baseline", base, "--update-baseline"}).exit_code, 0);
  const std::string before = read_file(base);
  const std::vector<std::string> plain = {"--baseline", base, "--only", "proposer == 'none'"};
  std::vector<std::string> update = plain;
  update.push_back("--update-baseline");
  expect_failure(regress(update), 2, {base + ": --update-baseline with --only would drop its other cells"});
  EXPECT_EQ(read_file(base), before);
  const ProcessResult part = regress(plain);
  EXPECT_TRUE(holds(part.out, "base.json: 1 of 2 cells (--only), no difference")) << described(part);
  for (const char* const option : {"--junit", "--markdown", "--benchmark-json"}) {
    const ProcessResult refused = regress({"--baseline", base, option, file("absent/out")});
    expect_failure(refused, 6, {option, "there is no folder", "absent: make it"});
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  }
  expect_failure(regress({"--baseline", base, "--pairs", "3"}), 2, {"--pairs: goes with --baseline-bin"});
}

TEST_F(Gates, ABaselineOfAnotherExperimentIsAUsageError) {
  // The committed baseline is the default one.
  expect_failure(
      regress({}), 2,
      {"results/baselines/cpu.json is of ngram_tp2 (12 requests a cell, profile quick), this is tiny (2 requests "
       "a cell): name ngram_tp2, here tiny; ",
       "; name a baseline with --baseline, or make one with --baseline FILE "
       "--update-baseline"});
  ASSERT_EQ(run({"--set", "name=other"}).exit_code, 0);
  expect_failure(regress({"--baseline", "last"}), 2, {"is of other (2 requests a cell), this is tiny (2 requests"});
  ASSERT_EQ(run({"--set", "workload.requests=1"}).exit_code, 0);
  expect_failure(regress({"--baseline", "last"}), 2,
                 {"tiny (1 request a cell), this is tiny (2 requests a cell): workload.requests 1, here 2;"});
  // What a baseline does not say is no difference.
  ASSERT_EQ(regress({"--baseline", file("old.json"), "--update-baseline"}).exit_code, 0);
  json old = json::parse(read_file(file("old.json")));
  old.erase("name");
  old.erase("profile");
  write_file(file("old.json"), old.dump());
  EXPECT_EQ(regress({"--baseline", file("old.json")}).exit_code, 0);
}

// Nothing was compared: neither a pass nor a baseline.
TEST_F(Gates, WhereAllCellsAreSkippedThereIsNoPass) {
  ASSERT_EQ(regress({"--baseline", file("base.json"), "--update-baseline"}).exit_code, 0);
  const std::vector<std::string> skipped = {"--set", "engine.devices=[0]"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), skipped.begin(), skipped.end());
    return more;
  };
  expect_failure(run(skipped), 2, {"all 2 cells are skipped", "devices are chosen for backend cuda only"});
  EXPECT_EQ(regress(with({"--baseline", file("new.json"), "--update-baseline"})).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(file("new.json")));
  const ProcessResult plan = call(with({"plan", workspace_.config().string()}));
  EXPECT_EQ(plan.exit_code, 2) << described(plan);
  EXPECT_TRUE(holds(plan.err, "all 2 cells are skipped")) << plan.err;
}

TEST_F(Gates, WhatCannotBeJudgedStandsInTheFilesToo) {
  write_file(file("j.xml"), "of an earlier run");
  const std::vector<std::string> forms = {"--junit", file("j.xml"), "--markdown", file("m.md")};
  const auto expect_error = [&](std::vector<std::string> args, const std::string& message) {
    args.insert(args.end(), forms.begin(), forms.end());
    EXPECT_EQ(regress(args).exit_code, 2);
    EXPECT_TRUE(holds(read_file(file("j.xml")), "errors=\"1\"")) << read_file(file("j.xml"));
    EXPECT_TRUE(holds(read_file(file("j.xml")), "<error type=\"not judged\" message=\"")) << read_file(file("j.xml"));
    EXPECT_TRUE(holds(read_file(file("j.xml")), message)) << read_file(file("j.xml"));
    EXPECT_TRUE(holds(read_file(file("m.md")), "could not judge")) << read_file(file("m.md"));
  };
  expect_error({}, "cpu.json is of ngram_tp2");
  expect_error({"--set", "engine.backend=cpv"}, "did you mean");
  ASSERT_EQ(regress({"--baseline", file("base.json"), "--update-baseline"}).exit_code, 0);
  expect_error({"--baseline", file("base.json"), "--set", "sampling.max_tokens=9"}, "sampling.max_tokens 8, here 9");
}

TEST_F(Gates, TheProfileOfTheBaselineIsOffered) {
  expect_failure(call({"regress", "configs/ngram_tp2.json", "--ui", "quiet"}), 2,
                 {"; add --profile quick, name a baseline with --baseline, or make one"});
}

TEST_F(Gates, ACrashInACellCostsThatCellNotTheReport) {
  ASSERT_EQ(regress({"--baseline", file("base.json"), "--update-baseline"}).exit_code, 0);
  int judged = 0;
  for (const int call : {10, 14, 18}) {  // every process dies at that write of its own
    const ProcessResult result = run_process(
        runexp_argv({"regress", workspace_.config().string(), "--ui", "quiet", "--baseline", file("base.json"),
                     "--junit", file("j.xml"), "--results", workspace_.results().string()}),
        {.folder = kSource,
         .environment = {"PACELINE_FAIL=write:kill:" + std::to_string(call)},
         .timeout_s = 60 * time_factor()});
    SCOPED_TRACE(described(result));
    EXPECT_TRUE(holds(result.err, "killed by signal 9")) << result.err;
    if (result.exit_code == 4) continue;  // it dies again and again in front of anything new
    ++judged;
    EXPECT_TRUE(holds(result.out, "base.json: 2 cells, ")) << result.out;
    EXPECT_TRUE(holds(read_file(file("j.xml")), "<testcase"));
  }
  EXPECT_GT(judged, 0);
}

TEST_F(Gates, ADiskThatIsFullAtTheEndIsNamed) {
  ASSERT_EQ(run().exit_code, 0);
  const ProcessResult result = run_process(
      runexp_argv({"regress", workspace_.config().string(), "--ui", "quiet", "--baseline", "last", "--results",
                   workspace_.results().string()}),
      {.folder = kSource, .environment = {"PACELINE_FAIL=symlink:ENOSPC:1"}, .timeout_s = 60 * time_factor()});
  EXPECT_EQ(result.exit_code, 6) << described(result);
  EXPECT_TRUE(holds(result.err, "No space left on device")) << result.err;
}

TEST_F(Gates, CompareNeedsACellInCommon) {
  ASSERT_EQ(run({"--axis", "proposer=none"}).exit_code, 0);
  ASSERT_EQ(
      run({"--axis", "proposer=ngram", "--set", "sweep.baseline={\"speculation.proposer\": \"ngram\"}"}).exit_code, 0);
  expect_failure(call({"compare", "last~1", "last"}), 2,
                 {"these runs have no cell in common", " has tp1_pp1_none_c1, …", " has tp1_pp1_ngram_k3_c1, …"});
}

TEST_F(Gates, TheTimingGatePassesTheSameProgramAndStopsASlowerOne) {
  const std::vector<std::string> only = {"--baseline", "last",    "--only",      "proposer == none", "--pairs",
                                         "9",          "--junit", file("j.xml"), "--baseline-bin"};
  ASSERT_EQ(run({"--set", "workload.requests=6", "--only", "proposer == none"}).exit_code, 0);
  const auto timed = [&](const std::string& program) {
    std::vector<std::string> args = only;
    args.insert(args.end(), {program, "--set", "workload.requests=6"});
    return regress(args);
  };
  if (time_factor() == 1) {  // under a sanitizer one of the two is enough
    const ProcessResult same = timed(kRunexp.string());
    EXPECT_EQ(same.exit_code, 0) << described(same);
    EXPECT_TRUE(holds(same.out, "9 pairs by turns, CPU time without wait loops")) << same.out;
    EXPECT_TRUE(holds(same.out, "no cell slower\n")) << same.out;
    EXPECT_TRUE(holds(read_file(file("j.xml")), "tiny.timing"));
  }
  // The other program does a third of the work: this one is three times as slow.
  const ProcessResult slower = timed(program_with_requests(2));
  EXPECT_EQ(slower.exit_code, 8) << described(slower);
  EXPECT_TRUE(holds(slower.out, "SLOWER, other work")) << slower.out;
  EXPECT_TRUE(holds(slower.out, "1 of 1 cell slower\n")) << slower.out;
}

TEST_F(Gates, WrongOptionsOfTheTimingGateAreUsageErrors) {
  expect_failure(regress({"--timing-only"}), 2, {"--timing-only", "--baseline-bin"});
  expect_failure(regress({"--baseline-bin", "absent/runexp"}), 2, {"absent/runexp", "no such file"});
  expect_failure(regress({"--baseline-bin", kRunexp.string(), "--timing-cells", "some"}), 2, {"single or all"});
  expect_failure(regress({"--timing-only", "--baseline-bin", kRunexp.string(), "--update-baseline"}), 2,
                 {"--update-baseline"});
}

}  // namespace
}  // namespace paceline::test
