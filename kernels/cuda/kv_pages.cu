// K and V in pages: [block][kv head][position in block][dim], both of them.

#include <algorithm>

#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {
namespace {

__device__ int64_t page_index(int64_t slot, int head, int num_heads, int block_size, int dim) {
  return ((slot / block_size * num_heads + head) * block_size + slot % block_size) * dim;
}

struct Rows {
  const float* rows;
  int64_t stride;
  void* pages;
  int dim;
};

/// blockIdx.y: K or V.
template <class T>
__global__ void store_kernel(Rows k, Rows v, const int32_t* slot, int num_heads, int block_size) {
  launch_dependents();
  wait_for_predecessor();
  const int32_t at = slot[blockIdx.x];
  if (at < 0) return;
  const Rows& side = blockIdx.y == 0 ? k : v;
  T* const pages = static_cast<T*>(side.pages);
  const int i = blockIdx.z * blockDim.x + threadIdx.x;
  if (i >= num_heads * side.dim) return;
  narrow(side.rows[blockIdx.x * side.stride + i],
         pages + page_index(at, i / side.dim, num_heads, block_size, side.dim) + i % side.dim);
}

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
void store(const StoreKvArgs& args, cudaStream_t stream) {
  const KvView& kv = args.kv;
  constexpr int kThreads = 128;
  const int width = kv.num_kv_heads * std::max(kv.k_dim, kv.v ? kv.v_dim : 0);
  launch(store_kernel<T>, dim3(unsigned(args.slot.size()), kv.v ? 2 : 1, unsigned((width + kThreads - 1) / kThreads)),
         dim3(kThreads), 0, stream, Rows{args.k.f32_row(0), args.k.stride, kv.k, kv.k_dim},
         Rows{args.v.f32_row(0), args.v.stride, kv.v, kv.v_dim}, args.slot.data(), kv.num_kv_heads, kv.block_size);
}

template <class T>
void move(const KvView& kv, std::span<const SlotMove> moves, cudaStream_t stream) {
  const auto run = [&](void* pages, int dim) {
    launch(move_kernel<T>, dim3(unsigned((kv.num_kv_heads * dim + 255) / 256)), dim3(256), 0, stream, moves.data(),
           int(moves.size()), static_cast<T*>(pages), kv.num_kv_heads, kv.block_size, dim);
  };
  run(kv.k, kv.k_dim);
  if (kv.v) run(kv.v, kv.v_dim);
}

}  // namespace

void store_kv(const StoreKvArgs& args, cudaStream_t stream) {
  if (args.kv.dtype == DType::f32) store<float>(args, stream);
  if (args.kv.dtype == DType::f16) store<__half>(args, stream);
  if (args.kv.dtype == DType::bf16) store<__nv_bfloat16>(args, stream);
}

void move_kv(const KvView& kv, std::span<const SlotMove> moves, cudaStream_t stream) {
  if (dtype_bytes(kv.dtype) == 4) move<uint32_t>(kv, moves, stream);
  if (dtype_bytes(kv.dtype) == 2) move<uint16_t>(kv, moves, stream);
}

}  // namespace paceline::cuda
