// Rotation of q and k, and K and V into their pages: apart, or in one pass.

#include "kernels/cuda/page_index.cuh"
#include "kernels/cuda/row_ops.h"
#include "kernels/math/rope.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void rope_factors_kernel(const double* inv_freq, int half, float attention_factor, int32_t count,
                                    float2* factors) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  launch_dependents();
  wait_for_predecessor();
  if (at >= int64_t{count} * half) return;
  const int32_t position = int32_t(at / half);
  const math::RopeFactor factor = math::rope_factor(position, inv_freq[at % half], attention_factor);
  factors[int64_t{position} * half + at % half] = float2{factor.cos, factor.sin};
}

/// num_heads heads are rotated; those from first_k on are K: where there are pages they go there, not back.
struct Rotation {
  float* x = nullptr;
  int64_t stride = 0;
  int num_heads = 0;
  int first_k = 0;
  int head_dim = 0;
  int half = 0;
  bool interleaved = false;
  const int32_t* position = nullptr;
  const float2* factors = nullptr;
};

struct Storing {
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t k_stride = 0, v_stride = 0;
  const int32_t* slot = nullptr;
  void* k_pages = nullptr;
  void* v_pages = nullptr;
  int num_heads = 0, k_dim = 0, v_dim = 0;
  int block_size = 1;
  int rotated = 0;  // of k_dim: what the rotation stores

  __host__ __device__ int k_items() const { return num_heads * (k_dim - rotated); }
  __host__ __device__ int v_items() const { return v_pages ? num_heads * v_dim : 0; }
};

/// Values side by side in memory, N at once.
template <int N>
__device__ __forceinline__ void load(const float* from, float (&x)[N]) {
  if constexpr (N == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
  } else {
    x[0] = *from;
  }
}
template <class T, int N>
__device__ __forceinline__ void store(const float (&x)[N], T* to) {
  struct alignas(sizeof(T) * N) Values {
    T of[N];
  } values;
#pragma unroll
  for (int n = 0; n < N; ++n) narrow(x[n], &values.of[n]);
  *reinterpret_cast<Values*>(to) = values;
}

/// A row's items: pairs to rotate, values of K to copy, values of V to copy; N neighbours each.
template <class T, int N>
__global__ void rope_store_kernel(Rotation rotation, Storing storing) {
  launch_dependents();
  const int64_t row = blockIdx.x;
  int i = (blockIdx.y * kThreads + threadIdx.x) * N;
  const int32_t slot = storing.slot ? storing.slot[row] : -1;
  const int32_t position = rotation.position ? rotation.position[row] : -1;
  wait_for_predecessor();
  const auto place = [&](void* pages, int head, int d, int dim) {
    return static_cast<T*>(pages) + page_index(slot, head, storing.num_heads, storing.block_size, dim) + d;
  };
  if (i < rotation.num_heads * rotation.half) {
    const int head = i / rotation.half, pair = i % rotation.half;
    float* const x = rotation.x + row * rotation.stride + int64_t{head} * rotation.head_dim;
    const int a = rotation.interleaved ? 2 * pair : pair, b = rotation.interleaved ? a + 1 : pair + rotation.half;
    float first[N], second[N];
    load(x + a, first);
    load(x + b, second);
    if (position >= 0) {
      const float2* const factors = rotation.factors + int64_t{position} * rotation.half + pair;
#pragma unroll
      for (int n = 0; n < N; ++n) math::rotate_pair(first[n], second[n], factors[n].x, factors[n].y);
    }
    if (!storing.slot || head < rotation.first_k) {
      store(first, x + a);
      store(second, x + b);
    } else if (slot >= 0) {
      store(first, place(storing.k_pages, head - rotation.first_k, a, storing.k_dim));
      store(second, place(storing.k_pages, head - rotation.first_k, b, storing.k_dim));
    }
    return;
  }
  i -= rotation.num_heads * rotation.half;
  if (slot < 0) return;
  float x[N];
  if (i < storing.k_items()) {
    const int rest = storing.k_dim - storing.rotated, head = i / rest, d = storing.rotated + i % rest;
    load(storing.k + row * storing.k_stride + head * storing.k_dim + d, x);
    store(x, place(storing.k_pages, head, d, storing.k_dim));
    return;
  }
  i -= storing.k_items();
  if (i >= storing.v_items()) return;
  load(storing.v + row * storing.v_stride + i, x);
  store(x, place(storing.v_pages, i / storing.v_dim, i % storing.v_dim, storing.v_dim));
}

/// Whether four neighbours are together in everything that a row has.
bool in_fours(const Rotation& rotation, const Storing& storing) {
  const bool rotates = rotation.half % 4 == 0 && rotation.head_dim % 4 == 0 && !rotation.interleaved;
  const bool stores = storing.k_dim % 4 == 0 && storing.v_dim % 4 == 0;  // rotated: twice half
  return rotates && stores && lies_in_fours(rotation.x, rotation.stride) &&
         lies_in_fours(storing.k, storing.k_stride) && lies_in_fours(storing.v, storing.v_stride);
}

template <class T>
void run(const Rotation& rotation, const Storing& storing, int rows, LaunchTo queue) {
  const int items = rotation.num_heads * rotation.half + storing.k_items() + storing.v_items();
  const auto launch_for = [&](auto kernel, int together) {
    const int threads = items / together;
    launch(kernel, dim3(unsigned(rows), unsigned((threads + kThreads - 1) / kThreads)), dim3(kThreads), 0, queue,
           rotation, storing);
  };
  if (in_fours(rotation, storing))
    launch_for(rope_store_kernel<T, 4>, 4);
  else
    launch_for(rope_store_kernel<T, 1>, 1);
}
void run(const Rotation& rotation, const Storing& storing, DType dtype, int rows, LaunchTo queue) {
  if (dtype == DType::f32) run<float>(rotation, storing, rows, queue);
  if (dtype == DType::f16) run<__half>(rotation, storing, rows, queue);
  if (dtype == DType::bf16) run<__nv_bfloat16>(rotation, storing, rows, queue);
}

Rotation rotation_of(const RopeArgs& args, const float2* factors) {
  return {.x = args.x.f32_row(0),
          .stride = args.x.stride,
          .num_heads = args.num_heads,
          .first_k = args.num_heads,
          .head_dim = args.head_dim,
          .half = args.rotary_dim / 2,
          .interleaved = args.layout == RopeLayout::interleaved,
          .position = args.position.data(),
          .factors = factors};
}

Storing storing_of(const StoreKvArgs& args) {
  const KvView& kv = args.kv;
  return {.k = args.k.f32_row(0),
          .v = args.v.f32_row(0),
          .k_stride = args.k.stride,
          .v_stride = args.v.stride,
          .slot = args.slot.data(),
          .k_pages = kv.k,
          .v_pages = kv.v,
          .num_heads = kv.num_kv_heads,
          .k_dim = kv.k_dim,
          .v_dim = kv.v_dim,
          .block_size = kv.block_size};
}

}  // namespace

void rope_factors(const double* inv_freq, int half, float attention_factor, int32_t count, float2* factors,
                  LaunchTo queue) {
  launch(rope_factors_kernel, dim3(unsigned((int64_t{count} * half + 255) / 256)), dim3(256), 0, queue, inv_freq, half,
         attention_factor, count, factors);
}

void rope(const RopeArgs& args, const float2* factors, LaunchTo queue) {
  run(rotation_of(args, factors), {}, DType::f32, int(args.position.size()), queue);
}

void store_kv(const StoreKvArgs& args, LaunchTo queue) {
  run({}, storing_of(args), args.kv.dtype, int(args.slot.size()), queue);
}

void rope_store(const RopeArgs& args, const float2* factors, const StoreKvArgs& store, LaunchTo queue) {
  Rotation rotation = rotation_of(args, factors);
  Storing storing = storing_of(store);
  rotation.first_k = args.num_heads - storing.num_heads;
  storing.rotated = rotation.half * 2;
  run(rotation, storing, store.kv.dtype, int(store.slot.size()), queue);
}

}  // namespace paceline::cuda
