#pragma once
// The values of a checkpoint's tensors: float32 copies of vectors, rounding, and the search for values that cannot be
// stored.

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/block_format.h"
#include "kernels/op_args.h"

namespace paceline {

/// Element (row, col) of a float32, float16 or bfloat16 view.
float value_at(const HostWeight& weight, int64_t row, int64_t col);

/// Row 0 of `weight` as float32, [cols].
std::vector<float> to_floats(const HostWeight& weight);

BlockShape block_shape(BlockFormat format);

/// Columns [begin, end) of the row of blocks at `row` as `storage` (f32: exact; bf16, f16: rounded to nearest even) at
/// `out`. Cuts may lie inside blocks. Any thread.
void decode_row(BlockFormat format, const std::byte* row, int64_t begin, int64_t end, DType storage, void* out);

struct BadValue {
  int64_t row = 0;
  int64_t col = 0;
};

/// First element, by row, that is NaN or infinite or would round to infinity when stored as `storage` (f32, f16 or
/// bf16). One pass over the bits, at memory speed.
std::optional<BadValue> find_unstorable(const HostWeight& weight, DType storage);

/// Whether there is one; on several threads where the matrix is large.
bool any_unstorable(const HostWeight& weight, DType storage);

}  // namespace paceline
