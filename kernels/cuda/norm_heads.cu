#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {
namespace {

constexpr int kHeadWarps = 4;

/// A warp a head; lane l takes dimensions l, l + 32, …
__global__ void __launch_bounds__(kHeadWarps * 32) norm_heads_kernel(HeadNormArgs args, float* x, int64_t stride) {
  launch_dependents();
  wait_for_predecessor();
  const int head = int(blockIdx.y) * kHeadWarps + int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  if (head >= args.num_heads) return;
  float* const from = x + int64_t{blockIdx.x} * stride + int64_t{head} * args.head_dim;
  const float* const weight = args.weight + (args.weight_per_head ? int64_t{head} * args.head_dim : 0);
  float mean = 0.0f, squares = 0.0f;
  if (args.kind == NormKind::layer) {
    for (int d = lane; d < args.head_dim; d += 32) mean += from[d];
    mean = over_warp(mean, Plus{}) / float(args.head_dim);
  }
  for (int d = lane; d < args.head_dim; d += 32) squares += (from[d] - mean) * (from[d] - mean);
  const float scale = 1.0f / sqrtf(over_warp(squares, Plus{}) / float(args.head_dim) + args.eps);
  for (int d = lane; d < args.head_dim; d += 32) from[d] = (from[d] - mean) * scale * weight[d];
}

}  // namespace

void norm_heads(const HeadNormArgs& args, LaunchTo queue) {
  if (args.x.rows == 0) return;
  launch(norm_heads_kernel, dim3(unsigned(args.x.rows), unsigned((args.num_heads + kHeadWarps - 1) / kHeadWarps)),
         dim3(kHeadWarps * 32), 0, queue, args, args.x.f32_row(0), args.x.stride);
}

}  // namespace paceline::cuda
