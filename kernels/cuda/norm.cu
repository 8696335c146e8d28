#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {
namespace {

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

/// A block a row. Thread t holds columns t, t + kThreads, …; threads are added as a fixed tree.
template <int kWarps, int kColumns>  // kColumns * kThreads >= cols
__global__ void __launch_bounds__(kWarps * 32) norm_kernel(Work work) {
  constexpr int kThreads = kWarps * 32;
  __shared__ float shared[kWarps];
  launch_dependents();
  wait_for_predecessor();
  float* row = work.residual + blockIdx.x * work.residual_stride;
  const float* delta = work.delta + blockIdx.x * work.delta_stride;
  float x[kColumns], sum = 0.0f, squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int c = i * kThreads + threadIdx.x;
    if (c >= work.cols) break;
    x[i] = row[c];
    if (work.delta) {
      float add = delta[c];
      if (work.delta_bias) add += work.delta_bias[c];
      row[c] = x[i] += add;
    }
    sum += x[i];
    squares += x[i] * x[i];
  }
  if (!work.out) return;
  float mean = 0.0f;
  if (work.layer) {
    mean = over_block<kWarps>(sum, shared, Plus{}) / float(work.cols);
    squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (i * kThreads + int(threadIdx.x) >= work.cols) break;
      squares += (x[i] - mean) * (x[i] - mean);
    }
  }
  const float variance = over_block<kWarps>(squares, shared, Plus{}) / float(work.cols);
  const float scale = 1.0f / sqrtf(variance + work.eps);
  float* out = work.out + blockIdx.x * work.out_stride;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int c = i * kThreads + threadIdx.x;
    if (c >= work.cols) break;
    const float y = (x[i] - mean) * scale * work.weight[c];
    out[c] = work.bias ? y + work.bias[c] : y;
  }
}

template <int kWarps, int kColumns>
void run(const Work& work, int rows, cudaStream_t stream) {
  launch(norm_kernel<kWarps, kColumns>, dim3(unsigned(rows)), dim3(kWarps * 32), 0, stream, work);
}

}  // namespace

void norm(const NormArgs& args, cudaStream_t stream) {
  const Work work{.layer = args.kind == NormKind::layer,
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
                  .cols = args.residual.cols};
  const int rows = args.residual.rows;
  if (work.cols <= 2048) return run<8, 8>(work, rows, stream);
  if (work.cols <= 8192) return run<32, 8>(work, rows, stream);
  run<32, 32>(work, rows, stream);
}

}  // namespace paceline::cuda
