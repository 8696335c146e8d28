#include "kernels/cuda/gemm.h"
#include "kernels/cuda/weight_at.cuh"

namespace paceline::cuda {
namespace {

template <class From, class To>
__global__ void pack_rows_kernel(const From* rows, int64_t stride, int64_t first_row, int part, bool pairs,
                                 WeightPlace place, To* w, To* row_copy) {
  launch_dependents();
  wait_for_predecessor();
  const int64_t of_part = first_row + blockIdx.y, row = pairs ? paired_row(of_part, part) : of_part;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < place.order.k;
       i += int64_t{gridDim.x} * blockDim.x) {
    const float x = widen(rows[blockIdx.y * stride + i]);
    narrow(x, w + weight_index<To>(place, row, i));
    if (row_copy) narrow(x, row_copy + blockIdx.y * place.order.k + i);
  }
}

template <class From, class To>
void run(const void* rows, int64_t num_rows, int64_t stride, int64_t first_row, int part, const CudaWeight& w,
         LaunchTo queue) {
  constexpr int kThreads = 128;
  constexpr int64_t kMostRows = 32768;
  const WeightPlace place{w.order(), w.tiles() * kTile};
  const int64_t stacked_row = first_row + (w.pair_panels ? part * w.n / 2 : 0);
  To* const row_copy = w.row_copy.bytes() > 0 ? w.row_copy.as<To>() + stacked_row * w.k : nullptr;
  for (int64_t begin = 0; begin < num_rows; begin += kMostRows) {
    const int64_t count = num_rows - begin < kMostRows ? num_rows - begin : kMostRows;
    launch(pack_rows_kernel<From, To>, dim3(unsigned((w.k + kThreads - 1) / kThreads), unsigned(count)), dim3(kThreads),
           0, queue, static_cast<const From*>(rows) + begin * stride, stride, first_row + begin, part, w.pair_panels,
           place, w.memory.as<To>(), row_copy ? row_copy + begin * w.k : nullptr);
  }
}

template <class To>
void run_from(const void* rows, DType source, int64_t num_rows, int64_t stride, int64_t first_row, int part,
              const CudaWeight& w, LaunchTo queue) {
  if (source == DType::f32) run<float, To>(rows, num_rows, stride, first_row, part, w, queue);
  if (source == DType::f16) run<__half, To>(rows, num_rows, stride, first_row, part, w, queue);
  if (source == DType::bf16) run<__nv_bfloat16, To>(rows, num_rows, stride, first_row, part, w, queue);
}

}  // namespace

void pack_rows(const void* rows, DType source, int64_t num_rows, int64_t stride, int64_t first_row, int part,
               const CudaWeight& w, LaunchTo queue) {
  if (w.dtype == DType::f32) run_from<float>(rows, source, num_rows, stride, first_row, part, w, queue);
  if (w.dtype == DType::f16) run_from<__half>(rows, source, num_rows, stride, first_row, part, w, queue);
  if (w.dtype == DType::bf16) run_from<__nv_bfloat16>(rows, source, num_rows, stride, first_row, part, w, queue);
}

}  // namespace paceline::cuda
