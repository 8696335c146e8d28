#pragma once
// What an engine takes: a request is checked against it before it reaches the engine, on any thread.

#include <cstdint>
#include <span>

#include "engine/sampling.h"

namespace paceline {

/// Of one engine; the same as long as it lives.
struct RequestLimits {
  int vocab_size = 0;
  int max_model_len = 0;  // prompt and output tokens together
  int block_size = 0;     // tokens of a KV block
  int num_blocks = 0;     // of the pool

  /// Output tokens that the request may have: params.max_tokens, cut to what max_model_len leaves.
  /// Throws Error(usage) when the prompt is empty, holds an id outside the vocabulary or does not fit max_model_len,
  /// when max_tokens is below 1, when an edit of logits or a number of logprobs is outside its range (SamplingParams),
  /// or when the request can never fit the KV pool.
  int output_room(std::span<const int32_t> prompt, const SamplingParams& params) const;
};

}  // namespace paceline
