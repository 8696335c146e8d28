#pragma once
// How the parts of a row and head are added, from left to right (attention_work.cuh).

#include "kernels/cuda/attention_work.cuh"
#include "kernels/cuda/device_code.cuh"

namespace paceline::cuda {

/// A chunk's sum of weights, and how its part is added.
struct MergeStep {
  float left, part, sum;

  __device__ Rescale rescale() const { return {left, part}; }
};

/// Those of 32 neighbouring chunks, a lane each, from their maxima and sums of weights; -INFINITY and 0 beyond the
/// last. before: the maximum of all chunks before them, then of these, too. By a whole warp.
__device__ __forceinline__ MergeStep merge_steps(float mine, float sum, float& before) {
  const int lane = int(threadIdx.x) % 32;
  float largest = mine;
#pragma unroll
  for (int width = 1; width < 32; width *= 2) {
    const float other = __shfl_up_sync(0xffffffffu, largest, width);
    if (lane >= width) largest = Larger{}(largest, other);
  }
  largest = Larger{}(largest, before);
  const float up = __shfl_up_sync(0xffffffffu, largest, 1);
  const Rescale rescale = Rescale::of(lane == 0 ? before : up, mine, largest);
  before = __shfl_sync(0xffffffffu, largest, 31);
  return {rescale.left, rescale.part, sum};
}

}  // namespace paceline::cuda
