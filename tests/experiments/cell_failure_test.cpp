// Exceptions of every kind in a cell, thrown where a repetition begins, cost that cell and no other.

#include <functional>
#include <map>
#include <new>
#include <system_error>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/run/runner.h"
#include "tests/experiments/config_files.h"
#include "tests/support/holds.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

using test::holds;

/// Shows nothing; throws at the start of the repetitions of some cells.
class ThrowingProgress : public Progress {
 public:
  std::map<std::string, std::function<void()>> throws;  // by the cell's id

  void begin(const std::string&, int, int) override {}
  void phase(const std::string&) override {}
  void repetition_started(const std::string& cell, int, int) override {
    if (const auto found = throws.find(cell); found != throws.end()) found->second();
  }
  void update(const ProgressUpdate&) override {}
  void repetition_finished() override {}
  void cell_finished(const ProgressCell&) override {}
  void message(const std::string&) override {}
  void finished(const std::string&, const std::string&, int) override {}
  void end() override {}
};

class CellFailure : public testing::Test {
 protected:
  LoadedConfig loaded() const {
    const std::string configs = (source_dir() / "configs").string();
    return files_.load("{\"extends\": [\"" + configs + "/base/defaults.json\", \"" + configs +
                       "/workloads/reading_qa.json\"], \"name\": \"tiny\", \"workload\": {\"requests\": 1}, "
                       "\"sampling\": {\"max_tokens\": 4}, \"engine\": {\"backend\": \"cpu\"}, "
                       "\"measure\": {\"repetitions\": 2, \"warmup_requests\": 0}, \"sweep\": {\"axes\": "
                       "{\"speculation.proposer\": [\"none\", \"ngram\"], \"k\": [1, 2, 3, 4]}}}");
  }
  RunOutcome run(Progress& progress, std::optional<ResumeOptions> resume = {}) const {
    return run_experiment(loaded(), progress,
                          {.results_root = files_.folder() / "results", .resume = std::move(resume)});
  }

  ConfigFiles files_;
};

const CellResult& cell_of(const RunOutcome& outcome, const std::string& id) {
  for (const CellResult& cell : outcome.result.cells)
    if (cell.id == id) return cell;
  throw std::runtime_error("no cell " + id);
}

TEST_F(CellFailure, AnyExceptionFailsItsCellAndResumeGoesOnBehindIt) {
  ThrowingProgress progress;
  progress.throws["tp1_pp1_ngram_k1_c1"] = [] { throw std::bad_alloc(); };
  progress.throws["tp1_pp1_ngram_k2_c1"] = [] { EXPECT_TRUE(nlohmann::json::parse("{").is_null()); };
  progress.throws["tp1_pp1_ngram_k3_c1"] = [] { throw std::out_of_range("index 7"); };
  const auto expect_three_failed = [&](const RunOutcome& outcome) {
    EXPECT_EQ(outcome.exit_code, ExitCode::failed_cells);
    EXPECT_TRUE(holds(cell_of(outcome, "tp1_pp1_ngram_k1_c1").reason, "out of memory; lower engine.kv_cache"));
    EXPECT_TRUE(holds(cell_of(outcome, "tp1_pp1_ngram_k2_c1").reason, "not foreseen: [json.exception"));
    EXPECT_EQ(cell_of(outcome, "tp1_pp1_ngram_k3_c1").reason, "an error that was not foreseen: index 7");
    for (const int k : {1, 2, 3})
      EXPECT_EQ(cell_of(outcome, fmt::format("tp1_pp1_ngram_k{}_c1", k)).status, CellStatus::failed);
    for (const char* const id : {"tp1_pp1_none_c1", "tp1_pp1_ngram_k4_c1"}) {
      EXPECT_EQ(cell_of(outcome, id).status, CellStatus::done) << id;
      EXPECT_EQ(cell_of(outcome, id).repetitions.size(), 2u) << id;
    }
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(outcome.result.folder) / "report.html"));
  };
  const RunOutcome first = run(progress);
  expect_three_failed(first);
  expect_three_failed(run(progress, ResumeOptions(first.result.folder)));  // they are tried again, and fail again
  progress.throws.clear();
  EXPECT_EQ(run(progress, ResumeOptions(first.result.folder)).exit_code, ExitCode::ok);
}

TEST_F(CellFailure, TheStoreAndAReaderThatHasGoneEndTheRun) {
  ThrowingProgress progress;
  progress.throws["tp1_pp1_ngram_k1_c1"] = [] { fail(ExitCode::store, "disk full"); };
  EXPECT_THROW(run(progress), Error);
  progress.throws["tp1_pp1_ngram_k1_c1"] = [] {
    throw std::system_error(std::make_error_code(std::errc::broken_pipe));
  };
  EXPECT_THROW(run(progress), std::system_error);
}

}  // namespace
}  // namespace paceline
