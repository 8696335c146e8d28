#pragma once
// Where a bfloat16 weight lies on the device: in matrices of 8 outputs x 8 k, whose rows of 16 bytes lie one behind the
// other, as ldmatrix and the descriptors of wgmma take them; weights are on the M side.
//   [tile of 16 outputs][chunk][step of 16 k][half of k][half of the outputs][8 outputs][8 k]
// So a warp reads 512 bytes in a row, and one that owns a chunk streams it. Chunks as in docs/numerics.md; all have as
// many steps, filled with zeros.

#include <cstdint>

#include "kernels/math/elementary.h"

namespace paceline::cuda {

inline constexpr int kTile = 16;  // outputs
inline constexpr int kStep = 16;  // values of k
inline constexpr int kTileStepValues = kTile * kStep;

/// Of parts in pairs (a gate and what it gates): row `row` of part `part` as it lies, tile after tile by turns.
PACELINE_MATH constexpr int64_t paired_row(int64_t row, int part) {
  return (row / kTile * 2 + part) * kTile + row % kTile;
}

struct WeightOrder {
  int64_t k = 0;
  int chunks = 1;
  int steps = 0;  // of a chunk

  PACELINE_MATH WeightOrder(int64_t k_, int chunks_)
      : k(k_), chunks(chunks_), steps(int(((k_ + chunks_ - 1) / chunks_ + kStep - 1) / kStep)) {}
  PACELINE_MATH int64_t chunk_begin(int chunk) const { return chunk * k / chunks; }
  /// Values of one tile.
  PACELINE_MATH int64_t tile_values() const { return int64_t{chunks} * steps * kTileStepValues; }
};

/// Of output `row` and value `i` of a chunk, within the chunk's steps of the row's tile.
PACELINE_MATH int64_t index_in_chunk(int row, int64_t i) {
  const int k = int(i % kStep);
  return i / kStep * kTileStepValues + ((k / 8 * 2 + row / 8) * 8 + row % 8) * 8 + k % 8;
}

}  // namespace paceline::cuda
