#include "engine/cache/memory_plan.h"

#include <algorithm>

#include "engine/util/bytes.h"
#include "kernels/error.h"

namespace paceline {
namespace {

double gib(size_t bytes) { return double(bytes) / kGiB; }

}  // namespace

std::string MemoryPlan::describe() const {
  std::string line = fmt::format(
      "weights {:.3f} GiB, workspace {:.3f} GiB, KV {:.3f} GiB target + {:.3f} GiB draft: {} blocks, {} tokens",
      gib(weight_bytes), gib(workspace_bytes), gib(target_kv_bytes), gib(draft_kv_bytes), num_blocks, kv_tokens);
  if (num_host_blocks > 0)
    line += fmt::format("; swap space {:.3f} GiB: {} blocks in host memory", gib(swap_bytes), num_host_blocks);
  return line;
}

MemoryPlan plan_memory(const MemoryPlanInput& input) {
  if (!(input.memory_fraction > 0.0 && input.memory_fraction <= 1.0))
    fail(ExitCode::usage, "engine.kv_cache.memory_fraction: found {}, expected a number in (0, 1]",
         input.memory_fraction);
  MemoryPlan plan{.weight_bytes = input.weight_bytes, .workspace_bytes = input.workspace_bytes};
  plan.num_host_blocks = blocks_in(input.swap_bytes, input.swap_block_bytes);
  plan.swap_bytes = size_t(plan.num_host_blocks) * input.target_block_bytes;
  const size_t host_bytes = input.host_bytes ? input.host_bytes : input.limit_bytes;
  if (plan.swap_bytes >= host_bytes)
    fail(ExitCode::usage,
         "engine.kv_cache.swap_space_gib: {:.3f} GiB a rank, {:.3f} GiB in all, and the host has {:.3f} GiB; lower it",
         gib(input.swap_bytes), gib(plan.swap_bytes), gib(host_bytes));
  const size_t swap_here = input.host_bytes ? 0 : plan.swap_bytes;
  const size_t fixed = input.weight_bytes + input.workspace_bytes + swap_here;
  if (fixed >= input.limit_bytes) {
    const std::string swap_text = swap_here ? fmt::format(" + swap space {:.3f} GiB", gib(swap_here)) : "";
    fail(ExitCode::device,
         "memory: weights {:.3f} GiB + workspace {:.3f} GiB{} do not fit the limit of {:.3f} GiB; use a smaller model "
         "or dtype, or more ranks",
         gib(input.weight_bytes), gib(input.workspace_bytes), swap_text, gib(input.limit_bytes));
  }
  const size_t block_bytes = input.target_block_bytes + input.draft_block_bytes;
  const size_t available = size_t(input.memory_fraction * double(input.limit_bytes - fixed));
  plan.blocks_that_fit = blocks_in(available, block_bytes);
  const int64_t blocks_per_seq = (input.max_model_len + input.block_size - 1) / input.block_size;
  const int64_t prefix_blocks = (input.prefix_cache_tokens + input.block_size - 1) / input.block_size;
  plan.num_blocks = std::min(plan.blocks_that_fit, blocks_per_seq * input.max_num_seqs + prefix_blocks);
  plan.kv_tokens = plan.num_blocks * input.block_size;
  if (plan.num_blocks < blocks_per_seq) {
    const int64_t longest = plan.blocks_that_fit * input.block_size;
    if (longest == 0) {
      fail(ExitCode::device,
           "No available memory for the KV cache: {:.3f} GiB are left for it, one block of {} tokens needs {:.6f} GiB. "
           "Try increasing memory_fraction ({}) or a smaller model.",
           gib(available), input.block_size, gib(block_bytes), input.memory_fraction);
    }
    fail(ExitCode::device,
         "The model's max seq len ({}) is larger than the maximum number of tokens that can be stored in KV cache "
         "({}): one request needs {:.3f} GiB, {:.3f} GiB are available (draft share {:.0f} %). "
         "Try increasing memory_fraction ({}) or decreasing max_model_len to at most {}.",
         input.max_model_len, longest, gib(size_t(blocks_per_seq) * block_bytes), gib(available),
         100.0 * double(input.draft_block_bytes) / double(block_bytes), input.memory_fraction, longest);
  }
  plan.target_kv_bytes = size_t(plan.num_blocks) * input.target_block_bytes;
  plan.draft_kv_bytes = size_t(plan.num_blocks) * input.draft_block_bytes;
  return plan;
}

}  // namespace paceline
