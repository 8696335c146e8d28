#pragma once
// What a request asks for.

#include <cstdint>
#include <vector>

#include "kernels/sampling_types.h"

namespace paceline {

struct SamplingParams {
  DrawParams sampler;  // temperature, top_k, top_p, min_p, seed
  int max_tokens = 128;
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids;  // besides the model's eos ids; ignore_eos does not switch these off
};

/// failed: the engine, and with it all its requests.
enum class FinishReason : uint8_t { none, stop, length, cancelled, numerical_error, failed };

constexpr const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::none: return "none";
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::cancelled: return "cancelled";
    case FinishReason::numerical_error: return "numerical_error";
    case FinishReason::failed: return "failed";
  }
  return "?";
}

}  // namespace paceline
