#pragma once
// From the packed values of GGUF tensors to floats (kernels/cpu/blocks.inl has the formats).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/util/gguf_types.h"
#include "engine/weights/tensor_source.h"

namespace paceline {

/// Types that decode_gguf knows: "F32, F16, Q4_0, …".
std::string decodable_gguf_types();
bool is_decodable(const GgufTypeInfo& type);

/// The type's values are floats as they stand: F32, F16 and BF16. Empty: they are packed.
std::optional<DType> plain_dtype(const GgufTypeInfo& type);

/// Rows and columns `range` of the tensor at `tensor`, rows of `tensor_cols` values, go to `out` [num_rows, num_cols]
/// as `dtype` (float32, exact; bfloat16 or float16, rounded to nearest even). Cuts may lie inside blocks. REQUIRES
/// is_decodable(type), whole blocks a row, the range inside the tensor. Any thread.
void decode_gguf(const GgufTypeInfo& type, const std::byte* tensor, int64_t tensor_cols, const TensorRange& range,
                 DType dtype, void* out);

}  // namespace paceline
