#pragma once
// The rows that a bfloat16 GEMM multiplies, rounded, in the order of its other operand: [group of rows][step of all
// chunks][8 rows][128 values]. The last group holds as many tiles of 8 rows as it needs. Few rows: the values of a tile
// in the order of mma.m16n8k16's registers, [lane][4 values]. Many rows: in that of wgmma's shared memory, [half of the
// 16 k][row][8 values]. Rows beyond the last may hold anything; values that fill up a chunk are zeros. For cuBLASLt:
// plain rows of k values, no chunks.

#include <cstring>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/weight_order.h"
#include "kernels/math/ceil_div.h"
#include "kernels/math/divisor.h"

namespace paceline::cuda {

/// Rows that one pass of gemm_bf16 takes, and a block of gemm_split.
inline constexpr int kMaxRowTile = 32;
inline constexpr int kWideRows = 128;
/// Of more rows than kWideRows, pairs of blocks take two groups in each turn: of kWideRows rows, or of so many where
/// turns are no more then (129 to 192, 257 to 384 and 513 to 576 rows).
inline constexpr int kNarrowWideRows = 96;
PACELINE_MATH constexpr int wide_group_rows(int rows) {
  const bool as_many_turns = math::ceil_div(rows, 2 * kNarrowWideRows) == math::ceil_div(rows, 2 * kWideRows);
  return rows > kWideRows && as_many_turns ? kNarrowWideRows : kWideRows;
}
static_assert(wide_group_rows(96) == 128 && wide_group_rows(128) == 128 && wide_group_rows(129) == 96 &&
              wide_group_rows(192) == 96 && wide_group_rows(193) == 128 && wide_group_rows(256) == 128 &&
              wide_group_rows(257) == 96 && wide_group_rows(385) == 128 && wide_group_rows(576) == 96 &&
              wide_group_rows(577) == 128 && wide_group_rows(960) == 128);

/// Of few rows (gemm_bf16), of many (gemm_split), of those that cuBLASLt reads.
enum class RowLayout : uint8_t { fragments, wide, plain };

/// Two values as they lie side by side.
__device__ __forceinline__ uint32_t bfloat_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

struct Operand {
  WeightOrder order{0, 1};
  int rows = 0;
  RowLayout layout = RowLayout::fragments;
  __nv_bfloat16* values = nullptr;
  // of rows and layout, which stay
  int group_rows = layout == RowLayout::fragments ? kMaxRowTile : wide_group_rows(rows);
  math::Divisor by_group{group_rows};

  static constexpr int kTileValues = 8 * kStep;
  static constexpr int kTileWords = kTileValues * int(sizeof(*values)) / int(sizeof(uint4));

  PACELINE_MATH bool is_wide() const { return layout == RowLayout::wide; }
  PACELINE_MATH bool is_plain() const { return layout == RowLayout::plain; }
  PACELINE_MATH int groups() const { return group_of(rows + group_rows - 1); }
  PACELINE_MATH int group_of(int row) const { return by_group.quotient(row); }
  PACELINE_MATH int row_tiles(int group) const {
    const int full = group_rows / 8, rest = (rows - group * group_rows + 7) / 8;
    return rest < full ? rest : full;
  }
  PACELINE_MATH int64_t all_steps() const { return int64_t{order.chunks} * order.steps; }
  PACELINE_MATH int64_t row_values() const { return is_plain() ? order.k : all_steps() * kStep; }
  size_t bytes() const { return size_t(groups()) * size_t(group_rows) * size_t(row_values()) * sizeof(*values); }
  PACELINE_MATH __nv_bfloat16* group(int index) const { return values + index * group_rows * row_values(); }
  /// No zeros are needed, so that kernels may write a row value by value.
  PACELINE_MATH bool is_exact() const { return row_values() == order.k; }

  /// From a row to the same one of the next tile, and to the next one of its tile.
  PACELINE_MATH int next_tile() const { return is_plain() ? 8 * int(order.k) : kTileValues; }
  PACELINE_MATH int next_row() const { return is_plain() ? int(order.k) : is_wide() ? 8 : 16; }
  /// From a pair of k to the next, from k to k + 8 of a step. A pair lies together.
  PACELINE_MATH int next_pair() const { return layout == RowLayout::fragments ? 4 : 2; }
  PACELINE_MATH int next_half() const { return is_plain() ? 8 : is_wide() ? 64 : 2; }
  /// Where value k of row `row` lies in its tile's step.
  PACELINE_MATH int place_in_tile(int row, int k) const {
    return row * next_row() + k / 8 * next_half() + k % 8 / 2 * next_pair() + k % 2;
  }

  /// A row whose values are written one after another, or some of them; is_exact() only.
  struct Row {
    __nv_bfloat16* first;
    int next_step, next_pair, next_half;

    __device__ __nv_bfloat16* place(int64_t i) const {
      const unsigned at = unsigned(i), k = at % kStep;
      return first + int64_t{next_step} * int(at / kStep) +
             int(k / 8 * unsigned(next_half) + k % 8 / 2 * unsigned(next_pair) + k % 2);
    }
    __device__ void put(int64_t i, float x) const { *place(i) = __float2bfloat16_rn(x); }
    /// Values i to i + 3; i: a multiple of 4.
    __device__ void put4(int64_t i, float4 x) const {
      __nv_bfloat16* const to = place(i);
      const uint2 pairs = {bfloat_pair(x.x, x.y), bfloat_pair(x.z, x.w)};
      if (next_pair == 2) {  // side by side
        *reinterpret_cast<uint2*>(to) = pairs;
      } else {
        *reinterpret_cast<uint32_t*>(to) = pairs.x;
        *reinterpret_cast<uint32_t*>(to + next_pair) = pairs.y;
      }
    }
    /// Values i to i + 7; i: a multiple of 8.
    __device__ void put8(int64_t i, const float (&x)[8]) const {
      if (next_pair == 2) {
        *reinterpret_cast<uint4*>(place(i)) = {bfloat_pair(x[0], x[1]), bfloat_pair(x[2], x[3]),
                                               bfloat_pair(x[4], x[5]), bfloat_pair(x[6], x[7])};
      } else {
        put4(i, {x[0], x[1], x[2], x[3]});
        put4(i + 4, {x[4], x[5], x[6], x[7]});
      }
    }
  };
  PACELINE_MATH Row row(int index) const {
    const int number = group_of(index), in_group = index - number * group_rows;
    return {.first = group(number) + in_group / 8 * next_tile() + in_group % 8 * next_row(),
            .next_step = is_plain() ? kStep : row_tiles(number) * kTileValues,
            .next_pair = next_pair(),
            .next_half = next_half()};
  }
};

}  // namespace paceline::cuda
