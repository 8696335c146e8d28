#pragma once
// A request on its way through the engine. Holds verified tokens only; drafts live in a Proposal beside it.

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cache/block_pool.h"
#include "engine/sampling_plan.h"

namespace paceline {

/// tokens:  [0 … num_prompt) prompt   [num_prompt … tokens.size()) verified output
/// The KV of all but the last token may be in the cache (BlockPool::cached says how many are).
struct Sequence {
  SeqId id = 0;
  int64_t key = 0;            // the caller's name for the request, the same in every run of its workload; 0: none
  uint64_t prompt_group = 0;  // sequences of one number have the same prompt, which is computed once; 0: none
  int32_t slot = -1;          // row of SeqState on the ranks while running
  std::vector<int32_t> tokens;
  int num_prompt = 0;
  SamplingParams params;
  std::shared_ptr<SamplingPlan> plan = nullptr;  // of `tokens`; null: their logits stay as they are
  FinishReason finish = FinishReason::none;
  int num_preemptions = 0;
  std::vector<BlockHash> block_hashes;  // of its leading blocks, as BlockPool::attach has needed them

  int length() const { return int(tokens.size()); }
  int num_output() const { return length() - num_prompt; }
  int num_remaining() const { return params.max_tokens - num_output(); }
  bool finished() const { return finish != FinishReason::none; }
};

}  // namespace paceline
