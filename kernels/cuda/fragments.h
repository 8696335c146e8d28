#pragma once
// Where a bfloat16 weight lies on the device: in the order of the registers of mma.m16n8k16, weights on the M side.
// [tile of 16 outputs][chunk][step of 16 k][lane][8 values], so that a lane reads 16 bytes, a warp 512 in a row, and a
// warp that owns a chunk streams it. Chunks as in docs/numerics.md; all have as many steps, filled with zeros.

#include <cstdint>

#include "kernels/math/elementary.h"

namespace paceline::cuda {

inline constexpr int kTile = 16;       // outputs
inline constexpr int kStep = 16;       // values of k
inline constexpr int kFragment = 256;  // values of a tile's step

/// Of parts in pairs (a gate and what it gates): row `row` of part `part` as it lies. Tile 2u holds rows 16u to 16u + 7
/// of both parts, one behind the other, tile 2u + 1 the next eight: a thread of mma.m16n8k16, which has outputs r and
/// r + 8, then has both of one place.
PACELINE_MATH constexpr int64_t paired_row(int64_t row, int part) { return (row / 8) * kTile + part * 8 + row % 8; }

struct FragmentOrder {
  int64_t k = 0;
  int chunks = 1;
  int steps = 0;  // of a chunk

  PACELINE_MATH FragmentOrder(int64_t k_, int chunks_)
      : k(k_), chunks(chunks_), steps(int(((k_ + chunks_ - 1) / chunks_ + kStep - 1) / kStep)) {}
  PACELINE_MATH int64_t chunk_begin(int chunk) const { return chunk * k / chunks; }
  /// Values of one tile.
  PACELINE_MATH int64_t tile_values() const { return int64_t{chunks} * steps * kFragment; }
};

/// Of output `row` and value `i` of a chunk, within the chunk's steps of the row's tile.
PACELINE_MATH int64_t fragment_index(int row, int64_t i) {
  const int k = int(i % kStep);
  const int lane = row % 8 * 4 + k % 8 / 2;
  const int value = (row / 8 + k / 8 * 2) * 2 + k % 2;
  return i / kStep * kFragment + lane * 8 + value;
}

}  // namespace paceline::cuda
