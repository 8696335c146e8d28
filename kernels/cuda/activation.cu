#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {
namespace {

__global__ void activation_kernel(float* x, int64_t stride, int cols, Activation activation) {
  launch_dependents();
  wait_for_predecessor();
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float* at = x + blockIdx.x * stride + c;
  *at = math::activate(activation, *at);
}

__global__ void softcap_kernel(float* x, int64_t stride, int cols, float cap) {
  launch_dependents();
  wait_for_predecessor();
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float* at = x + blockIdx.x * stride + c;
  *at = math::softcap(*at, cap);
}

/// Rows in x, of which a grid may have many.
dim3 grid_of(const MatView& x) { return dim3(unsigned(x.rows), unsigned((x.cols + 255) / 256)); }

}  // namespace

void softcap(const SoftcapArgs& args, LaunchTo queue) {
  if (args.x.rows == 0) return;
  launch(softcap_kernel, grid_of(args.x), dim3(256), 0, queue, args.x.f32_row(0), args.x.stride, int(args.x.cols),
         args.cap);
}

void activation(const ActivationArgs& args, LaunchTo queue) {
  launch(activation_kernel, grid_of(args.x), dim3(256), 0, queue, args.x.f32_row(0), args.x.stride, int(args.x.cols),
         args.activation);
}

}  // namespace paceline::cuda
