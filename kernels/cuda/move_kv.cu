#include "kernels/cuda/page_index.cuh"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {
namespace {

/// A thread does all moves of its element in turn: a later one may take what an earlier one put.
template <class T>
__global__ void move_kernel(const SlotMove* moves, int num_moves, T* pages, int num_heads, int block_size, int dim) {
  launch_dependents();
  wait_for_predecessor();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= num_heads * dim) return;
  T* const at = pages + i % dim;
  for (int m = 0; m < num_moves; ++m)
    if (moves[m].from != moves[m].to)
      at[page_index(moves[m].to, i / dim, num_heads, block_size, dim)] =
          at[page_index(moves[m].from, i / dim, num_heads, block_size, dim)];
}

template <class T>
void move(const KvView& kv, std::span<const SlotMove> moves, LaunchTo queue) {
  const auto run = [&](void* pages, int dim) {
    launch(move_kernel<T>, dim3(unsigned((kv.num_kv_heads * dim + 255) / 256)), dim3(256), 0, queue, moves.data(),
           int(moves.size()), static_cast<T*>(pages), kv.num_kv_heads, kv.block_size, dim);
  };
  run(kv.k, kv.k_dim);
  if (kv.v) run(kv.v, kv.v_dim);
}

}  // namespace

void move_kv(const KvView& kv, std::span<const SlotMove> moves, LaunchTo queue) {
  if (dtype_bytes(kv.dtype) == 4) move<uint32_t>(kv, moves, queue);
  if (dtype_bytes(kv.dtype) == 2) move<uint16_t>(kv, moves, queue);
}

}  // namespace paceline::cuda
