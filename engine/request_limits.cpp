#include "engine/request_limits.h"

#include <algorithm>

#include "kernels/error.h"

namespace paceline {

int RequestLimits::output_room(std::span<const int32_t> prompt, const SamplingParams& params) const {
  if (prompt.empty()) fail(ExitCode::usage, "prompt: found 0 tokens, expected at least 1");
  if (int64_t(prompt.size()) >= max_model_len)
    fail(ExitCode::usage,
         "prompt: {} tokens do not fit max_model_len {} with room for one more; shorten the prompt or raise "
         "engine.scheduler.max_model_len",
         prompt.size(), max_model_len);
  if (params.max_tokens < 1) fail(ExitCode::usage, "max_tokens: found {}, expected at least 1", params.max_tokens);
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= vocab_size)
      fail(ExitCode::usage, "prompt: token {} at position {} is outside the vocabulary of {}", prompt[i], i,
           vocab_size);
  }
  const int num_prompt = int(prompt.size());
  const int room = std::min(params.max_tokens, max_model_len - num_prompt);
  const int blocks = (num_prompt + room + block_size - 1) / block_size;
  if (blocks > num_blocks) {
    fail(ExitCode::usage,
         "request of {} prompt + {} output tokens needs {} KV blocks, the pool has {} ({} tokens); raise "
         "engine.kv_cache.memory_fraction or lower max_tokens",
         num_prompt, room, blocks, num_blocks, num_blocks * block_size);
  }
  return room;
}

}  // namespace paceline
