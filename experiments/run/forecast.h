#pragma once
// How long a sweep takes at least, before anything is loaded: what reading weights and arithmetic alone allow.
//
//   step       = (bytes of the target's weights + k · bytes of the draft model's), all ranks / read rate of the machine
//   reading    = passes · requests / sequences at once · steps of a request · step
//   arithmetic = passes · (tokens · operations of a row + prompt tokens · operations of a row without the head) / rate
//   cell       = the longer of the two; of an open loop, at least until its last request is sent
//
// A request of T tokens takes T steps without speculation, and between T / (k + 1) (every draft accepted) and T (none)
// with it. Attention, KV and everything between steps come on top, so the true time lies above the low end wherever
// every request writes all its tokens. Weights that a step reads few rows of, an embedding which is not the head's
// matrix on the same rank, are left out.

#include <map>
#include <optional>
#include <vector>

#include "experiments/results/reachable_concurrency.h"
#include "experiments/run/engine_load.h"
#include "experiments/run/sweep.h"
#include "experiments/workload/dataset.h"

namespace paceline {

/// Bytes per second at which all usable cores read `bytes` of memory; a few milliseconds. `bytes` is capped at 64 MiB:
/// beyond the caches more changes nothing.
double quick_read_rate(size_t bytes);

/// Floating-point operations per second of all usable cores on weights of `dtype`; a few milliseconds. 0 where this
/// processor lacks the instructions they are measured with.
double quick_arithmetic_rate(DType dtype);

struct SecondsRange {
  double low = 0, high = 0;
};

/// What a row of a step computes, in floating-point operations over all ranks.
struct RowWork {
  double target = 0;
  double prompt = 0;      // of the target without its head, as of all tokens of a prompt but the last
  double draft = 0;       // of the draft model; 0: none
  double per_second = 0;  // of all usable cores; 0: not known
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

  /// Of one of the cells, not on GPUs. Throws what plan_load() throws.
  RowWork row_work(const Cell& cell);

 private:
  struct Sizes {
    double target = 0, draft = 0;  // bytes of weights over all ranks
    RowWork row;                   // without the rate
    DType dtype = DType::bf16;
  };
  const Sizes& sizes_of(const Cell& cell);

  const std::vector<Cell>& cells_;
  const int auto_threads_;
  std::map<std::pair<std::string, std::string>, Sizes> sizes_;  // by load and draft key
  std::map<std::string, double> read_rates_;                    // by target: one for all its placements
  std::map<DType, double> arithmetic_rates_;
};

/// As the configuration has them.
ConcurrencyLimits concurrency_limits(const ExperimentConfig& config);

/// Of one cell with all its repetitions, by reading alone.
SecondsRange forecast(const ExperimentConfig& config, const StepForecast& step);

/// The same by arithmetic alone; prompt_tokens: least_prompt_tokens() of its requests. 0 where the rate is not known.
SecondsRange arithmetic_forecast(const ExperimentConfig& config, const RowWork& row, double prompt_tokens);

/// Tokens that the target must compute for these prompts, a token taken as five bytes: few texts have fewer. With the
/// prefix cache, what several prompts begin with counts once.
double least_prompt_tokens(const std::vector<Prompt>& requests, bool prefix_caching);

/// Tokens that a step must give on average so that a draft model pays against the same placement without one, by
/// reading alone: 1 + k · draft bytes / target bytes. Verifying k + 1 rows costs more than one row where arithmetic
/// counts, so the true one lies higher. None for other proposers, whose cost is not reading.
std::optional<double> break_even_length(const ExperimentConfig& config, const StepForecast& step);

}  // namespace paceline
