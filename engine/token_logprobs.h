#pragma once
// Log probabilities of a token and of the likeliest tokens in its place.

#include <cstdint>
#include <vector>

namespace paceline {

struct TopLogprob {
  int32_t token = 0;
  float logprob = 0.0f;
};

struct TokenLogprobs {
  float logprob = 0.0f;         // of the token itself; -Inf where its logit is
  std::vector<TopLogprob> top;  // the likeliest first, equal logits by id; fewer where no more are above -Inf
};

/// The log-softmax of a row, which is not cut by temperature or filters. logit: [vocab_size], host memory, with a
/// maximum (RowMax). Host code for all devices, so they have the same bits: a pass over the row, which a GPU's rows
/// must be downloaded for. Error: about one unit of the last place of a float, or 1e-6 where that is more.
TokenLogprobs logprobs_of(const float* logit, int32_t vocab_size, int32_t token, int num_top);

}  // namespace paceline
