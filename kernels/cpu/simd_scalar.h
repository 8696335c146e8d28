#pragma once
// F32x16 as an array: the reference of the vector types, and what machines without AVX2 run. For inclusion by
// kernels_scalar.cpp only. Every operation rounds each lane as the AVX-512 instruction does.

#include "kernels/cpu/storage.h"

namespace paceline {
namespace {

inline constexpr int kVectorRegisters = 1;     // F32x16 values that the registers hold
inline constexpr int kMaxAccumulators = 1;     // F32x16 values that a register tile may hold
inline constexpr bool kTwoStepsATurn = false;  // of gemm.inl

struct F32x16 {
  float lane[16];
  F32x16() = default;
  explicit F32x16(float x) {
    for (float& l : lane) l = x;
  }
};

template <class Fn>
PACELINE_MATH F32x16 each_lane(Fn fn) {
  F32x16 y;
  for (int i = 0; i < 16; ++i) y.lane[i] = fn(i);
  return y;
}

PACELINE_MATH F32x16 operator+(F32x16 a, F32x16 b) {
  return each_lane([&](int i) { return a.lane[i] + b.lane[i]; });
}
PACELINE_MATH F32x16 operator-(F32x16 a, F32x16 b) {
  return each_lane([&](int i) { return a.lane[i] - b.lane[i]; });
}
PACELINE_MATH F32x16 operator*(F32x16 a, F32x16 b) {
  return each_lane([&](int i) { return a.lane[i] * b.lane[i]; });
}
PACELINE_MATH F32x16 operator/(F32x16 a, F32x16 b) {
  return each_lane([&](int i) { return a.lane[i] / b.lane[i]; });
}
PACELINE_MATH F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return each_lane([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
PACELINE_MATH F32x16 max_or_second(F32x16 a, F32x16 b) {
  return each_lane([&](int i) { return math::max_or_second(a.lane[i], b.lane[i]); });
}
PACELINE_MATH F32x16 min_or_second(F32x16 a, F32x16 b) {
  return each_lane([&](int i) { return math::min_or_second(a.lane[i], b.lane[i]); });
}
PACELINE_MATH F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return each_lane([&](int i) { return a.lane[i] < b.lane[i] ? x.lane[i] : y.lane[i]; });
}
PACELINE_MATH F32x16 shift_bits_left_23(F32x16 x) {
  return each_lane([&](int i) { return math::shift_bits_left_23(x.lane[i]); });
}

PACELINE_MATH F32x16 load(const float* from) {
  return each_lane([&](int i) { return from[i]; });
}
PACELINE_MATH F32x16 load(const Half* from) {
  return each_lane([&](int i) { return to_f32(from[i]); });
}
PACELINE_MATH F32x16 load(const BFloat* from) {
  return each_lane([&](int i) { return to_f32(from[i]); });
}
/// Lanes [0, count) from memory, zeros above.
template <class T>
PACELINE_MATH F32x16 load_n(const T* from, int count) {
  return each_lane([&](int i) { return i < count ? to_f32(from[i]) : 0.0f; });
}
template <class T>
PACELINE_MATH void store(T* to, F32x16 x) {
  for (int i = 0; i < 16; ++i) from_f32(x.lane[i], to + i);
}
template <class T>
PACELINE_MATH void store_n(T* to, F32x16 x, int count) {
  for (int i = 0; i < 16 && i < count; ++i) from_f32(x.lane[i], to + i);
}
/// Lanes [begin, end) of x, `other` elsewhere.
/// 16 signed bytes as floats.
PACELINE_MATH F32x16 load_bytes(const int8_t* from) {
  return each_lane([&](int i) { return float(from[i]); });
}
/// In all lanes.
PACELINE_MATH F32x16 in_all_lanes(Half x) { return F32x16(to_f32(x)); }

PACELINE_MATH F32x16 keep_lanes(F32x16 x, int begin, int end, float other) {
  return each_lane([&](int i) { return i >= begin && i < end ? x.lane[i] : other; });
}
/// Tree: lanes i and i + 8, then i + 4, i + 2, i + 1.
PACELINE_MATH float sum_lanes(F32x16 x) {
  for (int width = 8; width >= 1; width /= 2)
    for (int i = 0; i < width; ++i) x.lane[i] = x.lane[i] + x.lane[i + width];
  return x.lane[0];
}
PACELINE_MATH float max_lanes(F32x16 x) {
  for (int width = 8; width >= 1; width /= 2)
    for (int i = 0; i < width; ++i) x.lane[i] = math::max_or_second(x.lane[i], x.lane[i + width]);
  return x.lane[0];
}
PACELINE_MATH void prefetch_l2(const void*) {}
/// x has its value here, among the volatile statements.
PACELINE_MATH void pin(F32x16& x) { asm volatile("" : "+m"(x)); }

/// A step of two bfloat16 a lane: the first values, then the second ones.
PACELINE_MATH F32x16 load_of_pairs(const BFloat* from, int which) {
  return each_lane([&](int i) { return to_f32(from[2 * i + 1 - which]); });
}

}  // namespace
}  // namespace paceline
