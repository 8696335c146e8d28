#include "experiments/run/plan/forecast.h"

#include <algorithm>
#include <cstring>

#include "experiments/run/runner.h"
#include "kernels/cpu/ceilings.h"
#include "kernels/cpu/cores.h"
#include "kernels/cpu/mapped_memory.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

double weight_bytes(const LoadPlan& plan) { return double(plan.memory.weight_bytes); }

/// Values of the embedding, or of the head.
double vocabulary_values(const ModelSpec& spec) { return double(spec.vocab_size) * spec.hidden_size; }

/// What a step looks up instead of reading: the embedding, unless its own rank has it as the head, too.
double lookup_bytes(const ModelSpec& spec, DType dtype, int num_stages) {
  return spec.tied_head && num_stages == 1 ? 0 : vocabulary_values(spec) * double(dtype_bytes(dtype));
}

/// Passes of the second model, and most drafts that a step keeps.
double num_levels(const ExperimentConfig& config) {
  if (!config.speculation.drafts()) return 0;
  return config.speculation.form().depth_of(config.speculation.num_speculative_tokens);
}

}  // namespace

ConcurrencyLimits concurrency_limits(const ExperimentConfig& config) {
  const SchedulerConfig& scheduler = config.engine.scheduler;
  const bool is_static = scheduler.batching == BatchingMode::static_turns;
  return {.requests = config.workload.requests,
          .concurrency = config.load.mode == LoadMode::closed ? config.load.concurrency : 0,
          .max_num_seqs = is_static ? scheduler.static_batch_size : scheduler.max_num_seqs};
}

double quick_read_rate(size_t bytes) {
  constexpr size_t kMost = size_t{64} << 20, kLeast = size_t{1} << 20;
  ThreadPool pool(usable_cores());
  const MappedMemory memory(std::clamp(bytes, kLeast, kMost));  // pages as weights have them
  std::memset(memory.data(), 1, memory.bytes());
  const ceilings::Region region{static_cast<const char*>(memory.data()), memory.bytes()};
  double best = 0;  // what another program disturbs is slower, never faster
  for (int round = 0; round < 3; ++round) best = std::max(best, ceilings::best_read_rate(pool, std::span(&region, 1)));
  return best;
}

const Forecaster::Sizes& Forecaster::sizes_of(const Cell& cell) {
  const auto key = std::pair(cell.load_key, cell.draft_key);
  if (const auto known = sizes_.find(key); known != sizes_.end()) return known->second;
  const LoadLimits limits = limits_of(cells_, cell.load_key, auto_threads_);
  Sizes sizes;
  ExperimentConfig plain = cell.config;
  plain.speculation.proposer = kNoProposer;
  const LoadPlan target = plan_load(plain, limits);
  sizes.target = weight_bytes(target) - lookup_bytes(target.target, target.dtype, cell.config.engine.parallel.pp);
  const SecondModelConfig* const second = cell.config.speculation.draft_model();
  if (cell.config.speculation.head()) {
    const LoadPlan both = plan_load(cell.config, limits);
    sizes.draft = double(eagle3_read_bytes(*both.head, both.draft_dtype));
  } else if (second && second->self) {
    sizes.draft = sizes.target;
  } else if (second) {
    const LoadPlan both = plan_load(cell.config, limits);
    sizes.draft = weight_bytes(both) - weight_bytes(target) - lookup_bytes(*both.draft, both.draft_dtype, 1);
  }
  return sizes_.emplace(key, sizes).first->second;
}

std::optional<StepForecast> Forecaster::step(const Cell& cell) {
  if (on_cuda(cell.config.engine)) return std::nullopt;
  const Sizes& sizes = sizes_of(cell);
  const std::string target = target_name(cell.config);
  auto rate = read_rates_.find(target);
  if (rate == read_rates_.end()) rate = read_rates_.emplace(target, quick_read_rate(size_t(sizes.target))).first;
  StepForecast out{.target_bytes = sizes.target, .draft_bytes = sizes.draft, .read_bytes_s = rate->second};
  if (sizes.target <= 0 || rate->second <= 0) return std::nullopt;
  out.step_ms = (sizes.target + num_levels(cell.config) * sizes.draft) / rate->second * 1e3;
  return out;
}

double num_turns(const ExperimentConfig& config) {
  ConcurrencyLimits limits = concurrency_limits(config);
  const double of_repetition = double(limits.requests) / double(reachable_concurrency(limits));
  limits.requests = std::clamp<int64_t>(config.measure.warmup_requests, 0, limits.requests);
  const double of_warm_up = limits.requests == 0 ? 0 : double(limits.requests) / double(reachable_concurrency(limits));
  return config.measure.repetitions * of_repetition + of_warm_up;
}

SecondsRange forecast(const ExperimentConfig& config, const StepForecast& step, double mean_output) {
  const double all = num_turns(config) * step.step_ms / 1e3;
  return {.low = all * mean_output / (num_levels(config) + 1), .high = all * mean_output};
}

std::optional<double> break_even_length(const ExperimentConfig& config, const StepForecast& step) {
  if (!config.speculation.second_model() || step.draft_bytes <= 0) return std::nullopt;
  return 1 + num_levels(config) * step.draft_bytes / step.target_bytes;
}

}  // namespace paceline
