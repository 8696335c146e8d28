#pragma once
// How long a sweep takes, before anything is loaded: at least what reading weights alone allows, and what a finished
// run of such cells took here.
//
//   step  = (bytes of the target's weights + passes · bytes of the draft model's), all ranks / read rate of the
//   machine;
//           passes: k, or the levels of a tree
//   cell  = turns · steps of a request · step; a turn is a batch of all sequences that can be in flight at once; of an
//           open loop, at least until its last request is sent
//
// A request of T tokens, as many as max_tokens and what its prompt leaves of max_model_len allow, takes T steps without
// speculation, and between T / (k + 1) (every draft accepted) and T (none) with it. Prompts, attention, KV and
// everything between steps come on top, so the true time lies above the low end wherever every request writes all its
// tokens. Weights that a step reads few rows of, an embedding which is not the head's matrix on the same rank, are left
// out.

#include <compare>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/results/reachable_concurrency.h"
#include "experiments/run/engine_load.h"
#include "experiments/run/plan/sweep.h"

namespace paceline {

/// Bytes per second at which all usable cores read `bytes` of memory; a few milliseconds. `bytes` is capped at 64 MiB:
/// beyond the caches more changes nothing.
double quick_read_rate(size_t bytes);

struct SecondsRange {
  double low = 0, high = 0;
};

/// Forecasts for the cells of a sweep on this machine: what several have in common is planned, and the machine
/// measured, once. The cells outlive it.
class Forecaster {
 public:
  /// auto_threads: as in limits_of().
  explicit Forecaster(const std::vector<Cell>& cells, int auto_threads = 0)
      : cells_(cells), auto_threads_(auto_threads) {}

  /// Of one of the cells, by reading alone. None on GPUs, whose memory is not read here, and of a cell whose load
  /// cannot be planned: plan_load() says why.
  std::optional<StepForecast> step(const Cell& cell);

 private:
  struct Sizes {
    double target = 0, draft = 0;  // bytes of weights over all ranks
  };
  const Sizes& sizes_of(const Cell& cell);

  const std::vector<Cell>& cells_;
  const int auto_threads_;
  std::map<std::pair<std::string, std::string>, Sizes> sizes_;  // by load and draft key
  std::map<std::string, double> read_rates_;                    // by target: one for all its placements
};

/// As the configuration has them.
ConcurrencyLimits concurrency_limits(const ExperimentConfig& config);

/// Batches one behind the other that a cell makes: of its repetitions, and of warming up, which is one however few
/// requests it has.
double num_turns(const ExperimentConfig& config);

/// Of one cell with all its repetitions. mean_output: tokens of a request at most (PlannedRequests::mean_output).
SecondsRange forecast(const ExperimentConfig& config, const StepForecast& step, double mean_output);

/// Tokens that a step must give on average so that a second model pays against the same placement without it, by
/// reading alone: 1 + passes of the second model · its bytes / target bytes. None without a second model, and where
/// others may draft in its place.
std::optional<double> break_even_length(const ExperimentConfig& config, const StepForecast& step);

/// What a cell has in common with another whose times say something about it: batches, drafts and the size of a model
/// each change them.
struct CellKind {
  std::string model;  // CellResult::model
  std::string load;   // CellResult::load
  std::string proposer;
  int concurrency = 0;
  auto operator<=>(const CellKind&) const = default;
};

/// A cell that was measured. A *turn* is what one batch takes from its prompts to its last token: a repetition of n
/// requests, `a` of them at once, makes n / a turns.
struct MeasuredCell {
  std::string id;
  CellKind kind;
  double turn_s = 0;  // time with requests in the engine: prefill, drafts as they were accepted, answers as they ended
  double mean_output = 0;  // tokens of a request
};

struct Calibration {
  std::string run;       // id
  double ratio = 1;      // time_ratio() of experiments/analysis/metrics/forecast_ratio.h
  int64_t requests = 0;  // of a repetition
  int max_tokens = 0;    // sampling.max_tokens
  int num_noisy = 0;     // of `cells`: disturbed (experiments/analysis/statistics/noise.h)
  std::vector<MeasuredCell> cells;
};

/// Whether a run of so many requests is to be believed less for a plan of `planned` ones: less than half as many.
constexpr bool is_much_smaller(int64_t requests, int64_t planned) { return 2 * requests < planned; }

/// A finished run below `root` on this machine (machine_id of environment.json) whose finished cells are of exactly
/// these kinds, among the newest 24: one without disturbed cells and not much smaller than `requests`, else with one of
/// these faults, else with both; of several the newest. Reads files that are short. None where there is no such run;
/// files that cannot be read are passed over.
std::optional<Calibration> find_calibration(const std::filesystem::path& root, const std::string& machine_id,
                                            const std::set<CellKind>& kinds, int64_t requests);

/// A cell of a plan.
struct PlannedCell {
  std::string id;
  CellKind kind;
  double num_turns = 0;    // num_turns() of its configuration
  double mean_output = 0;  // tokens of a request at most (PlannedRequests::mean_output)
  int max_tokens = 0;      // sampling.max_tokens
};

/// Time of a cell with warming up, by the cell of the same id, else by all of its kind, from the fastest to the
/// slowest. Longer outputs than the measured ones may take the more time up to the ratio of the two max_tokens.
/// REQUIRES a measured cell of the kind.
SecondsRange calibrated_forecast(const Calibration& calibration, const PlannedCell& planned);

}  // namespace paceline
