#pragma once
// The place of one weight, for the kernels that pack and look up single ones.

#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/weight_order.h"
#include "kernels/mat_view.h"

namespace paceline::cuda {

struct WeightPlace {
  WeightOrder order;
  int64_t padded_n;  // columns of the [k][n] form
};

/// Index of output `row`, counted in tiles as they lie, and input `i`, in elements of T.
template <class T>
__device__ __forceinline__ int64_t weight_index(const WeightPlace& place, int64_t row, int64_t i) {
  return i * place.padded_n + row;
}
template <>
__device__ __forceinline__ int64_t weight_index<__nv_bfloat16>(const WeightPlace& place, int64_t row, int64_t i) {
  const WeightOrder& order = place.order;
  int chunk = int(i * order.chunks / order.k);  // or one less, as chunk_begin rounds down
  while (chunk + 1 < order.chunks && order.chunk_begin(chunk + 1) <= i) ++chunk;
  while (order.chunk_begin(chunk) > i) --chunk;
  return row / kTile * order.tile_values() + int64_t{chunk} * order.steps * kTileStepValues +
         index_in_chunk(int(row % kTile), i - order.chunk_begin(chunk));
}

}  // namespace paceline::cuda
