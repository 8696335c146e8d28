#pragma once
// F32x16 as two 256-bit registers. For inclusion by kernels_avx2.cpp only; semantics: simd_scalar.h.

#include <immintrin.h>

#include "kernels/cpu/storage.h"

namespace paceline {
namespace {

inline constexpr int kVectorRegisters = 8;  // F32x16 that they hold
inline constexpr int kMaxAccumulators = 6;
inline constexpr bool kTwoStepsATurn = true;  // of gemm.inl

struct F32x16 {
  __m256 low, high;
  F32x16() = default;
  PACELINE_MATH explicit F32x16(float x) : low(_mm256_set1_ps(x)), high(low) {}
  PACELINE_MATH F32x16(__m256 l, __m256 h) : low(l), high(h) {}
};

PACELINE_MATH F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
PACELINE_MATH F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
PACELINE_MATH F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
PACELINE_MATH F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
PACELINE_MATH F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
PACELINE_MATH F32x16 max_or_second(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
PACELINE_MATH F32x16 min_or_second(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
PACELINE_MATH F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
PACELINE_MATH __m256 shift_left_23(__m256 x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 23));
}
PACELINE_MATH F32x16 shift_bits_left_23(F32x16 x) { return {shift_left_23(x.low), shift_left_23(x.high)}; }

PACELINE_MATH F32x16 load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
PACELINE_MATH __m256 load_bfloat8(const BFloat* from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
PACELINE_MATH F32x16 load(const BFloat* from) { return {load_bfloat8(from), load_bfloat8(from + 8)}; }
PACELINE_MATH F32x16 load(const Half* from) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8)))};
}
template <class T>
PACELINE_MATH F32x16 load_n(const T* from, int count) {
  if (count >= 16) return load(from);
  alignas(64) float buffer[16] = {};
  for (int i = 0; i < count; ++i) buffer[i] = to_f32(from[i]);
  return load(buffer);
}

PACELINE_MATH void store(float* to, F32x16 x) {
  _mm256_storeu_ps(to, x.low);
  _mm256_storeu_ps(to + 8, x.high);
}
PACELINE_MATH void store(Half* to, F32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(x.low, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8), _mm256_cvtps_ph(x.high, _MM_FROUND_TO_NEAREST_INT));
}
template <class T>
PACELINE_MATH void store_n(T* to, F32x16 x, int count) {
  alignas(64) float buffer[16];
  store(buffer, x);
  for (int i = 0; i < 16 && i < count; ++i) from_f32(buffer[i], to + i);
}
PACELINE_MATH void store_n(float* to, F32x16 x, int count) {
  if (count >= 16) return store(to, x);
  alignas(64) float buffer[16];
  store(buffer, x);
  for (int i = 0; i < count; ++i) to[i] = buffer[i];
}
PACELINE_MATH void store(BFloat* to, F32x16 x) { store_n(to, x, 16); }

PACELINE_MATH __m256 load_bytes8(const int8_t* from) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
/// 16 signed bytes as floats.
PACELINE_MATH F32x16 load_bytes(const int8_t* from) { return {load_bytes8(from), load_bytes8(from + 8)}; }
/// In all lanes.
PACELINE_MATH F32x16 in_all_lanes(Half x) { return F32x16(to_f32(x)); }

PACELINE_MATH F32x16 keep_lanes(F32x16 x, int begin, int end, float other) {
  const __m256 lane = _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 first = _mm256_set1_ps(float(begin)), last = _mm256_set1_ps(float(end));
  const __m256 lane_high = _mm256_add_ps(lane, _mm256_set1_ps(8.0f));
  const __m256 keep_low = _mm256_and_ps(_mm256_cmp_ps(lane, first, _CMP_GE_OQ), _mm256_cmp_ps(lane, last, _CMP_LT_OQ));
  const __m256 keep_high =
      _mm256_and_ps(_mm256_cmp_ps(lane_high, first, _CMP_GE_OQ), _mm256_cmp_ps(lane_high, last, _CMP_LT_OQ));
  const __m256 fill = _mm256_set1_ps(other);
  return {_mm256_blendv_ps(fill, x.low, keep_low), _mm256_blendv_ps(fill, x.high, keep_high)};
}
PACELINE_MATH float sum_lanes(F32x16 x) {
  const __m256 eight = _mm256_add_ps(x.low, x.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
PACELINE_MATH float max_lanes(F32x16 x) {
  const __m256 eight = _mm256_max_ps(x.low, x.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
PACELINE_MATH void pin(F32x16& x) { asm volatile("" : "+x"(x.low), "+x"(x.high)); }
PACELINE_MATH __m256 of_pairs(__m256i words, int which) {
  const __m256i upper = _mm256_set1_epi32(int(0xffff0000u));
  return _mm256_castsi256_ps(which == 0 ? _mm256_and_si256(words, upper) : _mm256_slli_epi32(words, 16));
}
PACELINE_MATH F32x16 load_of_pairs(const BFloat* from, int which) {
  return {of_pairs(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)), which),
          of_pairs(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 16)), which)};
}
PACELINE_MATH void prefetch_l2(const void* address) { _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T1); }

}  // namespace
}  // namespace paceline
