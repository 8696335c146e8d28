#pragma once
// How long a sweep takes at least, before anything is loaded: what reading weights alone allows.
//
//   step  = (bytes of the target's weights + k · bytes of the draft model's), all ranks / read rate of the machine
//   cell  = turns · steps of a request · step; a turn is a batch of all sequences that can be in flight at once; of an
//           open loop, at least until its last request is sent
//
// A request of T tokens, as many as max_tokens and what its prompt leaves of max_model_len allow, takes T steps without
// speculation, and between T / (k + 1) (every draft accepted) and T (none) with it. Prompts, attention, KV and
// everything between steps come on top, so the true time lies above the low end wherever every request writes all its
// tokens. Weights that a step reads few rows of, an embedding which is not the head's matrix on the same rank, are left
// out.

#include <map>
#include <optional>
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

  /// Of one of the cells, by reading alone. None on GPUs, whose memory is not read here. Throws what plan_load()
  /// throws.
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
/// reading alone: 1 + passes of the second model · its bytes / target bytes. None without a second model.
std::optional<double> break_even_length(const ExperimentConfig& config, const StepForecast& step);

}  // namespace paceline
