#pragma once
// How each request of a workload is sampled.

#include "engine/sampling.h"
#include "experiments/config/config.h"

namespace paceline {

/// The cell's sampling section, seeded for its first request.
SamplingParams sampling_params(const SamplingConfig& config);

/// That of the request that is submitted as number `index`: requests with equal prompts must not share their noise.
SamplingParams sampling_of_request(SamplingParams of_cell, size_t index);

}  // namespace paceline
