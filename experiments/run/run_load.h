#pragma once
// The cells of one engine load: their repetitions, by turns, and what is recorded of them.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/results/files/cell_log.h"
#include "experiments/results/files/store.h"
#include "experiments/run/measure/visits.h"
#include "experiments/run/runner.h"
#include "experiments/workload/arrivals.h"
#include "experiments/workload/requests.h"

namespace paceline {

/// The run under way: what its steps share. Single-threaded, but for what `options.interrupts` reads.
struct SweepUnderWay {
  const LoadedConfig& loaded;
  Progress& progress;
  const RunOptions& options;
  std::vector<Cell> cells;
  RunResult run;
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<CellLog> log;  // as long as folder
  std::vector<Prompt> prompts;
  ArrivalPlan arrivals;
  std::map<PromptEncoding, std::vector<EncodedPrompt>> encoded;
  std::map<std::pair<std::vector<std::string>, Numerics>, DeviceCeilings> gpu_ceilings;  // by the ranks' devices
  std::map<std::string, std::any> kept_by_proposers;                                     // LoadLimits::kept
  int num_failures = 0;
  int64_t next_turn = 0;  // RepetitionResult::turn
  int process = 0;        // RepetitionResult::process
  bool stop = false;
  bool told_to_wait = false;     // after the first interrupt
  bool told_of_lengths = false;  // that outputs end at max_model_len
  bool wants_new_process = false;

  int interrupts() const;
  std::string reason_of_stop() const;
  /// When a repetition ended, on the wall and among all that the run has, and in which process.
  void stamp(RepetitionResult& repetition);
  void leave_out(CellResult& cell) const;
  /// Asked between steps: true ends the pass under way.
  bool stop_now();
  /// One interrupt ends the sweep after the pass under way.
  void heed_interrupts();
  /// Records the failure and counts it.
  void fail_cell(size_t cell, const std::string& reason);
  void record_failure(size_t cell, const std::string& reason);
  /// Stops the sweep where sweep.max_failures or on_error says so.
  void count_failure();
};

/// The sweep's prompts for one model, encoded once for all its loads. Throws Error(usage) where one does not fit
/// `limit`.
const std::vector<EncodedPrompt>& encode_for(SweepUnderWay& sweep, const ExperimentConfig& config,
                                             const Tokenizer& tokenizer, const LengthLimit& limit);

/// Whether the cell lacks repetitions that it is to have.
bool lacks_repetitions(const SweepUnderWay& sweep, size_t index);

/// Cells in fast numerics that are to be compared and whose logits `load_cells`, of one load, can check: of the cell
/// and its reference, the one that ran last is among these. A cell of another load that is to be visited again waits
/// for that.
std::vector<size_t> cells_to_check(const SweepUnderWay& sweep, const std::vector<size_t>& load_cells);

/// Loading and warming up again as often as it takes, over the measuring of a load: above this it is not done, and
/// repetitions stay together.
inline constexpr double kMostReloading = 0.1;

/// The cells of one load that lack repetitions: warm up each, then repetitions in random blocks, so that drift spreads
/// evenly. `planned`: all cells of the load, in plan order. A cell that fails, by whatever exception, is
/// recorded; throws for the results store only (and where nobody reads what the run prints). Returns whether the load
/// is to be visited again, as its cells lack repetitions, and nothing stopped the sweep.
bool run_load(SweepUnderWay& sweep, const std::vector<size_t>& planned, const Visit& visit);

/// Ends cells of a load that is not visited again, as the sweep was stopped: they keep the repetitions that they have.
void finish_load(SweepUnderWay& sweep, const std::vector<size_t>& planned);

}  // namespace paceline
