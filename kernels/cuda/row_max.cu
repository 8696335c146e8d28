#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 1024;

/// Ordered as (value, lower id first); a bad value (NaN, +Inf) beats all.
struct Best {
  float value;
  int32_t id;
  bool bad;
};

__device__ Best better(const Best& a, const Best& b) {
  const bool b_wins = b.value > a.value || (b.value == a.value && b.id < a.id);
  return {b_wins ? b.value : a.value, b_wins ? b.id : a.id, a.bad || b.bad};
}

__device__ Best from_lane(const Best& x, int width) {
  return {__shfl_xor_sync(0xffffffffu, x.value, width), __shfl_xor_sync(0xffffffffu, x.id, width),
          bool(__shfl_xor_sync(0xffffffffu, int(x.bad), width))};
}

__global__ void __launch_bounds__(kThreads)
    row_max_kernel(const float* logits, int64_t stride, int32_t vocab_size, int32_t* best) {
  __shared__ Best warps[kThreads / 32];
  launch_dependents();
  wait_for_predecessor();
  const float* row = logits + blockIdx.x * stride;
  Best mine{-INFINITY, INT32_MAX, false};
  for (int32_t id = threadIdx.x; id < vocab_size; id += kThreads) {
    const float value = row[id];
    mine.bad = mine.bad || !(value <= 3.402823466e38f);
    if (value > mine.value) mine = {value, id, mine.bad};
  }
  for (int width = 16; width >= 1; width /= 2) mine = better(mine, from_lane(mine, width));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  mine = warps[threadIdx.x];
  for (int width = 16; width >= 1; width /= 2) mine = better(mine, from_lane(mine, width));
  if (threadIdx.x == 0) best[blockIdx.x] = mine.bad || mine.value == -INFINITY ? -1 : mine.id;
}

}  // namespace

void row_max(const MatView& logits, int32_t vocab_size, int32_t* best, cudaStream_t stream) {
  launch(row_max_kernel, dim3(unsigned(logits.rows)), dim3(kThreads), 0, stream,
         static_cast<const float*>(logits.f32_row(0)), logits.stride, vocab_size, best);
}

}  // namespace paceline::cuda
