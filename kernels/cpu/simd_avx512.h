#pragma once
// F32x16 as one 512-bit register. For inclusion by kernels_avx512*.cpp only; semantics: simd_scalar.h.

// GCC 12 sees the "undefined" operands inside its own intrinsics as uses of uninitialized values.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "kernels/cpu/storage.h"

namespace paceline {
namespace {

inline constexpr int kVectorRegisters = 32;  // F32x16 that they hold
inline constexpr int kMaxAccumulators = 24;
inline constexpr bool kTwoStepsATurn = false;  // of gemm.inl

struct F32x16 {
  __m512 v;
  F32x16() = default;
  PACELINE_MATH explicit F32x16(float x) : v(_mm512_set1_ps(x)) {}
  PACELINE_MATH explicit F32x16(__m512 x) : v(x) {}
};

PACELINE_MATH __mmask16 first_lanes(int count) {
  return count >= 16 ? __mmask16(0xffff) : __mmask16((1u << (count < 0 ? 0 : count)) - 1u);
}

PACELINE_MATH F32x16 operator+(F32x16 a, F32x16 b) { return F32x16(_mm512_add_ps(a.v, b.v)); }
PACELINE_MATH F32x16 operator-(F32x16 a, F32x16 b) { return F32x16(_mm512_sub_ps(a.v, b.v)); }
PACELINE_MATH F32x16 operator*(F32x16 a, F32x16 b) { return F32x16(_mm512_mul_ps(a.v, b.v)); }
PACELINE_MATH F32x16 operator/(F32x16 a, F32x16 b) { return F32x16(_mm512_div_ps(a.v, b.v)); }
PACELINE_MATH F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return F32x16(_mm512_fmadd_ps(a.v, b.v, c.v)); }
PACELINE_MATH F32x16 max_or_second(F32x16 a, F32x16 b) { return F32x16(_mm512_max_ps(a.v, b.v)); }
PACELINE_MATH F32x16 min_or_second(F32x16 a, F32x16 b) { return F32x16(_mm512_min_ps(a.v, b.v)); }
PACELINE_MATH F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return F32x16(_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v));
}
// One instruction each, with the bits of the forms in kernels/math/elementary.h.
PACELINE_MATH F32x16 rounded_to_integral(F32x16 x) {
  return F32x16(_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
PACELINE_MATH F32x16 times_pow2(F32x16 y, F32x16 n) { return F32x16(_mm512_scalef_ps(y.v, n.v)); }
PACELINE_MATH F32x16 shift_bits_left_23(F32x16 x) {
  return F32x16(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x.v), 23)));
}

PACELINE_MATH F32x16 widen(__m256i bits, const BFloat*) {
  return F32x16(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16)));
}
PACELINE_MATH F32x16 widen(__m256i bits, const Half*) { return F32x16(_mm512_cvtph_ps(bits)); }

PACELINE_MATH F32x16 load(const float* from) { return F32x16(_mm512_loadu_ps(from)); }
template <class T>
PACELINE_MATH F32x16 load(const T* from) {
  return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)), from);
}
PACELINE_MATH F32x16 load_n(const float* from, int count) {
  return F32x16(_mm512_maskz_loadu_ps(first_lanes(count), from));
}
template <class T>
PACELINE_MATH F32x16 load_n(const T* from, int count) {
  return widen(_mm256_maskz_loadu_epi16(first_lanes(count), from), from);
}

PACELINE_MATH __m256i narrow(F32x16 x, const Half*) { return _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT); }
PACELINE_MATH __m256i narrow(F32x16 x, const BFloat*) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_blend_epi32(is_nan, rounded, quiet), 16));
}
PACELINE_MATH void store(float* to, F32x16 x) { _mm512_storeu_ps(to, x.v); }
template <class T>
PACELINE_MATH void store(T* to, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow(x, to));
}
PACELINE_MATH void store_n(float* to, F32x16 x, int count) { _mm512_mask_storeu_ps(to, first_lanes(count), x.v); }
template <class T>
PACELINE_MATH void store_n(T* to, F32x16 x, int count) {
  _mm256_mask_storeu_epi16(to, first_lanes(count), narrow(x, to));
}

/// 16 signed bytes as floats.
PACELINE_MATH F32x16 load_bytes(const int8_t* from) {
  return F32x16(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))));
}
/// In all lanes.
PACELINE_MATH F32x16 in_all_lanes(Half x) { return F32x16(_mm512_cvtph_ps(_mm256_set1_epi16(short(x.bits)))); }

/// out[i], out[16 + i]: that lane of `levels` which the low, the high nibble of byte i names.
PACELINE_MATH void put_levels(F32x16 levels, const uint8_t* nibbles, float* out) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(nibbles)));
  _mm512_storeu_ps(out, _mm512_permutexvar_ps(bytes, levels.v));  // takes the low four bits
  _mm512_storeu_ps(out + 16, _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), levels.v));
}
template <class T>
PACELINE_MATH void put_levels(F32x16 levels, const uint8_t* nibbles, T* out) {
  const __m256i low = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(nibbles)));
  const __m512i each = _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_srli_epi16(low, 4), 1);
  const __m512i words = _mm512_broadcast_i64x4(narrow(levels, out));
  _mm512_storeu_si512(out, _mm512_permutexvar_epi16(each, words));  // takes the low five bits: both halves are alike
}

PACELINE_MATH F32x16 keep_lanes(F32x16 x, int begin, int end, float other) {
  const __mmask16 keep = __mmask16(first_lanes(end) & ~first_lanes(begin));
  return F32x16(_mm512_mask_blend_ps(keep, _mm512_set1_ps(other), x.v));
}
PACELINE_MATH __m256 upper_half(__m512 x) { return _mm512_extractf32x8_ps(x, 1); }
PACELINE_MATH float sum_lanes(F32x16 x) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), upper_half(x.v));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
PACELINE_MATH float max_lanes(F32x16 x) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x.v), upper_half(x.v));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
PACELINE_MATH void pin(F32x16& x) { asm volatile("" : "+v"(x.v)); }
PACELINE_MATH F32x16 load_of_pairs(const BFloat* from, int which) {
  const __m512i words = _mm512_loadu_si512(from);
  return F32x16(_mm512_castsi512_ps(which == 0 ? _mm512_and_si512(words, _mm512_set1_epi32(int(0xffff0000u)))
                                               : _mm512_slli_epi32(words, 16)));
}
PACELINE_MATH void prefetch_l2(const void* address) { _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T1); }

}  // namespace
}  // namespace paceline
