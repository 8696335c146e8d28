#pragma once
// What a request asks for.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/sampling_types.h"

namespace paceline {

/// Which tokens may follow a text: a grammar, a schema, a fixed set. Of one request. A function of its arguments: rows
/// of a window or a tree are asked for by their paths, some again after a preemption or for a draft model. What it
/// remembers of texts before is its own affair. Threads: one at a time, the engine's or a rank's.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// Sets the bits (mask_words) of the tokens that may follow `output` and then `drafts` in a mask of zeros. False, and
  /// the mask in any state: all may. So too where `drafts` break the rule: they are refused, and nobody looks at the
  /// row behind them. A mask without bits ends the request with numerical_error.
  virtual bool allow(std::span<const int32_t> output, std::span<const int32_t> drafts, std::span<uint32_t> mask) = 0;
  /// False where to follow drafts has cost much more than the text itself: for now it is better off without. From any
  /// thread.
  virtual bool takes_drafts() const { return true; }
};

struct LogitBias {
  int32_t token = 0;
  float bias = 0.0f;  // [-100, 100]
};

/// Of the logits as the model gives them, before edits, temperature and filters.
struct LogprobParams {
  static constexpr int kNone = -1, kMostTop = 20;
  int num_top = kNone;  // 0: of each token of the output; more: of so many of the likeliest in its place, too
  bool any() const { return num_top != kNone; }
};

struct SamplingParams {
  DrawParams sampler;  // temperature, top_k, top_p, min_p, seed
  int max_tokens = 128;
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids;  // besides the model's eos ids; ignore_eos does not switch these off

  // Edits of logits, in the order of kernels/logit_edits.h; as they stand here, none.
  float repetition_penalty = 1.0f;                   // > 0, of tokens of prompt and output
  float presence_penalty = 0.0f;                     // [-2, 2], of tokens of the output
  float frequency_penalty = 0.0f;                    // [-2, 2], for each time that a token is in the output
  std::vector<LogitBias> logit_bias = {};            // of different tokens
  std::vector<std::vector<int32_t>> bad_words = {};  // the last token of each may not follow the others. In prompt
                                                     // and output, as in Hugging Face; vLLM looks at the output alone
  int min_tokens = 0;                                // of output before eos or a stop token, ignore_eos or not;
                                                     // fewer where the constraint lets nothing else follow
  std::shared_ptr<TokenConstraint> constraint = nullptr;  // null: every token is allowed

  LogprobParams logprobs = {};

  bool edits_logits() const {
    return repetition_penalty != 1.0f || presence_penalty != 0.0f || frequency_penalty != 0.0f || min_tokens > 0 ||
           !logit_bias.empty() || !bad_words.empty() || constraint;
  }
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
