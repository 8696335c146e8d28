#include "engine/weights/gguf_blocks.h"

#include <array>

#include "kernels/host_weight.h"

namespace paceline {
namespace {

struct Decodable {
  GgufType type;
  BlockFormat format;
};

constexpr std::array<Decodable, kNumBlockFormats> kDecodable = {{
    {GgufType::f32, BlockFormat::f32},
    {GgufType::f16, BlockFormat::f16},
    {GgufType::bf16, BlockFormat::bf16},
    {GgufType::q8_0, BlockFormat::q8_0},
    {GgufType::q4_0, BlockFormat::q4_0},
    {GgufType::q4_1, BlockFormat::q4_1},
    {GgufType::q5_0, BlockFormat::q5_0},
    {GgufType::q5_1, BlockFormat::q5_1},
    {GgufType::q2_k, BlockFormat::q2_k},
    {GgufType::q3_k, BlockFormat::q3_k},
    {GgufType::q4_k, BlockFormat::q4_k},
    {GgufType::q5_k, BlockFormat::q5_k},
    {GgufType::q6_k, BlockFormat::q6_k},
    {GgufType::iq4_nl, BlockFormat::iq4_nl},
    {GgufType::iq4_xs, BlockFormat::iq4_xs},
}};

std::optional<BlockFormat> format_of(const GgufTypeInfo& type) {
  for (const Decodable& each : kDecodable)
    if (uint32_t(each.type) == type.number) return each.format;
  return std::nullopt;
}

}  // namespace

std::string decodable_gguf_types() {
  std::string list;
  for (const Decodable& each : kDecodable)
    list += (list.empty() ? "" : ", ") + std::string(find_gguf_type(uint32_t(each.type))->name);
  return list;
}

bool is_decodable(const GgufTypeInfo& type) { return format_of(type).has_value(); }

std::optional<DType> plain_dtype(const GgufTypeInfo& type) {
  switch (GgufType(type.number)) {
    case GgufType::f32: return DType::f32;
    case GgufType::f16: return DType::f16;
    case GgufType::bf16: return DType::bf16;
    default: return std::nullopt;
  }
}

void decode_gguf(const GgufTypeInfo& type, const std::byte* tensor, int64_t tensor_cols, const TensorRange& range,
                 DType dtype, void* out) {
  const std::optional<BlockFormat> format = format_of(type);
  PACELINE_CHECK(format, "{} blocks", type.name);
  const BlockShape block = block_shape(*format);
  PACELINE_CHECK(uint32_t(block.elements) == type.block_elements && uint32_t(block.bytes) == type.block_bytes &&
                     tensor_cols % block.elements == 0,
                 "{} blocks in rows of {}", type.name, tensor_cols);
  const int64_t row_bytes = tensor_cols / block.elements * block.bytes;
  const size_t out_bytes = size_t(range.num_cols) * dtype_bytes(dtype);
  auto* to = static_cast<std::byte*>(out);
  for (int64_t row = range.row_begin; row < range.row_begin + range.num_rows; ++row, to += out_bytes)
    decode_row(*format, tensor + row * row_bytes, range.col_begin, range.col_begin + range.num_cols, dtype, to);
}

}  // namespace paceline
