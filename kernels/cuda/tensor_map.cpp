#include "kernels/cuda/tensor_map.h"

#include <cuda_runtime.h>

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

}  // namespace

CUtensorMap tensor_map(const BoxedMatrix& matrix) {
  static const Encode encode = find_encode();
  const cuuint64_t size[] = {cuuint64_t(matrix.cols), cuuint64_t(matrix.rows)};
  const cuuint64_t stride[] = {cuuint64_t(matrix.row_bytes)};
  const cuuint32_t box[] = {cuuint32_t(matrix.box_cols), cuuint32_t(matrix.box_rows)}, step[] = {1, 1};
  CUtensorMap map;
  const CUresult status =
      encode(&map, matrix.type, 2, const_cast<void*>(matrix.data), size, stride, box, step,
             CU_TENSOR_MAP_INTERLEAVE_NONE, matrix.swizzle, matrix.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail(ExitCode::device, "cuTensorMapEncodeTiled: code {} for {} rows of {} elements, {} bytes apart", int(status),
         matrix.rows, matrix.cols, matrix.row_bytes);
  return map;
}

}  // namespace paceline::cuda
