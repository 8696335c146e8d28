#pragma once
// From the packed values of GGUF tensors to floats. A row is a run of blocks, each with its own scales; formats are
// those of ggml (ggml-common.h has the structs, ggml-quants.c the formulas), evaluated in float32 in the same order, so
// that float32 has ggml's own bits. Little-endian throughout.

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
