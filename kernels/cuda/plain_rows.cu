#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/plain_rows.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void pack_plain_kernel(const float* x, int64_t stride, Operand operand) {
  launch_dependents();
  wait_for_predecessor();
  const int64_t i = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * 2;
  if (i >= operand.order.k) return;
  const float* const from = x + blockIdx.x * stride + i;
  *reinterpret_cast<uint32_t*>(operand.row(int(blockIdx.x)).place(i)) = bfloat_pair(from[0], from[1]);
}

/// Values that a thread takes: 16 bytes of each part.
constexpr int kTogether = 8;

__device__ __forceinline__ void widen_eight(const __nv_bfloat16* from, float (&to)[kTogether]) {
  const uint4 words = __ldcs(reinterpret_cast<const uint4*>(from));  // read once
  const uint32_t pair[] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < kTogether; ++i)
    to[i] = __uint_as_float(i % 2 == 0 ? pair[i / 2] << 16 : pair[i / 2] & 0xffff0000u);
}

/// The result is rounded to bfloat16 at last, so silu, which nearly all models have, is made of approximate parts.
__device__ __forceinline__ float activate_approximate(Activation activation, float x) {
  return activation == Activation::silu ? __fdividef(x, 1.0f + exp_approximate(-x)) : math::activate(activation, x);
}

__global__ void __launch_bounds__(kThreads) gate_rows_kernel(GatedRows work) {
  launch_dependents();
  wait_for_predecessor();
  const int c = (int(blockIdx.y) * kThreads + int(threadIdx.x)) * kTogether;
  if (c >= work.width) return;
  const __nv_bfloat16* const product = work.product + int64_t{blockIdx.x} * 2 * work.width + c;
  float gate[kTogether], up[kTogether];
  widen_eight(product, gate);
  widen_eight(product + work.width, up);
  if (work.bias) {
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      gate[i] += work.bias[c + i];
      up[i] += work.bias[work.width + c + i];
    }
  }
#pragma unroll
  for (int i = 0; i < kTogether; ++i) up[i] *= activate_approximate(work.activation, gate[i]);
  const int row = work.first_row + int(blockIdx.x);
  if (work.operand.values) {
    work.operand.row(row).put8(c, up);
    return;
  }
#pragma unroll
  for (int i = 0; i < kTogether; ++i) work.y[row * work.y_stride + c + i] = up[i];
}

unsigned blocks_of(int64_t threads) { return unsigned((threads + kThreads - 1) / kThreads); }

}  // namespace

void pack_plain(const MatView& x, const Operand& operand, LaunchTo queue) {
  launch(pack_plain_kernel, dim3(unsigned(operand.rows), blocks_of(operand.order.k / 2)), dim3(kThreads), 0, queue,
         static_cast<const float*>(x.f32_row(0)), x.stride, operand);
}

void gate_rows(const GatedRows& work, LaunchTo queue) {
  launch(gate_rows_kernel, dim3(unsigned(work.num_rows), blocks_of(work.width / kTogether)), dim3(kThreads), 0, queue,
         work);
}

}  // namespace paceline::cuda
