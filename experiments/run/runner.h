#pragma once
// Runs an experiment: cells grouped by engine load, repetitions interleaved, certificates, results.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "experiments/results/results.h"
#include "experiments/run/engine_load.h"
#include "experiments/run/plan/sweep.h"
#include "experiments/run/resume.h"
#include "experiments/ui/progress.h"

namespace paceline {

/// A GPU that faulted stays unusable for the process that met the fault, and a lost rank (engine/comm/rank_team.h)
/// stays in its process with the memory of its load.
enum class AfterDeviceError : uint8_t {
  new_ranks,    // go on with fresh ranks
  new_process,  // of these two: stop with RunOutcome::wants_new_process, for a caller that resumes in another process
};

struct RunOptions {
  std::filesystem::path results_root = "results";
  std::vector<std::string> argv;        // for the record
  std::function<int()> interrupts;      // how often the user has asked to stop; 1: finish the pass, 2: stop now
  std::function<int()> pauses;          // how often the process was stopped and went on: such a pass is measured again
  std::optional<ResumeOptions> resume;  // go on with this run, in its folder
  AfterDeviceError after_device_error = AfterDeviceError::new_ranks;
  std::function<void(const std::filesystem::path& folder)> on_folder;  // told once results go there; may be empty
};

struct RunOutcome {
  RunResult result;
  ExitCode exit_code = ExitCode::ok;
  std::string store_error;         // why the documents at the end are not whole; the journal is. Empty: they are
  bool wants_new_process = false;  // what is recorded is on disk, the rest is to be done by another process
};

/// Never throws for a cell that fails, by whatever exception: it is recorded and the sweep goes on (sweep.on_error,
/// max_failures). Throws for what concerns the whole run: dataset, results store, nothing to run.
RunOutcome run_experiment(const LoadedConfig& loaded, Progress& progress, const RunOptions& options);

/// Throws what is wrong with the tokenizer of the cell's draft model, where it has one of its own. Reads no weights.
void check_draft_vocabulary(const ExperimentConfig& config);

/// Threads, draft lengths and sequences that the cells of one load need.
/// auto_threads: what threads_per_rank: auto means; 0: what auto_threads_per_rank() says of this machine.
LoadLimits limits_of(const std::vector<Cell>& cells, const std::string& load_key, int auto_threads = 0);

}  // namespace paceline
