#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/row_ops.h"
#include "kernels/math/rope.h"

namespace paceline::cuda {
namespace {

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

__global__ void rope_kernel(float* x, int64_t stride, int num_heads, int head_dim, int half, bool interleaved,
                            const int32_t* position, const float2* factors) {
  launch_dependents();
  wait_for_predecessor();
  const int32_t at = position[blockIdx.x];
  const int i = blockIdx.y * blockDim.x + threadIdx.x;
  if (at < 0 || i >= num_heads * half) return;
  const int pair = i % half;
  float* head = x + blockIdx.x * stride + i / half * head_dim;
  float* a = head + (interleaved ? 2 * pair : pair);
  float* b = head + (interleaved ? 2 * pair + 1 : pair + half);
  const float2 factor = factors[int64_t{at} * half + pair];
  float first = *a, second = *b;
  math::rotate_pair(first, second, factor.x, factor.y);
  *a = first;
  *b = second;
}

}  // namespace

void rope_factors(const double* inv_freq, int half, float attention_factor, int32_t count, float2* factors,
                  cudaStream_t stream) {
  launch(rope_factors_kernel, dim3(unsigned((int64_t{count} * half + 255) / 256)), dim3(256), 0, stream, inv_freq, half,
         attention_factor, count, factors);
}

void rope(const RopeArgs& args, const float2* factors, cudaStream_t stream) {
  constexpr int kThreads = 128;
  const int pairs = args.num_heads * (args.rotary_dim / 2);
  launch(rope_kernel, dim3(unsigned(args.position.size()), unsigned((pairs + kThreads - 1) / kThreads)), dim3(kThreads),
         0, stream, args.x.f32_row(0), args.x.stride, args.num_heads, args.head_dim, args.rotary_dim / 2,
         args.layout == RopeLayout::interleaved, args.position.data(), factors);
}

}  // namespace paceline::cuda
