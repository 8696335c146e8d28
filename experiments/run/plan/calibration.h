#pragma once
// What earlier runs say about forecasts: how long the passes of a cell took here.

#include <compare>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/config/config.h"
#include "experiments/run/plan/forecast.h"

namespace paceline {

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
