#include "engine/request_limits.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "engine/cache/kv_slot.h"
#include "kernels/error.h"

namespace paceline {
namespace {

void check_range(const char* name, float value, float least, float most) {
  if (!(value >= least && value <= most))
    fail(ExitCode::usage, "{}: found {}, expected a number from {} to {}", name, value, least, most);
}

void check_edits(const SamplingParams& params, int vocab_size) {
  const auto check_token = [vocab_size](const char* name, int32_t token) {
    if (token < 0 || token >= vocab_size)
      fail(ExitCode::usage, "{}: token {} is outside the vocabulary of {}", name, token, vocab_size);
  };
  if (!(params.repetition_penalty > 0.0f && std::isfinite(params.repetition_penalty)))
    fail(ExitCode::usage, "repetition_penalty: found {}, expected a number above 0", params.repetition_penalty);
  check_range("presence_penalty", params.presence_penalty, -2.0f, 2.0f);
  check_range("frequency_penalty", params.frequency_penalty, -2.0f, 2.0f);
  std::unordered_set<int32_t> biased;
  for (const LogitBias& bias : params.logit_bias) {
    check_token("logit_bias", bias.token);
    check_range("logit_bias", bias.bias, -100.0f, 100.0f);
    if (!biased.insert(bias.token).second) fail(ExitCode::usage, "logit_bias: found token {} twice", bias.token);
  }
  for (const std::vector<int32_t>& word : params.bad_words) {
    if (word.empty()) fail(ExitCode::usage, "bad_words: found an entry of 0 tokens, expected at least 1");
    for (const int32_t token : word) check_token("bad_words", token);
  }
  if (params.min_tokens < 0 || params.min_tokens > params.max_tokens)
    fail(ExitCode::usage, "min_tokens: found {}, expected 0 to max_tokens, which is {}", params.min_tokens,
         params.max_tokens);
  if (params.logprobs.num_top < LogprobParams::kNone || params.logprobs.num_top > LogprobParams::kMostTop)
    fail(ExitCode::usage, "logprobs: found {}, expected at most {} of the likeliest tokens", params.logprobs.num_top,
         LogprobParams::kMostTop);
}

}  // namespace

int RequestLimits::output_room(std::span<const int32_t> prompt, const SamplingParams& params) const {
  if (prompt.empty()) fail(ExitCode::usage, "prompt: found 0 tokens, expected at least 1");
  if (int64_t(prompt.size()) >= max_model_len)
    fail(ExitCode::usage,
         "prompt: {} tokens do not fit max_model_len {} with room for one more; shorten the prompt or raise "
         "engine.scheduler.max_model_len",
         prompt.size(), max_model_len);
  if (params.max_tokens < 1) fail(ExitCode::usage, "max_tokens: found {}, expected at least 1", params.max_tokens);
  check_edits(params, vocab_size);
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= vocab_size)
      fail(ExitCode::usage, "prompt: token {} at position {} is outside the vocabulary of {}", prompt[i], i,
           vocab_size);
  }
  const int num_prompt = int(prompt.size());
  const int room = std::min(params.max_tokens, max_model_len - num_prompt);
  const int blocks = kv_blocks(num_prompt + room, block_size);
  if (blocks > num_blocks) {
    fail(ExitCode::usage,
         "request of {} prompt + {} output tokens needs {} KV blocks, the pool has {} ({} tokens); raise "
         "engine.kv_cache.memory_fraction or lower max_tokens",
         num_prompt, room, blocks, num_blocks, num_blocks * block_size);
  }
  return room;
}

}  // namespace paceline
