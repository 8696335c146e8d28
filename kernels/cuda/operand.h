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

  /// Where value k of row `row` lies in its tile; k and k + 1 lie together for even k.
  PACELINE_MATH int place_in_tile(int row, int k) const {
    return is_wide() ? k / 8 * 64 + row * 8 + k % 8 : (row * 4 + k % 8 / 2) * 4 + k / 8 * 2 + k % 2;
  }
  /// Value i of row `row` of a group with so many tiles, counted from the group's first value; is_exact() only.
  PACELINE_MATH int64_t place(int row_tiles_of_group, int row, int64_t i) const {
    return (i / kStep * row_tiles_of_group + row / 8) * kTileValues + place_in_tile(row % 8, int(i % kStep));
  }
  /// Value i of a row; is_exact() only.
  __device__ void put(int row, int64_t i, float x) const {
    const int index = is_wide() ? row / kWideRows : row / kMaxRowTile;
    group(index)[place(row_tiles(index), row - index * group_rows, i)] = __float2bfloat16_rn(x);
  }
};

}  // namespace paceline::cuda
