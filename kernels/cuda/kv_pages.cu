// K and V in pages: [block][kv head][position in block][dim], both of them.

#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {
namespace {

__device__ int64_t page_index(int64_t slot, int head, int num_heads, int block_size, int dim) {
  return ((slot / block_size * num_heads + head) * block_size + slot % block_size) * dim;
}

template <class T>
__global__ void store_kernel(const float* rows, int64_t stride, const int32_t* slot, T* pages, int num_heads,
                             int block_size, int dim) {
  launch_dependents();
  wait_for_predecessor();
  const int32_t at = slot[blockIdx.x];
  if (at < 0) return;
  for (int i = threadIdx.x; i < num_heads * dim; i += blockDim.x)
    narrow(rows[blockIdx.x * stride + i], pages + page_index(at, i / dim, num_heads, block_size, dim) + i % dim);
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
  const auto run = [&](const MatView& rows, void* pages, int dim) {
    launch(store_kernel<T>, dim3(unsigned(args.slot.size())), dim3(256), 0, stream,
           static_cast<const float*>(rows.f32_row(0)), rows.stride, args.slot.data(), static_cast<T*>(pages),
           kv.num_kv_heads, kv.block_size, dim);
  };
  run(args.k, kv.k, kv.k_dim);
  if (kv.v) run(args.v, kv.v, kv.v_dim);
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
