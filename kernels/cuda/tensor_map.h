#pragma once
// Tensor maps of matrices in device memory, by which kernels copy boxes into shared memory. No kernel here.

#include <cstdint>
#include <cuda.h>

namespace paceline::cuda {

/// Rows of `cols` elements, row_bytes apart, and the boxes that are copied: box_rows x box_cols elements (256 at most
/// each), row after row. Elements beyond the matrix are zeros.
struct BoxedMatrix {
  CUtensorMapDataType type;
  const void* data;
  int64_t rows, cols;
  int64_t row_bytes;  // a multiple of 16
  int box_rows, box_cols;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
};

/// For devices of compute capability 9.0 and newer; a kernel's argument by value, as __grid_constant__. Throws
/// Error(device) with the driver's code.
CUtensorMap tensor_map(const BoxedMatrix& matrix);

}  // namespace paceline::cuda
