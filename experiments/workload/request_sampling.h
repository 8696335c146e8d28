#pragma once
// How each request of a workload is sampled.

#include <algorithm>
#include <optional>

#include "engine/sampling.h"
#include "experiments/config/config.h"

namespace paceline {

/// The cell's sampling section, seeded for its first request of the first repetition.
inline SamplingParams sampling_params(const SamplingConfig& config) {
  SamplingParams params;
  params.sampler = {.temperature = float(config.temperature),
                    .top_k = config.top_k,
                    .top_p = float(config.top_p),
                    .min_p = float(config.min_p),
                    .seed = uint64_t(config.seed)};
  params.max_tokens = config.max_tokens;
  params.ignore_eos = config.ignore_eos;
  for (int64_t id : config.stop_token_ids) params.stop_token_ids.push_back(int32_t(id));
  return params;
}

/// Those for the first of `num_requests` in a repetition: with config.redraw each draws anew, so that the spread of
/// repetitions is also that of lengths and of drafts that are kept. As arrivals, draws are the same in all cells.
inline SamplingParams sampling_of_repetition(const SamplingConfig& config, int repetition, size_t num_requests) {
  SamplingParams params = sampling_params(config);
  if (config.redraw) params.sampler.seed += uint64_t(repetition) * num_requests;
  return params;
}

/// That of the request that is submitted as number `index`: requests with equal prompts must not share their noise.
inline SamplingParams sampling_of_request(SamplingParams of_cell, size_t index) {
  of_cell.sampler.seed += index;
  return of_cell;
}

/// The cell's parameters for a prompt that may have its own limit, and may be one of a trace that has.
inline SamplingParams sampling_of_prompt(const SamplingParams& of_cell, size_t index, std::optional<int> prompt_limit,
                                         std::optional<int> trace_limit) {
  SamplingParams params = sampling_of_request(of_cell, index);
  for (const std::optional<int> limit : {prompt_limit, trace_limit}) {
    if (limit) params.max_tokens = std::min(params.max_tokens, *limit);
  }
  return params;
}

}  // namespace paceline
