// Data sets and loads of other kinds, through the real binary.

#include <fmt/format.h>

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

using nlohmann::json;

std::vector<std::string> open_loop_args(const Workspace& workspace, std::vector<std::string> more) {
  more.insert(more.begin(), {"run", workspace.config().string(), "--results", workspace.results().string(), "--set",
                             "engine.backend=cpu", "--set", "workload.requests=8"});
  return more;
}

json records_of(const Workspace& workspace, const json& cell) {
  json records = json::array();
  const std::string folder =
      fmt::format("cells/{:03}_{}", cell.at("index").get<int>(), cell.at("id").get<std::string>());
  for (const std::string& line : lines_of(read_file(workspace.results() / "latest" / folder / "requests.jsonl")))
    records.push_back(json::parse(line));
  return records;
}

TEST(OpenLoopRun, TokensAreThoseOfTheClosedLoopAndArrivalsArePaired) {
  const Workspace closed;
  ASSERT_EQ(runexp(open_loop_args(closed, {})).exit_code, 0);
  const Workspace workspace;
  const ProcessResult result = runexp(open_loop_args(
      workspace, {"--set", "load.mode=gamma", "--set", "load.rate_per_s=60", "--set", "load.burstiness=0.5", "--set",
                  "measure.repetitions=2", "--set", "report.slo.ttft_ms=10000"}));
  SCOPED_TRACE(described(result));
  ASSERT_EQ(result.exit_code, 0);
  const json cells = workspace.cells();
  ASSERT_EQ(cells.size(), 2u);
  const json first = records_of(workspace, cells[0]), second = records_of(workspace, cells[1]);
  ASSERT_EQ(first.size(), 16u);
  double latest = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].at("arrival_ms"), second[i].at("arrival_ms")) << "both cells of a repetition get the same times";
    EXPECT_EQ(first[i].at("output"), second[i].at("output"));
    for (const json& record : {first[i], second[i]}) {
      EXPECT_GE(record.at("send_delay_ms").get<double>(), 0);
      EXPECT_GE(record.at("ttft_ms"), record.at("send_delay_ms")) << "times count from the intended moment";
    }
    latest = std::max(latest, first[i].at("arrival_ms").get<double>());
  }
  EXPECT_NE(first[0].at("arrival_ms"), first[8].at("arrival_ms")) << "repetitions have times of their own";
  for (const json& cell : cells) {
    EXPECT_EQ(cell.at("load"), "gamma 60/s burstiness 0.5");
    EXPECT_EQ(cell.at("output_hashes"), closed.cells()[0].at("output_hashes"));
    EXPECT_TRUE(cell.at("speedup").is_null());
    EXPECT_EQ(cell.at("goodput").at("share"), 1.0);
    EXPECT_TRUE(cell.at("open_loop").at("saturated").is_null()) << "8 requests say nothing";
    EXPECT_GT(cell.at("open_loop").at("offered_rate_per_s").get<double>(), 0);
  }
  EXPECT_EQ(cells[1].at("certificate").at("status"), "pass");
  EXPECT_GT(cells[1].at("decode_speedup").get<double>(), 0);
  EXPECT_EQ(closed.cells()[0].at("load"), "closed");
  EXPECT_TRUE(closed.cells()[0].at("open_loop").is_null());
  EXPECT_TRUE(holds(result.out, "1 cell lossless"));
  EXPECT_TRUE(holds(result.out, "open loop, gamma 60/s burstiness 0.5"));
}

TEST(OpenLoopRun, ATraceGivesTimesAndLimits) {
  const Workspace workspace;
  std::string trace;
  for (int i = 0; i < 8; ++i) trace += fmt::format("{{\"t_s\": {}, \"output_tokens\": {}}}\n", 5 + 0.02 * i, i + 1);
  write_file(workspace.folder() / "monday.jsonl", trace);
  const std::string path = (workspace.folder() / "monday.jsonl").string();
  const ProcessResult result =
      runexp(open_loop_args(workspace, {"--set", "load.mode=trace", "--set", "load.trace=" + path, "--set",
                                        "workload.order_seed=0", "--set", "sampling.ignore_eos=true"}));
  ASSERT_EQ(result.exit_code, 0) << described(result);
  const json records = records_of(workspace, workspace.cells()[1]);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_NEAR(records[i].at("arrival_ms").get<double>(), 20.0 * double(i), 0.001);
    EXPECT_EQ(records[i].at("output").size(), i + 1);
  }
  EXPECT_EQ(workspace.cells()[1].at("certificate").at("status"), "pass");
  const Workspace other;
  expect_failure(runexp(open_loop_args(other, {"--set", "load.mode=trace", "--set", "load.trace=" + path, "--set",
                                               "workload.requests=9"})),
                 3, {path, "has 8 arrivals, but workload.requests is 9"});
}

TEST(DatasetRun, BadRecordsAreCountedInTheSummary) {
  const Workspace workspace;
  const std::string path = (workspace.folder() / "mine.csv").string();
  write_file(path, "id,prompt,category,max_tokens\na,Say yes.,one,2\nb\nc,Say no.,two,\n");
  const std::vector<std::string> args = {"--set", "workload.dataset=" + path};
  expect_failure(runexp(open_loop_args(workspace, args)), 3, {path + ":3: has 1 field, the header has 4"});
  std::vector<std::string> skipping = args;
  skipping.insert(skipping.end(), {"--set", "workload.skip_bad=true", "--set", "sampling.ignore_eos=true"});
  const ProcessResult result = runexp(open_loop_args(workspace, skipping));
  ASSERT_EQ(result.exit_code, 0) << described(result);
  const json summary = workspace.summary();
  EXPECT_EQ(summary.at("workload").at("format"), "csv");
  EXPECT_EQ(summary.at("workload").at("prompts"), 2);
  EXPECT_EQ(summary.at("workload").at("bad_records"), 1);
  EXPECT_TRUE(holds(summary.at("workload").at("first_bad_record"), "mine.csv:3: has 1 field"));
  EXPECT_TRUE(holds(read_file(workspace.results() / "latest/summary.md"), "1 bad record was left out of the data set"));
  for (const json& record : records_of(workspace, summary.at("cells")[0]))
    EXPECT_EQ(record.at("output").size(), record.at("category") == "one" ? 2u : 8u);
  EXPECT_EQ(summary.at("cells")[1].at("by_category").size(), 2u);
}

TEST(DatasetRun, SpecBenchSaysWhereItsQuestionsAre) {
  const Workspace workspace;
  const std::string config = (kSource / "configs/spec_bench.json").string();
  const std::string absent = (workspace.folder() / "question.jsonl").string();
  const std::vector<std::string> args = {
      "run", config, "--profile", "quick", "--results", workspace.results().string(), "--set", "engine.backend=cpu"};
  expect_failure(runexp(args, {.folder = {}, .environment = {"SPEC_BENCH=" + absent}, .timeout_s = 60}), 3,
                 {absent, "dataset file not found", "github.com/hemingkx/Spec-Bench"});
  std::string questions;
  int id = 81;
  for (const char* const category : {"writing", "translation", "qa", "math_reasoning", "summarization", "rag"}) {
    for (int i = 0; i < 4; ++i, ++id)
      questions += fmt::format(
          "{{\"question_id\": {}, \"category\": \"{}\", \"turns\": [\"Repeat: the {} tower.\"]}}\n", id, category, id);
  }
  write_file(absent, questions);
  const ProcessResult result = runexp(args, {.folder = {}, .environment = {"SPEC_BENCH=" + absent}, .timeout_s = 60});
  SCOPED_TRACE(described(result));
  ASSERT_EQ(result.exit_code, 0);
  const json summary = workspace.summary();
  EXPECT_EQ(summary.at("workload").at("format"), "spec_bench");
  EXPECT_EQ(summary.at("num_done"), summary.at("num_cells"));
  for (const json& cell : summary.at("cells")) {
    ASSERT_EQ(cell.at("by_category").size(), 6u) << cell.at("id");
    EXPECT_EQ(cell.at("by_category")[1].at("category"), "mt_bench");
  }
  const std::string told = read_file(workspace.results() / "latest/summary.md");
  EXPECT_TRUE(holds(told, "Decode speedup by category, ")) << told;
}

}  // namespace
}  // namespace paceline::test
