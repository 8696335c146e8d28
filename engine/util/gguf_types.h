#pragma once
// The storage types of GGUF tensors: their names, and the blocks that they come in. Numbers, names and sizes are those
// of ggml's enum ggml_type and its block structs (ggml.h, ggml-common.h); numbers that ggml has given up stay unknown.

#include <cstdint>
#include <string_view>

namespace paceline {

enum class GgufType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  bf16 = 30,
};

/// A row is whole blocks: `block_elements` values in `block_bytes` bytes.
struct GgufTypeInfo {
  uint32_t number = 0;
  std::string_view name;  // "Q4_K"
  uint32_t block_elements = 0;
  uint32_t block_bytes = 0;
};

/// Null: no such type is known. Types that Paceline cannot read are known, too: their tensors may be unused.
const GgufTypeInfo* find_gguf_type(uint32_t number);

}  // namespace paceline
