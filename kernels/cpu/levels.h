#pragma once
// Sixteen levels by nibbles, for instruction sets that cannot permute a whole vector. Included after the vector type.

namespace paceline {
namespace {

/// out[i], out[16 + i]: that lane of `levels` which the low, the high nibble of byte i names.
template <class T>
PACELINE_MATH void put_levels(F32x16 levels, const uint8_t* nibbles, T* out) {
  T level[16];
  store(level, levels);
  for (int i = 0; i < 16; ++i) out[i] = level[nibbles[i] & 15];
  for (int i = 0; i < 16; ++i) out[16 + i] = level[nibbles[i] >> 4];
}

}  // namespace
}  // namespace paceline
