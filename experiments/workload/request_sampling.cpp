#include "experiments/workload/request_sampling.h"

namespace paceline {

SamplingParams sampling_params(const SamplingConfig& config) {
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

SamplingParams sampling_of_request(SamplingParams of_cell, size_t index) {
  of_cell.sampler.seed += index;
  return of_cell;
}

}  // namespace paceline
