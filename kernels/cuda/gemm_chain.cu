// Float32 and float16 weights: per output one fma chain in k order for each chunk, the chunk sums as a binary tree. The
// bits are those of the CPU. A thread owns an output of a few rows; neighbours read neighbouring weights.

#include <algorithm>

#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/gemm.h"

namespace paceline::cuda {
namespace {

constexpr int kOutputs = 128;
constexpr int kRows = 8;
constexpr int kSlice = 64;                     // values of k of all rows in shared memory at a time
constexpr int kMostGridRows = 65'535 * kRows;  // of a launch: a grid has no more blocks in y

template <class W>
__global__ void __launch_bounds__(kOutputs)
    gemm_chain_kernel(const W* w, int64_t padded_n, WeightOrder order, const float* x, int64_t x_stride, int first_row,
                      int rows, int64_t units, Epilogue epilogue) {
  __shared__ float slice[kRows][kSlice];
  launch_dependents();
  wait_for_predecessor();
  const int64_t column = blockIdx.x * int64_t{kOutputs} + threadIdx.x;  // of the units' outputs
  const int64_t unit = column / 16;
  const int lane = int(column % 16), tiles = epilogue.tiles_per_unit();
  const int row_begin = first_row + int(blockIdx.y) * kRows, chunks = order.chunks;
  const int64_t longest_chunk = (order.k + chunks - 1) / chunks;
  const uint32_t message = epilogue.push.count > 0 ? message_of(epilogue.push) : 0;
  float gate[kRows];
  for (int tile = 0; tile < tiles; ++tile) {
    const int64_t row = unit * 16 + lane;
    const W* weights = w + (unit >= units ? 0 : tiles == 2 ? paired_row(row, tile) : row);
    float stack[3][kRows], sum[kRows];
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int r = 0; r < kRows; ++r) sum[r] = 0.0f;
      const int64_t chunk_begin = order.chunk_begin(chunk), end = order.chunk_begin(chunk + 1);
      for (int64_t begin = chunk_begin; begin < end; begin += kSlice) {
        const int count = end - begin < kSlice ? int(end - begin) : kSlice;
        __syncthreads();
        for (int at = threadIdx.x; at < kRows * kSlice; at += kOutputs) {
          const int r = at / kSlice, i = at % kSlice;
          slice[r][i] = i < count && row_begin + r < rows ? x[(row_begin + r) * x_stride + begin + i] : 0.0f;
        }
        __syncthreads();
        for (int i = 0; i < count; ++i) {
          const float weight = widen(weights[(begin + i) * padded_n]);
#pragma unroll
          for (int r = 0; r < kRows; ++r) sum[r] = __fmaf_rn(slice[r][i], weight, sum[r]);
        }
      }
      if (end - chunk_begin < longest_chunk)  // shorter chunks go on through zeros: -0 becomes 0
        for (int r = 0; r < kRows; ++r) sum[r] = __fmaf_rn(0.0f, 0.0f, sum[r]);
      int level = 0;
      for (int carry = chunk; carry & 1; carry >>= 1, ++level)
        for (int r = 0; r < kRows; ++r) sum[r] = stack[level][r] + sum[r];
      if (chunk + 1 < chunks)
        for (int r = 0; r < kRows; ++r) stack[level][r] = sum[r];
    }
    if (unit >= units) continue;
    for (int r = 0; r < kRows; ++r)
      if (row_begin + r < rows)
        epilogue.put(row_begin + r, unit, tile, lane, sum[r], gate[r], epilogue.standing(row_begin + r, unit, lane),
                     message);
  }
}

template <class W>
void run(const GemmArgs& args, LaunchTo queue) {
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  const int64_t units = w.tiles() / (w.pair_panels ? 2 : 1);
  for (int first = 0; first < args.x.rows; first += kMostGridRows) {
    const int rows = std::min(args.x.rows - first, kMostGridRows);
    launch(gemm_chain_kernel<W>,
           dim3(unsigned((units * 16 + kOutputs - 1) / kOutputs), unsigned((rows + kRows - 1) / kRows)), dim3(kOutputs),
           0, queue, static_cast<const W*>(w.memory.as<W>()), w.tiles() * kTile, w.order(),
           static_cast<const float*>(args.x.f32_row(0)), args.x.stride, first, int(args.x.rows), units,
           epilogue(args, {}));
  }
}

}  // namespace

void gemm_chain(const GemmArgs& args, LaunchTo queue) {
  if (args.w->dtype == DType::f32) run<float>(args, queue);
  if (args.w->dtype == DType::f16) run<__half>(args, queue);
}

}  // namespace paceline::cuda
