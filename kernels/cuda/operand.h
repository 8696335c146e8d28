#pragma once
// The rows that a bfloat16 GEMM multiplies, rounded, in the order of its other operand: [group of rows][step of all
// chunks][8 rows][128 values]. The last group holds as many tiles of 8 rows as it needs. Few rows: the values of a tile
// in the order of mma.m16n8k16's registers, [lane][4 values]. Many rows: in that of wgmma's shared memory, [half of the
// 16 k][row][8 values]. Rows beyond the last may hold anything; values that fill up a chunk are zeros.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/fragments.h"

namespace paceline::cuda {

/// Rows that one pass of gemm_bf16 takes, and a block of gemm_wide.
inline constexpr int kMaxRowTile = 32;
inline constexpr int kWideRows = 128;

struct Operand {
  FragmentOrder order{0, 1};
  int rows = 0;
  int group_rows = kMaxRowTile;  // or kWideRows
  __nv_bfloat16* values = nullptr;

  static constexpr int kTileValues = 8 * kStep;

  PACELINE_MATH bool is_wide() const { return group_rows == kWideRows; }
  PACELINE_MATH int groups() const { return (rows + group_rows - 1) / group_rows; }
  PACELINE_MATH int row_tiles(int group) const {
    return group + 1 < groups() ? group_rows / 8 : (rows - group * group_rows + 7) / 8;
  }
  PACELINE_MATH int64_t all_steps() const { return int64_t{order.chunks} * order.steps; }
  size_t bytes() const { return size_t(groups()) * size_t(all_steps()) * size_t(group_rows) * kStep * sizeof(*values); }
  PACELINE_MATH __nv_bfloat16* group(int index) const { return values + index * all_steps() * group_rows * kStep; }
  /// No zeros are needed, so that kernels may write a row value by value.
  PACELINE_MATH bool is_exact() const { return all_steps() * kStep == order.k; }

  /// In a tile: from a row to the next, from a pair of k to the next, from k to k + 8. A pair lies together.
  PACELINE_MATH int next_row() const { return is_wide() ? 8 : 16; }
  PACELINE_MATH int next_pair() const { return is_wide() ? 2 : 4; }
  PACELINE_MATH int next_half() const { return is_wide() ? 64 : 2; }
  /// Where value k of row `row` lies in its tile.
  PACELINE_MATH int place_in_tile(int row, int k) const {
    return row * next_row() + k / 8 * next_half() + k % 8 / 2 * next_pair() + k % 2;
  }

  /// A row whose values are written one after another, or some of them; is_exact() only.
  struct Row {
    __nv_bfloat16* first;
    int64_t next_step;
    int next_pair, next_half;

    __device__ __nv_bfloat16* place(int64_t i) const {
      const int k = int(i % kStep);
      return first + i / kStep * next_step + k / 8 * next_half + k % 8 / 2 * next_pair + k % 2;
    }
    __device__ void put(int64_t i, float x) const { *place(i) = __float2bfloat16_rn(x); }
    /// Values i to i + 3; i: a multiple of 4.
    __device__ void put4(int64_t i, float4 x) const {
      __nv_bfloat16* const to = place(i);
      *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(x.x, x.y);
      *reinterpret_cast<__nv_bfloat162*>(to + next_pair) = __floats2bfloat162_rn(x.z, x.w);
    }
  };
  __device__ Row row(int index) const {
    const int of_group = index / group_rows, tiles = row_tiles(of_group), in_group = index - of_group * group_rows;
    return {.first = group(of_group) + in_group / 8 * kTileValues + in_group % 8 * next_row(),
            .next_step = int64_t{tiles} * kTileValues,
            .next_pair = next_pair(),
            .next_half = next_half()};
  }
};

}  // namespace paceline::cuda
