// cells/<cell>/log.txt: what a reader finds there, and where it is named.

#include <csignal>
#include <elf.h>
#include <fstream>
#include <link.h>
#include <regex>

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

fs::path log_of(const Workspace& workspace, const std::string& cell) {
  for (const auto& run : fs::directory_iterator(workspace.results())) {
    if (run.is_symlink()) continue;
    for (const auto& entry : fs::directory_iterator(run.path() / "cells"))
      if (entry.path().filename().string().ends_with(cell)) return entry.path() / "log.txt";
  }
  return {};
}

std::vector<std::string> logged_args(const Workspace& workspace, const std::vector<std::string>& more) {
  std::vector<std::string> args = {"run", workspace.config().string(), "--results", workspace.results().string()};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

/// False for a program that is linked to a fixed place, as sanitizer builds are.
bool can_lie_anywhere(const fs::path& program) {
  ElfW(Ehdr) header = {};
  std::ifstream(program, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof(header));
  return header.e_type == ET_DYN;
}

TEST(CellLog, HasTheLoadAndThePassesWithTheirTimes) {
  const Workspace workspace;
  const ProcessResult result = runexp(logged_args(workspace, {"--ui", "quiet", "--set", "measure.repetitions=2"}));
  ASSERT_EQ(result.exit_code, 0) << described(result);
  const std::vector<std::string> lines = lines_of(read_file(log_of(workspace, "ngram_k3_c1")));
  ASSERT_EQ(lines.size(), 4u) << read_file(log_of(workspace, "ngram_k3_c1"));
  EXPECT_TRUE(std::regex_match(lines[0], std::regex(R"(20\d\d-.*Z process [0-9]+, started .* s earlier)")));
  EXPECT_TRUE(std::regex_match(
      lines[1], std::regex(R"(\+\d+\.\d{3} s load    .*target-7m on tp1 pp1, \d+ threads? a rank, in .* of KV)")))
      << lines[1];
  EXPECT_TRUE(
      std::regex_match(lines[3], std::regex(R"(\+\d+\.\d{3} s pass    repetition 2: .* s, \d+ output tokens.*)")))
      << lines[3];
}

TEST(CellLog, AFailedCellNamesItEverywhere) {
  const Workspace workspace;
  const ProcessResult result =
      runexp(logged_args(workspace, {"--ui", "plain", "--set", "sweep.cell_timeout_s=0.0001"}));
  SCOPED_TRACE(described(result));
  EXPECT_EQ(result.exit_code, 1);
  const fs::path log = log_of(workspace, "none_c1");
  const std::string text = read_file(log);
  EXPECT_TRUE(holds(text, " failed  the pass took longer than 0.0001 s (sweep.cell_timeout_s)")) << text;
  EXPECT_TRUE(holds(result.err, "; log: " + log.string())) << result.err;
  const ProcessResult shown = runexp({"show", "last", "tp1_pp1_none_c1", "--results", workspace.results().string()});
  EXPECT_TRUE(holds(shown.out, "  log           ")) << shown.out;
  EXPECT_TRUE(holds(shown.out, "the pass took longer than")) << shown.out;
  const std::string page = read_file(workspace.results() / "latest/report.html");
  EXPECT_TRUE(holds(page, "<details><summary>Log of tp1_pp1_none_c1")) << "the report has the log's end";
  EXPECT_TRUE(holds(page, " failed  the pass took longer than 0.0001 s"));
  const json cell = workspace.cells().at(0);
  EXPECT_EQ(cell.at("log"), "cells/" + log.parent_path().filename().string() + "/log.txt");
  const ProcessResult again = runexp(logged_args(workspace, {"--ui", "jsonl", "--set", "sweep.cell_timeout_s=0.0001"}));
  int named = 0;
  for (const std::string& line : lines_of(again.out)) {
    const json event = json::parse(line);
    if (event.at("event") == "cell" && fs::exists(event.at("log").get<std::string>())) ++named;
  }
  EXPECT_EQ(named, 2) << again.out;
}

TEST(CellLog, WarningsOfTheLoadAreThere) {
  const Workspace workspace;
  const fs::path model = workspace.copy_model(kSource / "configs/models/target-7m", "model");
  json config = json::parse(read_file(model / "config.json"));
  config["auto_map"] = {{"AutoModel", "evil.Model"}};
  write_file(model / "config.json", config.dump());
  const ProcessResult result = runexp(logged_args(
      workspace, {"--ui", "quiet", "--set", "engine.target.path=" + model.string(), "--only", "proposer==none"}));
  ASSERT_EQ(result.exit_code, 0) << described(result);
  const std::string text = read_file(log_of(workspace, "none_c1"));
  EXPECT_TRUE(holds(text, " s warning ")) << text;
  EXPECT_TRUE(holds(text, "auto_map")) << text;
}

TEST(CellLog, HoldsWhatAKilledProcessSaidLast) {
  const Workspace workspace;
  // Long passes: between two of them no cell is worked on, and a crash there belongs to none.
  Process process(runexp_argv(logged_args(workspace, {"--ui", "plain", "--set", "measure.repetitions=100", "--set",
                                                      "workload.requests=1000", "--set", "sampling.max_tokens=96"})),
                  {.folder = kSource, .environment = {}, .timeout_s = 60 * time_factor(), .streams = Streams::pipes});
  const fs::path run = workspace.run_under_way(process);
  process.wait(0.3 * time_factor());
  ASSERT_TRUE(process.running());
  const int child = std::stoi(read_file(run / "lock"));
  ASSERT_EQ(kill(child, SIGABRT), 0);
  EXPECT_TRUE(process.wait_for_stderr("trying again (2 of 3); log: ", 20 * time_factor()));
  process.send(SIGINT);
  process.wait(0.2 * time_factor());
  process.send(SIGINT);
  const ProcessResult result = process.finish();
  SCOPED_TRACE(described(result));
  std::string text;
  for (const char* const cell : {"none_c1", "ngram_k3_c1"}) {
    const fs::path log = log_of(workspace, cell);
    if (fs::exists(log)) text += read_file(log);
  }
  EXPECT_TRUE(holds(text, fmt::format(" crash   process {} was killed by signal 6 (Aborted); its last words: signal 6 "
                                      "(SIGABRT)\n",
                                      child)))
      << text;
  // The program's frames: offsets where it can lie anywhere, else addresses, which are enough there.
  const std::regex frame(can_lie_anywhere(kRunexp) ? R"(\n    .*runexp\(.*\+0x[0-9a-f]+\) ?\[0x)"
                                                   : R"(\n    .*runexp\[0x[0-9a-f]+\])");
  EXPECT_TRUE(std::regex_search(text, frame)) << text;
}

}  // namespace
}  // namespace paceline::test
