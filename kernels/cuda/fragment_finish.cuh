#pragma once
// From sums of chunks that lie in shared memory as mma.m16n8k16 leaves them to rows: added as the fixed tree, then
// bias, gated activation, and where they go.

#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/floats.cuh"

namespace paceline::cuda {

/// Where a pair of sums belongs: an output of a tile in two neighbouring rows, of which the first is even. A warp's
/// pairs of a tile: [tile of 8 rows][half of the outputs][lane].
struct SumPair {
  static constexpr int kOfRowTile = 2 * 32;

  int output, row;

  /// at: from 0 on.
  __device__ explicit SumPair(int at) : SumPair(unsigned(at)) {}

 private:
  __device__ explicit SumPair(unsigned at)
      : output(int(at % 32 / 4 + at / 32 % 2 * 8)), row(int(at / kOfRowTile * 8 + at % 4 * 2)) {}
};

/// The pair that the first chunk has at `part` and the next ones `stride` pairs further each, as the fixed tree.
/// chunks: 1, 2, 4 or 8.
__device__ __forceinline__ Floats<2> tree_of(const float2* part, int stride, int chunks) {
  Floats<2> sum[kStrictChunks];
#pragma unroll
  for (int c = 0; c < kStrictChunks; ++c) {
    const float2 two = c < chunks ? part[c * stride] : float2{};
    sum[c].of[0] = two.x, sum[c].of[1] = two.y;
  }
#pragma unroll
  for (int width = 1; width < kStrictChunks; width *= 2) {
    if (width >= chunks) break;
#pragma unroll
    for (int left = 0; left < kStrictChunks; left += 2 * width) sum[left] = sum[left] + sum[left + width];
  }
  return sum[0];
}

/// What becomes of finished pairs of the rows from `first_row` on, to `rows`.
class FragmentFinish {
 public:
  /// first_row: a multiple of 8. y: that row of the epilogue's operand, if it has one.
  __device__ FragmentFinish(const Epilogue& epilogue, const Operand::Row& y, int first_row, int rows)
      : epilogue_(epilogue), y_(y), first_row_(first_row), rows_(rows - first_row) {}
  /// What stands where put() adds; else zeros.
  __device__ __forceinline__ float2 standing(int tile, const SumPair& pair) const {
    const EpilogueColumn column = epilogue_.add ? epilogue_.column(tile, pair.output) : EpilogueColumn{};
    if (column.at < 0) return {};
    const float* const y = y_at(pair, column.at);
    return {pair.row < rows_ ? *y : 0.0f, pair.row + 1 < rows_ ? y[epilogue_.stride] : 0.0f};
  }
  /// Of a tile. standing: as above. message: of push, where anything is sent.
  __device__ __forceinline__ void put(int tile, const SumPair& pair, Floats<2> sum, float2 standing,
                                      uint32_t message) const {
    const EpilogueColumn column = epilogue_.column(tile, pair.output);
    if (column.at < 0) return;
    if (epilogue_.bias) sum = sum + Floats<2>(column.bias);
    if (epilogue_.operand.values) {
      __nv_bfloat16* const to = in_operand(pair.row, column.at);
      if (pair.row < rows_) *to = __float2bfloat16_rn(sum.of[0]);
      if (pair.row + 1 < rows_) to[epilogue_.operand.next_row()] = __float2bfloat16_rn(sum.of[1]);
      return;
    }
    if (epilogue_.add) sum.of[0] = standing.x + sum.of[0], sum.of[1] = standing.y + sum.of[1];
    put_in_y(pair, column.at, sum);
#pragma unroll 1
    for (int peer = 0; peer < epilogue_.push.count; ++peer) {
      uint2* const to = epilogue_.push.to[peer] +
                        ((message % 2) * epilogue_.push.odd + (first_row_ + pair.row) * epilogue_.stride + column.at);
      if (pair.row < rows_) put_marked(to, sum.of[0], message);
      if (pair.row + 1 < rows_) put_marked(to + epilogue_.stride, sum.of[1], message);
    }
  }
  /// Of a gate tile and its up tile, by whole warps.
  __device__ __forceinline__ void put_gated(int gate_tile, const SumPair& pair, Floats<2> gate, Floats<2> up) const {
    const EpilogueColumn column = epilogue_.column(gate_tile, pair.output);
    if (epilogue_.bias) gate = gate + Floats<2>(column.bias), up = up + Floats<2>(column.up_bias);
    if (!epilogue_.operand.values) {
      const Floats<2> y = gated<false>(epilogue_.activation, gate, up);
      if (column.at >= 0) put_in_y(pair, column.at, y);
      return;
    }
    // neighbours exchange, so that each has two columns of a row
    const Floats<2> y = gated<true>(epilogue_.activation, gate, up);
    const int odd = pair.output % 2, row = pair.row + odd;
    const float other = __shfl_xor_sync(0xffffffffu, odd ? y.of[0] : y.of[1], 4);
    if (column.at < 0 || row >= rows_) return;
    *reinterpret_cast<uint32_t*>(in_operand(row, column.at - odd)) =
        odd ? bfloat_pair(other, y.of[1]) : bfloat_pair(y.of[0], other);
  }

 private:
  __device__ __forceinline__ __nv_bfloat16* in_operand(int row, int64_t at) const {
    const Operand& operand = epilogue_.operand;
    const unsigned column = unsigned(at), tile = unsigned(row) / 8, row_of_tile = unsigned(row) % 8;
    return y_.first + int64_t{column / kStep} * y_.next_step + tile * operand.next_tile() +
           operand.place_in_tile(int(row_of_tile), int(column % kStep));
  }
  __device__ __forceinline__ float* y_at(const SumPair& pair, int64_t at) const {
    return epilogue_.y + (first_row_ + pair.row) * epilogue_.stride + at;
  }
  __device__ __forceinline__ void put_in_y(const SumPair& pair, int64_t at, const Floats<2>& sum) const {
    float* const y = y_at(pair, at);
    if (pair.row < rows_) *y = sum.of[0];
    if (pair.row + 1 < rows_) y[epilogue_.stride] = sum.of[1];
  }

  const Epilogue& epilogue_;
  const Operand::Row& y_;
  const int first_row_, rows_;
};

}  // namespace paceline::cuda
