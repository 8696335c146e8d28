#include "engine/cache/memory_plan.h"

#include <algorithm>

#include "engine/cache/kv_slot.h"
#include "engine/util/bytes.h"
#include "kernels/error.h"

namespace paceline {
namespace {

double gib(size_t bytes) { return double(bytes) / kGiB; }

size_t total(const MemoryPlanInput& input, size_t PlannedDevice::*part) {
  size_t sum = 0;
  for (const PlannedDevice& device : input.devices) sum += device.*part;
  return sum;
}

/// " on rank 1 (cuda:1)"; nothing where there is one device.
std::string place_of(const MemoryPlanInput& input, size_t device) {
  return input.devices.size() > 1 ? " on " + input.devices[device].name : "";
}

/// What the KV cache may take of a device that also has `swap` bytes for preempted sequences.
size_t room_for_kv(const MemoryPlanInput& input, size_t device, size_t swap) {
  const PlannedDevice& memory = input.devices[device];
  const size_t fixed = memory.weight_bytes + memory.workspace_bytes + swap;
  if (fixed >= memory.limit_bytes)
    fail(
        ExitCode::device,
        "memory: weights {:.3f} GiB + workspace {:.3f} GiB{} do not fit the limit of {:.3f} GiB{}; use a smaller model "
        "or dtype, or more ranks",
        gib(memory.weight_bytes), gib(memory.workspace_bytes),
        swap ? fmt::format(" + swap space {:.3f} GiB", gib(swap)) : "", gib(memory.limit_bytes),
        place_of(input, device));
  return size_t(input.memory_fraction * double(memory.limit_bytes - fixed));
}

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
  PACELINE_CHECK(!input.devices.empty() && (input.host_bytes > 0 || input.devices.size() == 1),
                 "{} devices, host of {}", input.devices.size(), input.host_bytes);
  MemoryPlan plan{.weight_bytes = total(input, &PlannedDevice::weight_bytes),
                  .workspace_bytes = total(input, &PlannedDevice::workspace_bytes)};
  const size_t target_block_bytes = total(input, &PlannedDevice::target_block_bytes);
  plan.num_host_blocks = blocks_in(input.swap_bytes, input.swap_block_bytes);
  plan.swap_bytes = size_t(plan.num_host_blocks) * target_block_bytes;
  const size_t host_bytes = input.host_bytes ? input.host_bytes : input.devices[0].limit_bytes;
  if (plan.swap_bytes >= host_bytes)
    fail(ExitCode::usage,
         "engine.kv_cache.swap_space_gib: {:.3f} GiB a rank, {:.3f} GiB in all, and the host has {:.3f} GiB; lower it",
         gib(input.swap_bytes), gib(plan.swap_bytes), gib(host_bytes));
  const size_t swap_here = input.host_bytes ? 0 : plan.swap_bytes;
  for (size_t i = 0; i < input.devices.size(); ++i) {
    const int64_t blocks = blocks_in(room_for_kv(input, i, swap_here), input.devices[i].block_bytes());
    if (i > 0 && blocks >= plan.blocks_that_fit) continue;
    plan.blocks_that_fit = blocks;
    plan.fullest_device = i;
  }
  const PlannedDevice& fullest = input.devices[plan.fullest_device];
  const size_t available = room_for_kv(input, plan.fullest_device, swap_here), block_bytes = fullest.block_bytes();
  const std::string where = place_of(input, plan.fullest_device);
  const int64_t blocks_per_seq = kv_blocks<int64_t>(input.max_model_len, input.block_size);
  const int64_t prefix_blocks = kv_blocks<int64_t>(input.prefix_cache_tokens, input.block_size);
  plan.num_blocks = std::min(plan.blocks_that_fit, blocks_per_seq * input.max_num_seqs + prefix_blocks);
  plan.kv_tokens = plan.num_blocks * input.block_size;
  if (plan.num_blocks < blocks_per_seq) {
    const int64_t longest = plan.blocks_that_fit * input.block_size;
    if (longest == 0) {
      fail(ExitCode::device,
           "No available memory for the KV cache: {:.3f} GiB are left for it{}, one block of {} tokens needs {:.6f} "
           "GiB. "
           "Try increasing memory_fraction ({}) or a smaller model.",
           gib(available), where, input.block_size, gib(block_bytes), input.memory_fraction);
    }
    fail(ExitCode::device,
         "The model's max seq len ({}) is larger than the maximum number of tokens that can be stored in KV cache "
         "({}): one request needs {:.3f} GiB, {:.3f} GiB are available{} (draft share {:.0f} %). "
         "Try increasing memory_fraction ({}) or decreasing max_model_len to at most {}.",
         input.max_model_len, longest, gib(size_t(blocks_per_seq) * block_bytes), gib(available), where,
         100.0 * double(fullest.draft_block_bytes) / double(block_bytes), input.memory_fraction, longest);
  }
  plan.target_kv_bytes = size_t(plan.num_blocks) * target_block_bytes;
  plan.draft_kv_bytes = size_t(plan.num_blocks) * total(input, &PlannedDevice::draft_block_bytes);
  return plan;
}

}  // namespace paceline
