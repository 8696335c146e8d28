#pragma once
// Storage types of weights and KV, and scalar conversions (round to nearest even). Includable from
// instruction-set-specific files: nothing here is emitted out of line.

#include <cstdint>

#include "kernels/math/elementary.h"

namespace paceline {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};

PACELINE_MATH float to_f32(float x) { return x; }
PACELINE_MATH float to_f32(BFloat x) { return math::bits_float(uint32_t(x.bits) << 16); }
PACELINE_MATH float to_f32(Half x) {
  const uint32_t sign = uint32_t(x.bits & 0x8000u) << 16;
  const uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // inf; NaN is made quiet, as the hardware does
    return math::bits_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13 | (magnitude > 0x7c00u ? 0x400000u : 0u));
  // 2^112 rebiases the exponent; exact for normals and subnormals
  return math::bits_float(math::float_bits(math::bits_float(magnitude << 13) * 5.192296858534828e33f) | sign);
}

/// The bits of floats, or of a vector of them, rounded to bfloat16: its bits are the upper half, the lower is zero.
template <class Bits>
PACELINE_MATH Bits rounded_to_bfloat(Bits bits) {
  const Bits rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return ((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded) & 0xffff0000u;
}

PACELINE_MATH void from_f32(float x, float* out) { *out = x; }
PACELINE_MATH void from_f32(float x, BFloat* out) {
  out->bits = uint16_t(rounded_to_bfloat(math::float_bits(x)) >> 16);
}
PACELINE_MATH void from_f32(float x, Half* out) {
  const uint32_t bits = math::float_bits(x);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to inf
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal
    half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  } else {  // subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits
    half = math::float_bits(math::bits_float(magnitude) + 0.5f) - 0x3f000000u;
  }
  out->bits = uint16_t(sign | half);
}

}  // namespace paceline
