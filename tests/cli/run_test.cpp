// `runexp run`: results on disk, streams, cells that fail, places and environments that are unusual.

#include <algorithm>
#include <set>
#include <sys/stat.h>

#include "kernels/cuda/cuda_backend.h"
#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

using nlohmann::json;

std::vector<std::string> run_args(const Workspace& workspace, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"run", workspace.config().string(), "--results", workspace.results().string()});
  return more;
}

void expect_percentiles(const json& value, const char* name) {
  for (const char* const key : {"p50", "p90", "p99"}) {
    ASSERT_TRUE(value.contains(key)) << name << " " << key;
    EXPECT_TRUE(value[key].is_number()) << name << " " << key;
  }
  EXPECT_LE(value["p50"], value["p90"]) << name;
  EXPECT_LE(value["p90"], value["p99"]) << name;
}

TEST(Fast, RunsAreCertifiedUpToFlipsOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const Workspace workspace;
  std::vector<std::string> args = run_args(workspace);
  for (const char* const value :
       {"engine.backend=cuda", "engine.numerics=fast", "engine.scheduler.max_num_seqs=96", "load.concurrency=96",
        "workload.requests=96", "sampling.max_tokens=32", "measure.repetitions=2"})
    args.insert(args.end(), {"--set", value});
  const ProcessResult result = runexp(args, {.timeout_s = 300});
  SCOPED_TRACE(described(result));
  ASSERT_EQ(result.exit_code, 0);
  for (const json& cell : workspace.cells()) {
    const json& certificate = cell.at("certificate");
    SCOPED_TRACE(certificate.dump());
    EXPECT_EQ(certificate.at("status"), cell.at("axes").at("proposer") == "none" ? "baseline" : "pass");
    const json& flips = certificate.at("flips");
    ASSERT_TRUE(flips.is_object());
    EXPECT_EQ(flips.at("found"), flips.at("explained"));
    EXPECT_GE(flips.at("positions"), 8);
    EXPECT_GT(flips.at("noise"), 0) << "passes of many rows have other sums";
  }
  EXPECT_TRUE(holds(result.out, "fast: ")) << "the plain output says so";
  EXPECT_FALSE(holds(result.out, "ossless"));
}

TEST(Run, SaysOnceThatOutputsEndAtTheLongestSequence) {
  const Workspace workspace;
  const ProcessResult result =
      runexp(run_args(workspace, {"--axis", "tp=1,2", "--axis", "proposer=none", "--set", "sampling.max_tokens=1000"}));
  SCOPED_TRACE(described(result));
  ASSERT_EQ(result.exit_code, 0);
  const std::string said = "outputs end at max_model_len 1024: it leaves 2 of 2 requests less than";
  const size_t first = result.err.find(said);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(result.err.find(said, first + 1), std::string::npos) << "two loads, one sentence";
}

TEST(Run, WritesACompleteResultsFolder) {
  const Workspace workspace;
  const ProcessResult result =
      runexp({workspace.config().string(), "--results", workspace.results().string()});  // a config path implies `run`
  SCOPED_TRACE(described(result));
  ASSERT_EQ(result.exit_code, 0);
  std::set<std::string> files;
  const auto latest = std::filesystem::canonical(workspace.results() / "latest");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(latest)) {
    if (entry.is_regular_file()) files.insert(entry.path().lexically_relative(latest).string());
  }
  EXPECT_EQ(files, (std::set<std::string>{
                       "config.resolved.json", "environment.json", "experiment.json", "journal.log", "lock",
                       "manifest.json", "samples.json", "summary.json", "summary.csv", "summary.md", "report.html",
                       "cells/000_tp1_pp1_none_c1/cell.json", "cells/000_tp1_pp1_none_c1/requests.jsonl",
                       "cells/000_tp1_pp1_none_c1/log.txt", "cells/000_tp1_pp1_none_c1/ranks.json",
                       "cells/001_tp1_pp1_ngram_k3_c1/cell.json", "cells/001_tp1_pp1_ngram_k3_c1/requests.jsonl",
                       "cells/001_tp1_pp1_ngram_k3_c1/log.txt", "cells/001_tp1_pp1_ngram_k3_c1/ranks.json"}));

  const json summary = workspace.summary();
  EXPECT_EQ(summary.at("status"), "done");
  EXPECT_EQ(summary.at("schema"), "paceline.summary");
  ASSERT_EQ(summary.at("cells").size(), 2u);
  for (const json& cell : summary.at("cells")) {
    SCOPED_TRACE(cell.at("id"));
    const bool speculates = cell.at("axes").at("proposer") != "none";
    EXPECT_EQ(cell.at("status"), "done");
    EXPECT_EQ(cell.at("axes").at("tp"), 1);
    EXPECT_EQ(cell.at("axes").at("pp"), 1);
    EXPECT_EQ(cell.at("axes").at("concurrency"), 1);
    EXPECT_EQ(cell.at("axes").at("num_speculative_tokens"), speculates ? json(3) : json(nullptr));
    EXPECT_GT(cell.at("output_tok_s").get<double>(), 0);
    EXPECT_GT(cell.at("speedup").get<double>(), 0);
    EXPECT_GE(cell.at("tokens_per_target_forward").get<double>(), 1);
    for (const char* const key : {"ttft_ms", "tpot_ms", "itl_ms"}) expect_percentiles(cell.at(key), key);
    for (const char* const key : {"mean_acceptance_length", "draft_acceptance_rate", "draft_coverage"})
      EXPECT_EQ(cell.at(key).is_number(), speculates) << key;
    EXPECT_TRUE(cell.at("acceptance_per_position").is_array());
    EXPECT_EQ(cell.at("acceptance_per_position").empty(), !speculates);
    EXPECT_EQ(cell.at("certificate").at("status"), speculates ? "pass" : "baseline");
    EXPECT_TRUE(cell.at("certificate").at("method").is_string());
    EXPECT_EQ(cell.at("certificate").at("tokens_checked"), cell.at("output_tokens"));
    EXPECT_EQ(cell.at("output_tokens"), 16);
    const json& effective = cell.at("effective");
    EXPECT_EQ(effective.at("tp"), 1);
    EXPECT_EQ(effective.at("proposer"), cell.at("axes").at("proposer"));
    EXPECT_EQ(effective.at("dtype"), "bfloat16");
    for (const char* const phase : {"draft", "verify", "sample", "schedule", "communicate", "bubble"})
      EXPECT_GE(cell.at("phase_ms_per_step").at(phase).get<double>(), 0) << phase;
    const std::string folder =
        std::string("cells/") + (speculates ? "001_" : "000_") + cell.at("id").get<std::string>();
    const std::vector<std::string> records = lines_of(read_file(latest / folder / "requests.jsonl"));
    EXPECT_EQ(records.size(), 2u);
    for (const std::string& record : records) EXPECT_TRUE(json::parse(record).is_object());
  }
  for (const char* const file : {"config.resolved.json", "environment.json", "experiment.json", "manifest.json"})
    EXPECT_TRUE(json::parse(read_file(latest / file)).is_object()) << file;
  EXPECT_EQ(json::parse(read_file(latest / "manifest.json")).at("status"), "done");

  // The report needs no network: no address but the names of XML namespaces.
  std::string report = read_file(latest / "report.html");
  EXPECT_TRUE(holds(report, "<svg"));
  EXPECT_TRUE(holds(report, "tp1 pp1 ngram"));
  for (const std::string name : {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}) {
    for (size_t at; (at = report.find(name)) != std::string::npos;) report.erase(at, name.size());
  }
  for (const char* const address : {"http://", "https://", "src=\"//", "href=\"//", "@import"})
    EXPECT_FALSE(holds(report, address)) << address;

  // Data on stdout, progress on stderr, no control characters without a terminal.
  EXPECT_TRUE(holds(result.out, "report  "));
  EXPECT_TRUE(holds(result.out, "1 cell lossless"));
  EXPECT_EQ(lines_of(result.err).size(), 2u);
  EXPECT_TRUE(holds(result.err, "[1/2] done"));
  EXPECT_TRUE(holds(result.err, "[2/2] done"));
  for (const std::string* stream : {&result.out, &result.err})
    EXPECT_EQ(stream->find_first_of("\x1b\r\t"), std::string::npos);
}

TEST(Run, LeavesATimelineAndTheTextsOfSamples) {
  const Workspace workspace;
  const ProcessResult result = runexp(run_args(workspace));
  SCOPED_TRACE(described(result));
  ASSERT_EQ(result.exit_code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(workspace.results() / "latest" / "cells")) {
    const json cell = json::parse(read_file(entry.path() / "cell.json")), timeline = cell.at("timeline");
    const size_t points = timeline.at("time_ms").size();
    ASSERT_GE(points, 2u);
    ASSERT_LE(points, 256u);
    for (const char* const key : {"requests", "kv_blocks", "output_tokens", "bubble_ms"})
      EXPECT_EQ(timeline.at(key).size(), points) << key;
    EXPECT_EQ(timeline["requests"].front(), 1);
    EXPECT_GT(timeline["kv_blocks"].front(), 0);
    EXPECT_EQ(timeline["requests"].back(), 0);
    EXPECT_EQ(timeline["kv_blocks"].back(), 0);
    EXPECT_EQ(timeline["output_tokens"].back(), cell.at("repetitions")[0].at("output_tokens"));
    EXPECT_LE(timeline["time_ms"].back(), 1000 * cell.at("repetitions")[0].at("wall_s").get<double>() + 1);
  }
  const json samples = json::parse(read_file(workspace.results() / "latest" / "samples.json"));
  ASSERT_EQ(samples.at("models").size(), 1u);
  const json& model = samples["models"][0];
  EXPECT_EQ(model.at("prompts").size(), 2u);
  EXPECT_GT(model["prompts"][0].at("text").get<std::string>().size(), 20u);
  EXPECT_GT(model.at("tokens").size(), 3u);
  const std::string report = read_file(workspace.results() / "latest" / "report.html");
  EXPECT_TRUE(holds(report, "the same in all 2 repetitions of 2 cells"));
  EXPECT_TRUE(holds(report, "Prompt</p><pre>[user] "));
}

TEST(Run, DevicesKeepBooksOfTheirWork) {
  const Workspace workspace;
  const ProcessResult result =
      runexp(run_args(workspace, {"--set", "engine.backend=cpu", "--set", "speculation.draft.path=builtin:draft-600k",
                                  "--axis", "proposer=none,draft", "--axis", "tp=1,2", "--axis", "pp=1,2"}));
  SCOPED_TRACE(described(result));
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_TRUE(holds(result.out, " busy ")) << result.out;
  const json cells = workspace.cells();
  ASSERT_EQ(cells.size(), 8u);
  int64_t whole_bytes = 0, whole_flops = 0;
  for (const json& cell : cells) {
    SCOPED_TRACE(cell.at("id"));
    const int ranks = cell.at("axes").at("tp").get<int>() * cell.at("axes").at("pp").get<int>();
    const bool drafts = cell.at("axes").at("proposer") == "draft";
    ASSERT_EQ(cell.at("device_busy").size(), size_t(ranks));
    for (const json& share : cell.at("device_busy")) {
      EXPECT_GT(share.get<double>(), 0.0);
      EXPECT_LE(share.get<double>(), 1.0);
    }
    const json file = json::parse(read_file(
        workspace.results() / "latest" / "cells" /
        fmt::format("{:03}_{}", cell.at("index").get<int>(), cell.at("id").get<std::string>()) / "cell.json"));
    const json& repetition = file.at("repetitions")[0];
    const int deciding = ranks - cell.at("axes").at("tp").get<int>();
    int64_t bytes = 0, flops = 0, draft_flops = 0;
    for (const json& rank : repetition.at("ranks")) {
      bytes += rank.at("verify").at("weight_bytes").get<int64_t>();
      flops += rank.at("verify").at("flops").get<int64_t>();
      draft_flops += rank.at("draft").at("flops").get<int64_t>();
    }
    EXPECT_EQ(draft_flops > 0, drafts);
    EXPECT_EQ(repetition.at("ranks")[size_t(deciding)].at("draft").at("flops").get<int64_t>() > 0, drafts);
    // every pass reads every weight once, wherever it lies; padding of panels differs between shards
    const double passes = cell.at("counters").at("target_forwards").get<double>();
    if (!drafts && ranks == 1) {
      whole_bytes = int64_t(double(bytes) / passes);
      whole_flops = flops;
    }
    ASSERT_GT(whole_bytes, 0) << "the plain cell of one rank comes first";
    EXPECT_NEAR(double(bytes) / passes, double(whole_bytes), 0.01 * double(whole_bytes));
    if (!drafts) {
      EXPECT_NEAR(double(flops), double(whole_flops), 0.01 * double(whole_flops));
    }
    const json& verify = cell.at("roofline").at("verify");
    EXPECT_GT(verify.at("ms").get<double>(), 0.0);
    EXPECT_EQ(cell.at("roofline").at("draft").at("ms").is_number(), drafts);
    EXPECT_GT(cell.at("roofline").at("sample").at("bytes").get<double>(), 0.0);
    EXPECT_EQ(cell.at("roofline").at("communicate").at("ms").is_number(), ranks > 1);
    EXPECT_TRUE(verify.at("floor_share").is_null() || verify.at("floor_share") > 0.0);
  }
}

TEST(Run, UnderscoresAndOverridesInAnyPlaceAreTaken) {
  const Workspace workspace;
  const std::string repetitions = "--set=measure.warmup_requests=0";
  const ProcessResult result = runexp({"run", "--set", "sampling.max_tokens=4", repetitions, "--ui=quiet", "--axis",
                                       "k=2", workspace.config().string(), "--results", workspace.results().string()});
  ASSERT_EQ(result.exit_code, 0) << described(result);
  EXPECT_EQ(result.err, "");
  for (const json& cell : workspace.cells()) EXPECT_EQ(cell.at("output_tokens"), 8);
  EXPECT_EQ(workspace.summary().at("cells")[1].at("axes").at("num_speculative_tokens"), 2);
  const ProcessResult same = runexp({"generate", "hi", "--num_speculative_tokens=2", "--max_tokens", "3"});
  EXPECT_EQ(same.exit_code, 0) << described(same);
}

TEST(Run, CellsOfOneLoadHaveTheRepetitionsThatEachAsksFor) {
  const Workspace workspace;
  const ProcessResult result = runexp(run_args(workspace, {"--axis", "measure.repetitions=1,3"}));
  ASSERT_EQ(result.exit_code, 0) << described(result);
  const json summary = workspace.summary();
  EXPECT_EQ(summary.at("num_partial"), 0);
  std::vector<int> repetitions;
  for (const json& cell : workspace.cells()) repetitions.push_back(cell.at("repetitions"));
  EXPECT_EQ(repetitions, (std::vector<int>{1, 3, 1, 3}));
  EXPECT_FALSE(holds(result.out, "Not finished")) << result.out;
  // Loads that take turns: each cell is told as done, those too that need no second visit.
  const ProcessResult by_turns = runexp(run_args(workspace, {"--axis", "measure.repetitions=1,4", "--axis", "pp=1,2"}));
  EXPECT_TRUE(holds(by_turns.err, "[8/8] done")) << by_turns.err;
  const ProcessResult plan = runexp({"plan", workspace.config().string(), "--axis", "measure.repetitions=1,3"});
  EXPECT_TRUE(holds(plan.out, "1 to 3 repetitions")) << plan.out;
}

TEST(Run, ACellThatCannotRunIsRecordedAndTheSweepGoesOn) {
  const Workspace workspace;
  for (const char* const order : {"tp=1,3", "tp=3,1"}) {
    const ProcessResult result = runexp(run_args(workspace, {"--axis", order}));
    SCOPED_TRACE(described(result));
    EXPECT_EQ(result.exit_code, 1);
    const json summary = workspace.summary();
    EXPECT_EQ(summary.at("status"), "failed_cells");
    EXPECT_EQ(summary.at("num_done"), 2);
    EXPECT_EQ(summary.at("num_failed"), 2);
    ASSERT_EQ(summary.at("cells").size(), 4u);
    for (const json& cell : summary.at("cells")) {
      const bool fails = cell.at("axes").at("tp") == 3;
      EXPECT_EQ(cell.at("status"), fails ? "failed" : "done");
      if (!fails) continue;
      EXPECT_TRUE(holds(cell.at("reason"), "num_attention_heads 8 is not divisible by tp 3"));
      EXPECT_TRUE(cell.at("output_tok_s").is_null());
    }
    EXPECT_TRUE(holds(result.out, "2 of 4 cells failed"));
    EXPECT_TRUE(holds(result.err, "failed  tp3_pp1_none_c1: num_attention_heads 8"));
    EXPECT_TRUE(holds(read_file(workspace.results() / "latest/summary.md"), "num_attention_heads 8"));
  }
}

// Of two drafts in one load, whichever stands first.
TEST(Run, ADraftThatDoesNotLoadTakesItsOwnCellsOnly) {
  for (const char* const paths : {"/nowhere/absent,builtin:draft-600k", "builtin:draft-600k,/nowhere/absent"}) {
    const Workspace workspace;
    const ProcessResult result =
        runexp(run_args(workspace, {"--set", "engine.backend=cpu", "--axis", "proposer=none,draft", "--axis",
                                    std::string("speculation.draft.path=") + paths}));
    SCOPED_TRACE(described(result));
    EXPECT_EQ(result.exit_code, 1);
    const json cells = workspace.cells();
    ASSERT_EQ(cells.size(), 3u);
    for (const json& cell : cells) {
      const bool fails = holds(cell.at("id"), "absent");
      EXPECT_EQ(cell.at("status"), fails ? "failed" : "done") << cell.at("id");
      if (fails) {
        EXPECT_TRUE(holds(cell.at("reason"), "there is no folder /nowhere/absent")) << cell.at("reason");
      }
    }
  }
}

TEST(Run, OneBrokenLoadIsOneFailureOfTheSweep) {
  const Workspace workspace;
  // 4 cells of tp 3 come first; with max_failures 2 they must not end the sweep before tp 1.
  const ProcessResult result =
      runexp(run_args(workspace, {"--axis", "tp=3,1", "--axis", "k=1..3", "--set", "sweep.max_failures=2"}));
  EXPECT_EQ(result.exit_code, 1) << described(result);
  EXPECT_EQ(workspace.summary().at("num_failed"), 4);
  EXPECT_EQ(workspace.summary().at("num_done"), 4);
}

TEST(Run, ASweepThatStopsNamesWhatItLeftOut) {
  const Workspace workspace;
  const ProcessResult result = runexp(run_args(workspace, {"--axis", "tp=3,1", "--set", "sweep.on_error=stop"}));
  EXPECT_EQ(result.exit_code, 1) << described(result);
  for (const json& cell : workspace.cells()) {
    if (cell.at("axes").at("tp") == 3) continue;
    EXPECT_EQ(cell.at("status"), "skipped");
    EXPECT_EQ(
        cell.at("reason"),
        "not run: the sweep stopped after 1 failure; \"runexp resume --keep-failed\" goes on without what failed");
  }
  const auto resumed = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"resume", "last", "--results", workspace.results().string()});
    EXPECT_EQ(runexp(args).exit_code, 1);
    return workspace.summary();
  };
  EXPECT_EQ(resumed({}).at("num_done"), 0) << "what failed fails again";
  const json summary = resumed({"--keep-failed"});
  EXPECT_EQ(summary.at("num_done"), 2);
  EXPECT_EQ(summary.at("num_failed"), 2);
}

TEST(Run, AResultsFolderThatCannotBeWrittenIsExitCode6) {
  const Workspace workspace;
  const std::string inside_file = (workspace.config() / "results").string();
  expect_failure(runexp({"run", workspace.config().string(), "--results", inside_file}), 6,
                 {workspace.config().string(), "Not a directory", "--results"});
  std::filesystem::path read_only = "/proc/paceline-results";  // root may write into any other folder
  if (geteuid() != 0) {
    read_only = workspace.folder() / "read-only";
    std::filesystem::create_directory(read_only);
    chmod(read_only.c_str(), 0555);
  }
  expect_failure(runexp({"run", workspace.config().string(), "--results", read_only.string()}), 6,
                 {read_only.string(), "--results"});
}

TEST(Run, AFileInTheWayOfLatestIsNamedAndKept) {
  const Workspace workspace;
  std::filesystem::create_directory(workspace.results());
  write_file(workspace.results() / "latest", "mine");
  const ProcessResult result = runexp(run_args(workspace));
  EXPECT_EQ(result.exit_code, 6) << described(result);
  EXPECT_TRUE(holds(result.err, (workspace.results() / "latest").string() + ": exists and is no symbolic link"))
      << result.err;
  EXPECT_EQ(read_file(workspace.results() / "latest"), "mine");
}

TEST(Run, AClosedStdoutIsNoCrash) {
  const Workspace workspace;
  Process process(runexp_argv(run_args(workspace)),
                  {.folder = kSource, .environment = {}, .timeout_s = 20 * time_factor(), .streams = Streams::pipes});
  process.close_stdout();
  const ProcessResult result = process.finish();
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_EQ(workspace.summary().at("status"), "done");
}

TEST(Run, PathsWithSpacesQuotesAndANewlineWork) {
  const Workspace workspace("a b\n\"c\" 'd' ü");
  const ProcessResult result = runexp(run_args(workspace));
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_EQ(workspace.summary().at("status"), "done");
  expect_failure(runexp({"run", (workspace.folder() / "none.json").string()}), 2, {"none.json"});
}

TEST(Run, ATerminalGetsALiveRegionUnlessNoColorOrPlainIsAsked) {
  const auto run = [](std::vector<std::string> environment, std::vector<std::string> more = {}) {
    const Workspace workspace;
    environment.insert(environment.end(), {"CI", "TERM=xterm-256color"});
    const ProcessResult result =
        runexp(run_args(workspace, std::move(more)),
               {.folder = {}, .environment = environment, .timeout_s = 20, .streams = Streams::terminal});
    EXPECT_EQ(result.exit_code, 0) << described(result);
    // INVALID timings on a busy machine; lines are broken
    EXPECT_TRUE(holds(result.out, "VALID: ") || holds(result.out, "INVALID timings: ")) << result.out;
    return result.out;
  };
  EXPECT_TRUE(holds(run({"NO_COLOR"}), "\x1b["));
  EXPECT_FALSE(holds(run({"NO_COLOR=1"}), "\x1b"));
  const std::string plain = run({"NO_COLOR"}, {"--ui", "plain"});
  EXPECT_TRUE(holds(plain, "[2/2] done")) << plain;
  EXPECT_FALSE(holds(plain, "\x1b[J")) << plain;
}

TEST(Run, LocaleTimeZoneAndNoColorChangeNoNumber) {
  const Workspace workspace;
  const ProcessResult result =
      runexp(run_args(workspace),
             {.folder = {},
              .environment = {"LC_ALL=de_DE.UTF-8", "LANG=de_DE.UTF-8", "TZ=Asia/Kathmandu", "NO_COLOR=1"},
              .timeout_s = 20,
              .streams = Streams::pipes});
  ASSERT_EQ(result.exit_code, 0) << described(result);
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  const std::vector<std::string> rows = lines_of(read_file(workspace.results() / "latest/summary.csv"));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[0].starts_with("id,status,tp,pp,proposer,variant,num_speculative_tokens,")) << rows[0];
  for (const std::string& row : rows)
    EXPECT_EQ(std::count(row.begin(), row.end(), ','), std::count(rows[0].begin(), rows[0].end(), ',')) << row;
  const json summary = workspace.summary();
  EXPECT_TRUE(summary.at("started_at").get<std::string>().ends_with("Z"));
  EXPECT_EQ(summary.at("cells")[1].at("output_hashes").size(), 1u);
  const Workspace plain;
  ASSERT_EQ(runexp(run_args(plain)).exit_code, 0);
  EXPECT_EQ(plain.summary().at("config_hash"), summary.at("config_hash"));
  EXPECT_EQ(plain.summary().at("cells")[1].at("output_hashes"), summary.at("cells")[1].at("output_hashes"));
}

}  // namespace
}  // namespace paceline::test
