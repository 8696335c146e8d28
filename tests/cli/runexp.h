#pragma once
// Runs the real binary and judges what a user would see.

#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/holds.h"
#include "tests/support/paths.h"
#include "tests/support/run_process.h"

namespace paceline::test {

inline const std::filesystem::path kSource = source_dir();
inline const std::filesystem::path kRunexp = binary_dir() / "runexp";

/// argv of a call; the binary must be there: a test that cannot run it fails.
inline std::vector<std::string> runexp_argv(const std::vector<std::string>& args) {
  EXPECT_TRUE(std::filesystem::exists(kRunexp)) << kRunexp << " is not built";
  std::vector<std::string> argv = {kRunexp.string()};
  argv.insert(argv.end(), args.begin(), args.end());
  return argv;
}

/// Runs it in the repository's folder, unless told otherwise.
inline ProcessResult runexp(const std::vector<std::string>& args, ProcessOptions options = {}) {
  if (options.folder.empty()) options.folder = kSource;
  options.timeout_s *= time_factor();
  return run_process(runexp_argv(args), options);
}

inline std::string described(const ProcessResult& result) {
  return "exit code " + std::to_string(result.exit_code) + ", signal " + std::to_string(result.signal) + ", " +
         std::to_string(result.wall_s) + " s\nstdout: " + result.out.substr(0, 2000) +
         "\nstderr: " + result.err.substr(0, 2000);
}

inline void expect_success(const ProcessResult& result) {
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_FALSE(holds(result.err, "error")) << result.err;
}

/// One error and nothing else: "runexp: error: …" in one line, or complaints about a configuration, each in three lines
/// (where and what, the source line, a caret).
inline void expect_failure(const ProcessResult& result, int exit_code, const std::vector<std::string>& pieces) {
  SCOPED_TRACE(described(result));
  EXPECT_EQ(result.exit_code, exit_code);
  EXPECT_EQ(result.signal, 0);
  EXPECT_FALSE(result.timed_out);
  EXPECT_LT(result.wall_s, 2.0 * time_factor());
  EXPECT_EQ(result.out, "");
  for (const std::string& piece : pieces) EXPECT_TRUE(holds(result.err, piece)) << "missing: " << piece;
  EXPECT_FALSE(holds(result.err, "check `")) << "bad input must not reach a contract check";
  EXPECT_FALSE(holds(result.err, "json.exception")) << "the library's own words";
  ASSERT_TRUE(result.err.ends_with("\n"));
  const std::vector<std::string> lines = lines_of(result.err);
  ASSERT_FALSE(lines.empty());
  if (lines.front().starts_with("runexp: error: ")) {
    EXPECT_EQ(lines.size(), 1u);
    EXPECT_LT(lines.front().size(), 1000u);
    return;
  }
  ASSERT_EQ(lines.size() % 3, 0u) << "a complaint has three lines";
  for (size_t i = 0; i < lines.size(); i += 3) {
    EXPECT_TRUE(holds(lines[i], ": error: "));
    EXPECT_EQ(lines[i + 2].find_first_not_of(" \t") + 1, lines[i + 2].size()) << "expected a caret alone";
    EXPECT_TRUE(lines[i + 2].ends_with("^"));
  }
}

/// Whether some cell's log below `results` has this text: " s load ", " s pass ".
inline bool has_logged(const std::filesystem::path& results, const std::string& text) {
  std::error_code none;
  for (const auto& run : std::filesystem::directory_iterator(results, none)) {
    for (const auto& cell : std::filesystem::directory_iterator(run.path() / "cells", none)) {
      const std::filesystem::path log = cell.path() / "log.txt";
      if (std::filesystem::exists(log) && holds(read_file(log), text)) return true;
    }
  }
  return false;
}

/// A folder with a small experiment on the built-in models: 2 cells, 2 requests of at most 8 tokens, one repetition.
class Workspace {
 public:
  explicit Workspace(const std::string& subfolder = "") : folder_(subfolder.empty() ? dir_.path() : dir_ / subfolder) {
    std::filesystem::create_directories(folder_);
    write_file(config(), config_text());
  }
  static std::string config_text(const std::string& more = "") {
    const std::string configs = (kSource / "configs").string();
    return "{\n  \"extends\": [\"" + configs + "/base/defaults.json\", \"" + configs +
           "/workloads/reading_qa.json\"],\n"
           "  \"name\": \"tiny\",\n"
           "  \"workload\": { \"requests\": 2 },\n"
           "  \"sampling\": { \"max_tokens\": 8 },\n"
           "  \"measure\": { \"repetitions\": 1, \"warmup_requests\": 1 },\n"
           "  \"speculation\": { \"num_speculative_tokens\": 3 },\n" +
           more +
           "  \"sweep\": { \"axes\": { \"engine.parallel.tp\": [1], \"speculation.proposer\": [\"none\", \"ngram\"] } "
           "},\n}\n";
  }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path config() const { return folder_ / "tiny.json"; }
  std::filesystem::path results() const { return folder_ / "results"; }
  nlohmann::json summary() const { return nlohmann::json::parse(read_file(results() / "latest" / "summary.json")); }
  nlohmann::json cells() const { return summary().at("cells"); }

  /// A copy of a checkpoint folder below this one.
  std::filesystem::path copy_model(const std::filesystem::path& model, const std::string& name) const {
    std::filesystem::copy(model, folder_ / name);
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / name))
      std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    return folder_ / name;
  }
  /// The folder of the run that `process` does here, as soon as it has one with a cell at work.
  std::filesystem::path run_under_way(Process& process) const {
    for (int i = 0; i < 1000 && process.running(); ++i) {
      std::error_code none;
      for (const auto& entry : std::filesystem::directory_iterator(results(), none))
        if (!entry.is_symlink() && std::filesystem::exists(entry.path() / "cells")) return entry.path();
      process.wait(0.02);
    }
    return {};
  }

 private:
  TempDir dir_;
  std::filesystem::path folder_;
};

}  // namespace paceline::test
