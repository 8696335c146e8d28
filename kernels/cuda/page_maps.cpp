#include "kernels/cuda/page_maps.h"

#include <cuda_runtime.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/error.h"

namespace paceline::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's function: the library itself is not linked.
Encode find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const char* const name = "cuTensorMapEncodeTiled";
#if CUDART_VERSION >= 12050
  constexpr unsigned kSince = 12000;
  check(cudaGetDriverEntryPointByVersion(name, &found, kSince, cudaEnableDefault, &result), name);
#else
  check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result), name);
#endif
  if (!found || result != cudaDriverEntryPointSuccess)
    fail(ExitCode::device, "the driver has no {}: it is older than CUDA 12", name);
  return reinterpret_cast<Encode>(found);
}

CUtensorMap map_of(void* pages, int dim) {
  static const Encode encode = find_encode();
  constexpr cuuint64_t kAnyRows = INT32_MAX;  // whoever names a row knows that it is there
  const cuuint64_t size[] = {cuuint64_t(dim), kAnyRows}, stride[] = {cuuint64_t(dim) * 2};
  const cuuint32_t box[] = {64, kCopiedKeys}, step[] = {1, 1};
  CUtensorMap map;
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, pages, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail(ExitCode::device, "cuTensorMapEncodeTiled: code {} for rows of {} values", int(status), dim);
  return map;
}

}  // namespace

const PageMaps& PageMapCache::of(const KvView& kv) {
  Made& made = made_[kv.k];
  if (made.v != kv.v || made.k_dim != kv.k_dim)
    made = {.v = kv.v, .k_dim = kv.k_dim, .maps = {.k = map_of(kv.k, kv.k_dim), .v = map_of(kv.v, kv.k_dim)}};
  return made.maps;
}

}  // namespace paceline::cuda
