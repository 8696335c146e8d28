#pragma once
// K and V in pages: [block][kv head][position in block][dim], both of them.

#include "kernels/cuda/device_code.cuh"

namespace paceline::cuda {

__device__ __forceinline__ int64_t page_index(int64_t slot, int head, int num_heads, int block_size, int dim) {
  return ((slot / block_size * num_heads + head) * block_size + slot % block_size) * dim;
}

}  // namespace paceline::cuda
