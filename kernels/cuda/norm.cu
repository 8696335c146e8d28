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
  Operand operand;  // written in place of out where it has values
  int cols;
};

/// A block a row. Thread t holds columns t, t + kThreads, …; threads are added as a fixed tree. All loads of a kind are
/// under way together.
template <int kWarps, int kColumns>  // kColumns * kThreads >= cols
__global__ void __launch_bounds__(kWarps * 32) norm_kernel(Work work) {
  constexpr int kThreads = kWarps * 32;
  __shared__ float shared[kWarps];
  const auto load = [&](const float* from, float(&values)[kColumns]) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int c = i * kThreads + threadIdx.x;
      values[i] = from && c < work.cols ? from[c] : 0.0f;
    }
  };
  const auto each = [&](auto&& body) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i)
      if (i * kThreads + int(threadIdx.x) < work.cols) body(i, i * kThreads + int(threadIdx.x));
  };
  float weight[kColumns], bias[kColumns];  // constant, as packed weights are
  load(work.weight, weight);
  load(work.bias, bias);
  wait_for_predecessor();
  float* row = work.residual + blockIdx.x * work.residual_stride;
  float x[kColumns], sum = 0.0f, squares = 0.0f;
  load(row, x);
  launch_dependents();  // not before: the next product's weights would take the memory from these rows
  if (work.delta) {
    float add[kColumns], add_bias[kColumns];
    load(work.delta + blockIdx.x * work.delta_stride, add);
    load(work.delta_bias, add_bias);
    each([&](int i, int c) {
      if (work.delta_bias) add[i] += add_bias[i];
      row[c] = x[i] += add[i];
    });
  }
  if (!work.out && !work.operand.values) return;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    sum += x[i];
    squares += x[i] * x[i];
  }
  float mean = 0.0f;
  if (work.layer) {
    mean = over_block<kWarps>(sum, shared, Plus{}) / float(work.cols);
    squares = 0.0f;
    each([&](int i, int) { squares += (x[i] - mean) * (x[i] - mean); });
  }
  const float variance = over_block<kWarps>(squares, shared, Plus{}) / float(work.cols);
  const float scale = 1.0f / sqrtf(variance + work.eps);
  float* out = work.out + blockIdx.x * work.out_stride;
  each([&](int i, int c) {
    float y = (x[i] - mean) * scale * weight[i];
    if (work.bias) y += bias[i];
    if (work.operand.values)
      work.operand.put(int(blockIdx.x), c, y);
    else
      out[c] = y;
  });
}

template <int kWarps, int kColumns>
void run(const Work& work, int rows, cudaStream_t stream) {
  launch(norm_kernel<kWarps, kColumns>, dim3(unsigned(rows)), dim3(kWarps * 32), 0, stream, work);
}

}  // namespace

void norm(const NormArgs& args, const Operand& operand, cudaStream_t stream) {
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
                  .operand = operand,
                  .cols = args.residual.cols};
  const int rows = args.residual.rows;
  if (work.cols <= 2048) return run<8, 8>(work, rows, stream);
  if (work.cols <= 4096) return run<16, 8>(work, rows, stream);
  if (work.cols <= 8192) return run<32, 8>(work, rows, stream);
  run<32, 32>(work, rows, stream);
}

}  // namespace paceline::cuda
