#include "kernels/cuda/device.h"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/sum_parts.h"
#include "kernels/math/tree_sum.h"

namespace paceline::cuda {
namespace {

/// kParts: of the tree; the parts beyond num_parts are left out.
template <int kParts>
__global__ void sum_parts_kernel(const float* parts, int num_parts, int64_t count, float* to) {
  launch_dependents();
  wait_for_predecessor();
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  float part[kParts];
#pragma unroll
  for (int p = 0; p < kParts; ++p)
    if (p < num_parts) part[p] = parts[p * count + i];
  to[i] = math::tree_sum(part, num_parts);
}

template <int kParts>
void run(const float* parts, int num_parts, int64_t count, float* to, LaunchTo queue) {
  launch(sum_parts_kernel<kParts>, dim3(unsigned((count + 255) / 256)), dim3(256), 0, queue, parts, num_parts, count,
         to);
}

}  // namespace

void sum_parts(const float* parts, int num_parts, int64_t count, float* to, LaunchTo queue) {
  if (num_parts <= 8) return run<8>(parts, num_parts, count, to, queue);
  run<kMaxParts>(parts, num_parts, count, to, queue);
}

}  // namespace paceline::cuda
