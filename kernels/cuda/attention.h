#pragma once
// Attention over pages, in chunks of kAttentionChunk absolute positions that are merged from left to right, so that a
// row's bits depend on its own keys only.

#include "kernels/cuda/device.h"
#include "kernels/op_args.h"

namespace paceline::cuda {

/// Where the rows' keys lie; device memory.
struct RowPages {
  const int32_t* kv_len = nullptr;       // [m]
  const int32_t* block_begin = nullptr;  // [m] into `block`
  const int32_t* block = nullptr;
  int32_t num_chunks = 0;  // of the longest row
};

/// Bytes for what the chunks of `rows` rows leave.
size_t attention_workspace_bytes(const AttentionArgs& args, int32_t num_chunks);
/// Contract: Backend::attention, with the spans of args replaced by `pages`.
void attention(const AttentionArgs& args, const RowPages& pages, void* workspace, cudaStream_t stream);

}  // namespace paceline::cuda
