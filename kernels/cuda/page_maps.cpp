#include "kernels/cuda/page_maps.h"

#include "kernels/cuda/attention.h"
#include "kernels/cuda/tensor_map.h"

namespace paceline::cuda {
namespace {

CUtensorMap map_of(const void* pages, int dim) {
  constexpr int64_t kAnyRows = INT32_MAX;  // whoever names a row knows that it is there
  return tensor_map({.type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                     .data = pages,
                     .rows = kAnyRows,
                     .cols = dim,
                     .row_bytes = int64_t{dim} * 2,
                     .box_rows = kCopiedKeys,
                     .box_cols = 64,
                     .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                     .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B});
}

}  // namespace

const PageMaps& PageMapCache::of(const KvView& kv) {
  Made& made = made_[kv.k];
  if (made.v != kv.v || made.k_dim != kv.k_dim)
    made = {.v = kv.v, .k_dim = kv.k_dim, .maps = {.k = map_of(kv.k, kv.k_dim), .v = map_of(kv.v, kv.k_dim)}};
  return made.maps;
}

}  // namespace paceline::cuda
