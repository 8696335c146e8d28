#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;

struct Work {
  bool layer;
  float* residual;
  int64_t residual_stride;
  const float* delta;
  int64_t delta_stride;
  const float* delta_bias;
  const float* weight;
  const float* bias;
  float eps;
  float* out;
  int64_t out_stride;
  int cols;
};

/// A block a row. Thread t sums columns t, t + kThreads, …; threads are added as a fixed tree.
__global__ void __launch_bounds__(kThreads) norm_kernel(Work work) {
  __shared__ float shared[kWarps];
  launch_dependents();
  wait_for_predecessor();
  float* row = work.residual + blockIdx.x * work.residual_stride;
  float sum = 0.0f, squares = 0.0f;
  for (int c = threadIdx.x; c < work.cols; c += kThreads) {
    float x = row[c];
    if (work.delta) {
      float add = work.delta[blockIdx.x * work.delta_stride + c];
      if (work.delta_bias) add += work.delta_bias[c];
      row[c] = x += add;
    }
    sum += x;
    squares += x * x;
  }
  if (!work.out) return;
  float mean = 0.0f;
  if (work.layer) {
    mean = over_block<kWarps>(sum, shared, Plus{}) / float(work.cols);
    squares = 0.0f;
    for (int c = threadIdx.x; c < work.cols; c += kThreads) {
      const float d = row[c] - mean;
      squares += d * d;
    }
  }
  const float variance = over_block<kWarps>(squares, shared, Plus{}) / float(work.cols);
  const float scale = 1.0f / sqrtf(variance + work.eps);
  float* out = work.out + blockIdx.x * work.out_stride;
  for (int c = threadIdx.x; c < work.cols; c += kThreads) {
    const float y = (row[c] - mean) * scale * work.weight[c];
    out[c] = work.bias ? y + work.bias[c] : y;
  }
}

}  // namespace

void norm(const NormArgs& args, cudaStream_t stream) {
  launch(norm_kernel, dim3(unsigned(args.residual.rows)), dim3(kThreads), 0, stream,
         Work{.layer = args.kind == NormKind::layer,
              .residual = args.residual.f32_row(0),
              .residual_stride = args.residual.stride,
              .delta = args.delta.f32_row(0),
              .delta_stride = args.delta.stride,
              .delta_bias = args.delta_bias,
              .weight = args.weight,
              .bias = args.bias,
              .eps = args.eps,
              .out = args.out.f32_row(0),
              .out_stride = args.out.stride,
              .cols = args.residual.cols});
}

}  // namespace paceline::cuda
