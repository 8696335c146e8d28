#pragma once
// How many KV blocks fit, decided before anything is loaded. Pure arithmetic.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

/// Bytes of one block of `block_size` positions over `num_layers` layers: K and V.
constexpr size_t kv_block_bytes(int num_layers, int num_kv_heads, int head_dim, int block_size, size_t element_bytes) {
  return size_t(num_layers) * 2 * size_t(block_size) * size_t(num_kv_heads) * size_t(head_dim) * element_bytes;
}

/// Blocks that `bytes` hold.
constexpr int64_t blocks_in(size_t bytes, size_t block_bytes) {
  return block_bytes == 0 ? 0 : int64_t(bytes / block_bytes);
}

/// A memory and what its ranks put there, all of them together: one GPU, or the host with the ranks of all CPUs.
struct PlannedDevice {
  std::string name;  // "rank 1 (cuda:1)"; what messages say where there are several
  size_t limit_bytes = 0;
  size_t weight_bytes = 0;     // packed, target and draft
  size_t workspace_bytes = 0;  // activations and logits
  // of one block
  size_t target_block_bytes = 0;
  size_t draft_block_bytes = 0;  // 0: no draft model here

  size_t block_bytes() const { return target_block_bytes + draft_block_bytes; }
};

struct MemoryPlanInput {
  std::vector<PlannedDevice> devices;
  double memory_fraction = 0.5;  // (0, 1]
  int block_size = 16;
  int max_num_seqs = 1;
  int max_model_len = 1024;
  int64_t prefix_cache_tokens = 0;  // room kept for shared prefixes beyond the running sequences
  // host memory for the KV of preempted sequences
  size_t swap_bytes = 0;        // of each rank
  size_t swap_block_bytes = 0;  // of the target, on the rank that holds the most of a block
  size_t host_bytes = 0;        // of the machine; 0: the one device above is that
};

struct MemoryPlan {
  int64_t num_blocks = 0;       // of the target, and of the draft beside it
  int64_t kv_tokens = 0;        // num_blocks * block_size
  int64_t blocks_that_fit = 0;  // what memory alone would allow, of the device that holds the fewest
  size_t fullest_device = 0;    // that one, an index of MemoryPlanInput::devices
  // of all devices together
  size_t weight_bytes = 0;
  size_t workspace_bytes = 0;
  size_t target_kv_bytes = 0;
  size_t draft_kv_bytes = 0;
  int64_t num_host_blocks = 0;   // of each rank
  size_t swap_bytes = 0;         // of all ranks
  std::string describe() const;  // one line
};

/// num_blocks = min(over devices of memory_fraction * (limit - weights - workspace) / block bytes, max_num_seqs *
/// max_model_len tokens + prefix-cache room): every rank holds its part of every block. Throws Error(device) with
/// numbers and the fix when the weights do not fit, when not even one sequence of max_model_len fits, or when no block
/// fits at all; Error(usage) when the swap space is more than the host has. num_host_blocks = swap_bytes /
/// swap_block_bytes.
MemoryPlan plan_memory(const MemoryPlanInput& input);

}  // namespace paceline
