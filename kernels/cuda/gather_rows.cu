#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {
namespace {

__global__ void gather_rows_kernel(const float* from, int64_t from_stride, const int32_t* row, float* to,
                                   const int32_t* to_row, int64_t to_stride, int cols) {
  launch_dependents();
  wait_for_predecessor();
  const float* source = from + int64_t{row[blockIdx.x]} * from_stride;
  float* target = to + int64_t{to_row ? to_row[blockIdx.x] : int32_t(blockIdx.x)} * to_stride;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) target[c] = source[c];
}

}  // namespace

void gather_rows(const GatherRowsArgs& args, LaunchTo queue) {
  launch(gather_rows_kernel, dim3(unsigned(args.row.size())), dim3(256), 0, queue,
         static_cast<const float*>(args.from.f32_row(0)), args.from.stride, args.row.data(), args.to.f32_row(0),
         args.to_row.empty() ? nullptr : args.to_row.data(), args.to.stride, int(args.from.cols));
}

}  // namespace paceline::cuda
