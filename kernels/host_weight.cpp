#include "kernels/host_weight.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/storage.h"
#include "kernels/error.h"
#include "kernels/row_blocks.h"

namespace paceline {
namespace {

/// Of this machine.
const CpuKernels& best_kernels() {
  static const CpuKernels& kernels = *kernels_for(best_isa());
  return kernels;
}

template <class Bits>
const Bits* row_of(const HostWeight& weight, int64_t row) {
  return static_cast<const Bits*>(weight.data) + row * weight.row_stride;
}

bool any_at_least(const uint16_t* data, int64_t count, uint16_t mask, uint16_t limit) {
  return best_kernels().any_at_least16(data, count, mask, limit);
}
bool any_at_least(const uint32_t* data, int64_t count, uint32_t mask, uint32_t limit) {
  return best_kernels().any_at_least32(data, count, mask, limit);
}

/// Without its sign a float's bits order like its magnitude, NaN above infinity: one comparison finds them all.
template <class Bits>
std::optional<BadValue> find_at_least(const HostWeight& weight, Bits magnitude_mask, Bits limit) {
  for (int64_t row = 0; row < weight.rows; ++row) {
    const Bits* const data = row_of<Bits>(weight, row);
    if (!any_at_least(data, weight.cols, magnitude_mask, limit)) continue;
    const Bits* bad = std::find_if(data, data + weight.cols, [&](Bits b) { return (b & magnitude_mask) >= limit; });
    return BadValue{.row = row, .col = bad - data};
  }
  return std::nullopt;
}

}  // namespace

float value_at(const HostWeight& weight, int64_t row, int64_t col) {
  PACELINE_CHECK(row < weight.rows && col < weight.cols, "[{}, {}] of [{}, {}]", row, col, weight.rows, weight.cols);
  switch (weight.dtype) {
    case DType::f32: return row_of<float>(weight, row)[col];
    case DType::bf16: return to_f32(BFloat{row_of<uint16_t>(weight, row)[col]});
    case DType::f16: return to_f32(Half{row_of<uint16_t>(weight, row)[col]});
    default: break;
  }
  fail(ExitCode::model_file, "weights of dtype {} are not supported", dtype_name(weight.dtype));
}

std::vector<float> to_floats(const HostWeight& weight) {
  std::vector<float> values(size_t(weight.cols));
  for (int64_t col = 0; col < weight.cols; ++col) values[size_t(col)] = value_at(weight, 0, col);
  return values;
}

BlockShape block_shape(BlockFormat format) {
  const BlockDecoder& decoder = best_kernels().blocks[size_t(format)];
  return {.elements = decoder.elements, .bytes = decoder.bytes};
}

void decode_row(BlockFormat format, const std::byte* row, int64_t begin, int64_t end, DType storage, void* out) {
  best_kernels().blocks[size_t(format)].decode[storage_index(storage)](reinterpret_cast<const uint8_t*>(row), begin,
                                                                       end, out);
}

std::optional<BadValue> find_unstorable(const HostWeight& weight, DType storage) {
  // Smallest magnitudes that do not survive: infinity of the source, or half a step above the largest finite value
  // of the storage type.
  switch (weight.dtype) {
    case DType::f16: return find_at_least<uint16_t>(weight, 0x7fff, 0x7c00);
    case DType::bf16: return find_at_least<uint16_t>(weight, 0x7fff, storage == DType::f16 ? 0x4780 : 0x7f80);
    case DType::f32:
      return find_at_least<uint32_t>(weight, 0x7fffffff,
                                     storage == DType::f16    ? 0x477ff000
                                     : storage == DType::bf16 ? 0x7f7f8000
                                                              : 0x7f800000);
    default: break;
  }
  fail(ExitCode::model_file, "weights of dtype {} are not supported", dtype_name(weight.dtype));
}

bool any_unstorable(const HostWeight& weight, DType storage) {
  std::atomic<bool> found = false;
  for_row_blocks(weight.rows, weight.cols, [&](int64_t begin, int64_t end) {
    HostWeight block = weight;
    block.data = static_cast<const char*>(weight.data) + begin * weight.row_stride * int64_t(dtype_bytes(weight.dtype));
    block.rows = end - begin;
    if (find_unstorable(block, storage)) found = true;
  });
  return found;
}

}  // namespace paceline
