#pragma once
// The formats of weights that a file keeps in blocks: a row is a run of blocks, a few values each, with scales of their
// own (ggml's block structs; those of one value are plain floats).

#include <cstdint>

namespace paceline {

enum class BlockFormat : uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
};
inline constexpr int kNumBlockFormats = 15;

/// `elements` values in `bytes` bytes.
struct BlockShape {
  int elements = 0;
  int bytes = 0;
};

}  // namespace paceline
