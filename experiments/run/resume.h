#pragma once
// Going on with a recorded run: what of it still counts for the cells that are planned now.

#include <filesystem>
#include <memory>
#include <vector>

#include "experiments/results/files/files.h"
#include "experiments/results/files/read.h"
#include "experiments/results/files/store.h"
#include "experiments/run/plan/sweep.h"

namespace paceline {

/// What to do with cells that failed.
enum class FailedCells : uint8_t { keep, retry };

/// Whether another build of the program may go on.
enum class MixedBuilds : uint8_t { refuse, allow };

/// The lock is taken before the record is read: nobody else writes in between.
struct ResumeOptions {
  explicit ResumeOptions(const std::filesystem::path& folder)
      : lock(std::make_shared<RunLock>(folder)), recorded(read_record(folder)) {}

  std::shared_ptr<RunLock> lock;
  RecordedRun recorded;
  FailedCells failed = FailedCells::retry;
  int failures_accepted = 0;  // failed cells that are kept on purpose: sweep.max_failures counts those beyond them
  MixedBuilds mixed = MixedBuilds::refuse;
  Restart restart = Restart::no;
};

/// Fingerprints of the files that decide the cells' numbers: models, shapes, data set.
nlohmann::json inputs_of(const std::vector<Cell>& cells);

/// Throws Error(usage) that names everything in which `run` (planned now) is not the recorded one: model and data
/// files, the program. The cells may differ.
void check_can_resume(const ResumeOptions& resume, const RunResult& run);

/// Gives the cells of `run` what was recorded for cells of the same identity: repetitions, what was found at loading,
/// evidence, failures. Takes over id, folder, start time, where values were written (but for what `run` has from
/// elsewhere than the folder's experiment.json) and, where builds are mixed, notes them in the environment.
/// Returns the cells whose record is to be forgotten: failed ones that are tried again.
std::vector<size_t> adopt_record(const ResumeOptions& resume, RunResult& run);

}  // namespace paceline
