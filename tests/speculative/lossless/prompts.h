#pragma once
// Prompts as token ids: the built-in workloads for the trained models, text-free ones for the goldens.

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::test {

/// configs/workloads/<name>.jsonl with target-7m's chat template and tokenizer applied; at most `limit`, in file order.
std::vector<std::vector<int32_t>> workload_prompts(const std::string& name, int limit);

/// `limit` prompts of 1 … max_len random ids below vocab_size; every third repeats a phrase, so that lookup finds some.
std::vector<std::vector<int32_t>> random_prompts(int limit, int max_len, int vocab_size, uint64_t seed);

}  // namespace paceline::test
