#pragma once
// The rows that gemm_bf16 multiplies, rounded to bfloat16, in the order of the other operand of mma.m16n8k16: [group of
// kMaxRowTile rows][step of all chunks][8 rows][lane][4 values]. The last group holds as many tiles of 8 rows as it
// needs. Rows beyond the last may hold anything; values that fill up a chunk are zeros.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/fragments.h"

namespace paceline::cuda {

/// Rows that one pass of gemm_bf16 takes.
inline constexpr int kMaxRowTile = 32;

struct Operand {
  FragmentOrder order{0, 1};
  int rows = 0;
  __nv_bfloat16* values = nullptr;

  PACELINE_MATH int groups() const { return (rows + kMaxRowTile - 1) / kMaxRowTile; }
  PACELINE_MATH int row_tiles(int group) const {
    return group + 1 < groups() ? kMaxRowTile / 8 : (rows - group * kMaxRowTile + 7) / 8;
  }
  PACELINE_MATH int64_t all_steps() const { return int64_t{order.chunks} * order.steps; }
  size_t bytes() const { return size_t(groups()) * size_t(all_steps()) * kMaxRowTile * kStep * sizeof(*values); }
  /// By 4 values of a lane.
  PACELINE_MATH uint2* group(int index) const {
    return reinterpret_cast<uint2*>(values) + index * all_steps() * (kMaxRowTile / 8) * 32;
  }
  /// No zeros are needed, so that kernels may write a row value by value.
  PACELINE_MATH bool is_exact() const { return all_steps() * kStep == order.k; }

  /// Value i of a row; is_exact() only.
  __device__ void put(int row, int64_t i, float x) const {
    const int group_index = row / kMaxRowTile, k = int(i % kStep);
    const int64_t tile = i / kStep * row_tiles(group_index) + row % kMaxRowTile / 8;
    const int lane = row % 8 * 4 + k % 8 / 2;
    __nv_bfloat16* const to = reinterpret_cast<__nv_bfloat16*>(group(group_index) + tile * 32 + lane);
    to[k / 8 * 2 + k % 2] = __float2bfloat16_rn(x);
  }
};

}  // namespace paceline::cuda
