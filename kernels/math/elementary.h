#pragma once
// exp and log of the project, written once over a real type V: float, or a vector of floats that offers the same
// operators (kernels/cpu/simd_*.h). Only +, -, *, / and bit moves are used, no fma, so that every instruction set
// and the scalar code give the same bits when built without contraction (-ffp-contract=off).
//
// Accuracy (tests/kernels/cpu/elementary_test.cpp): exp relative error <= 2e-7 (results below the normal range:
// half a unit of the last place more), log relative error <= 2e-7. Special values as in C: exp(-inf) = 0,
// exp(+inf) = inf, log(0) = -inf, log(<0) = NaN, log(inf) = inf, NaN gives NaN.
// The double overloads are good to 1e-15; sin_cos serves rope tables and takes |x| < 2^20.

#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__CUDACC__)
#define PACELINE_MATH __host__ __device__ __forceinline__
#else
// always_inline: no copy built for one instruction set may be picked by the linker for another.
#define PACELINE_MATH inline __attribute__((always_inline))
#endif

namespace paceline::math {

// --- primitives of V = float; vector types bring their own, found by argument type ---------------------------------
PACELINE_MATH uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
PACELINE_MATH float bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
PACELINE_MATH uint64_t double_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
PACELINE_MATH double bits_double(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
/// a > b ? a : b, so b when either is NaN (and b of two zeros).
PACELINE_MATH float max_or_second(float a, float b) { return a > b ? a : b; }
PACELINE_MATH float min_or_second(float a, float b) { return a < b ? a : b; }
PACELINE_MATH float select_less(float a, float b, float then_value, float else_value) {
  return a < b ? then_value : else_value;
}
/// The bits of x moved left by 23.
PACELINE_MATH float shift_bits_left_23(float x) { return bits_float(float_bits(x) << 23); }
/// x >= 0: the biased exponent field as a number.
PACELINE_MATH float exponent_field(float x) { return float(int32_t(float_bits(x) >> 23)); }
/// x >= 0: mantissa of x with the exponent of 1.0.
PACELINE_MATH float mantissa_of(float x) { return bits_float((float_bits(x) & 0x007fffffu) | 0x3f800000u); }

// --- float or vector of floats ------------------------------------------------------------------------------------
inline constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding and subtracting it rounds to an integer

/// 2^n for an integral n in [-126, 127].
template <class V>
PACELINE_MATH V pow2_integral(V n) {
  return shift_bits_left_23(n + V(kRoundMagic + 127.0f));  // the magic's own bits leave on the left
}

/// x rounded to an integer, to the even one of two; |x| <= 2^22.
template <class V>
PACELINE_MATH V rounded_to_integral(V x) {
  return (x + V(kRoundMagic)) - V(kRoundMagic);
}

/// y 2^n for an integral n, |n| <= 252, rounded once: two steps, for a result may lie below the normal range.
template <class V>
PACELINE_MATH V times_pow2(V y, V n) {
  const V n_low = rounded_to_integral(n * V(0.5f));
  return (y * pow2_integral(n_low)) * pow2_integral(n - n_low);
}

/// e^r, x = n ln2 + r: a polynomial.
template <class V>
PACELINE_MATH V exp_of_rest(V x, V n) {
  // ln2 in two parts: n * high is exact, for high has 9 bits
  const V r = (x - n * V(0.693359375f)) - n * V(-2.12194440054690583e-4f);
  V y = V(1.0f / 5040.0f);
  y = y * r + V(1.0f / 720.0f);
  y = y * r + V(1.0f / 120.0f);
  y = y * r + V(1.0f / 24.0f);
  y = y * r + V(1.0f / 6.0f);
  y = y * r + V(0.5f);
  return (y * (r * r) + r) + V(1.0f);
}
/// How often ln2 is in x, so that |r| <= ln2 / 2.
template <class V>
PACELINE_MATH V ln2_in(V x) {
  return rounded_to_integral(x * V(1.44269504088896341f));
}
/// e^x
template <class V>
PACELINE_MATH V exp_of(V x) {
  x = max_or_second(V(-104.0f), min_or_second(V(89.0f), x));
  const V n = ln2_in(x);
  return times_pow2(exp_of_rest(x, n), n);
}
/// The same for |x| <= 87, in fewer instructions.
template <class V>
PACELINE_MATH V exp_of_moderate(V x) {
  const V n = ln2_in(x);
  return exp_of_rest(x, n) * pow2_integral(n);
}

/// ln x. x = 2^e m, m in [sqrt(1/2), sqrt(2)); s = (m - 1) / (m + 1), ln m = 2 s + s^3 (2/3 + ...).
template <class V>
PACELINE_MATH V log_of(V x) {
  const V tiny = V(1.17549435e-38f);
  const V scaled = select_less(x, tiny, x * V(33554432.0f), x);  // 2^25 lifts subnormals
  V e = exponent_field(scaled) - select_less(x, tiny, V(152.0f), V(127.0f));
  V m = mantissa_of(scaled);
  const V root2 = V(1.41421356f);
  e = e + select_less(m, root2, V(0.0f), V(1.0f));
  m = m * select_less(m, root2, V(1.0f), V(0.5f));
  const V f = m - V(1.0f);  // exact
  const V s = f / (V(2.0f) + f);
  const V z = s * s;
  V t = V(2.0f / 9.0f);
  t = t * z + V(2.0f / 7.0f);
  t = t * z + V(2.0f / 5.0f);
  t = t * z + V(2.0f / 3.0f);
  t = t * z;
  // ln m = f - s (f - t): keeps f exact where 2 s would be rounded
  const V log_m = f - s * (f - t);
  V y = e * V(0.693359375f) + (log_m - e * V(2.12194440054690583e-4f));
  const float infinity = std::numeric_limits<float>::infinity();
  y = select_less(x, V(infinity), y, x);  // inf and NaN
  y = select_less(V(0.0f), x, y,
                  select_less(x, V(0.0f), V(std::numeric_limits<float>::quiet_NaN()),
                              x + V(-infinity)));  // 0: -inf; NaN stays NaN
  return y;
}

PACELINE_MATH float exp(float x) { return exp_of(x); }
PACELINE_MATH float log(float x) { return log_of(x); }

// --- double -------------------------------------------------------------------------------------------------------
PACELINE_MATH double exp(double x) {
  x = x > 710.0 ? 710.0 : x;  // NaN passes
  x = x < -746.0 ? -746.0 : x;
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
  const double n = (x * 1.4426950408889634074 + kMagic) - kMagic;
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double y = 1.0 / 6227020800.0;  // 1 / 13!
  y = y * r + 1.0 / 479001600.0;
  y = y * r + 1.0 / 39916800.0;
  y = y * r + 1.0 / 3628800.0;
  y = y * r + 1.0 / 362880.0;
  y = y * r + 1.0 / 40320.0;
  y = y * r + 1.0 / 5040.0;
  y = y * r + 1.0 / 720.0;
  y = y * r + 1.0 / 120.0;
  y = y * r + 1.0 / 24.0;
  y = y * r + 1.0 / 6.0;
  y = y * r + 0.5;
  y = (y * (r * r) + r) + 1.0;
  const double n_low = (n * 0.5 + kMagic) - kMagic;
  const double scale_low = bits_double(double_bits(n_low + (kMagic + 1023.0)) << 52);
  const double scale_high = bits_double(double_bits((n - n_low) + (kMagic + 1023.0)) << 52);
  return (y * scale_low) * scale_high;
}

PACELINE_MATH double log(double x) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (!(x > 0.0)) return x == 0.0 ? -infinity : (x < 0.0 ? std::numeric_limits<double>::quiet_NaN() : x);
  if (!(x < infinity)) return x;
  const bool tiny = x < 2.2250738585072014e-308;
  const double scaled = tiny ? x * 18014398509481984.0 : x;  // 2^54
  const uint64_t bits = double_bits(scaled);
  double e = double(int64_t(bits >> 52)) - (tiny ? 1077.0 : 1023.0);
  double m = bits_double((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (m >= 1.4142135623730951) {
    m *= 0.5;
    e += 1.0;
  }
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double t = 2.0 / 23.0;
  t = t * z + 2.0 / 21.0;
  t = t * z + 2.0 / 19.0;
  t = t * z + 2.0 / 17.0;
  t = t * z + 2.0 / 15.0;
  t = t * z + 2.0 / 13.0;
  t = t * z + 2.0 / 11.0;
  t = t * z + 2.0 / 9.0;
  t = t * z + 2.0 / 7.0;
  t = t * z + 2.0 / 5.0;
  t = t * z + 2.0 / 3.0;
  t = t * z;
  const double log_m = f - s * (f - t);
  return e * 6.93147180369123816490e-01 + (log_m + e * 1.90821492927058770002e-10);
}

struct SinCos {
  double sin = 0;
  double cos = 0;
};

/// |x| < 2^20. x = n pi/2 + r with pi/2 in three parts of 33 bits, Taylor polynomials on |r| <= pi/4.
PACELINE_MATH SinCos sin_cos(double x) {
  constexpr double kMagic = 6755399441055744.0;
  const double shifted = x * 0.63661977236758134308 + kMagic;
  const double n = shifted - kMagic;
  const uint64_t quadrant = double_bits(shifted) & 3u;
  const double r =
      ((x - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21;
  const double z = r * r;
  double a = 1.0 / 355687428096000.0;  // sin: 1 / 17!
  a = a * z - 1.0 / 1307674368000.0;
  a = a * z + 1.0 / 6227020800.0;
  a = a * z - 1.0 / 39916800.0;
  a = a * z + 1.0 / 362880.0;
  a = a * z - 1.0 / 5040.0;
  a = a * z + 1.0 / 120.0;
  a = a * z - 1.0 / 6.0;
  const double sine = (a * z) * r + r;
  double b = 1.0 / 20922789888000.0;  // cos: 1 / 16!
  b = b * z - 1.0 / 87178291200.0;
  b = b * z + 1.0 / 479001600.0;
  b = b * z - 1.0 / 3628800.0;
  b = b * z + 1.0 / 40320.0;
  b = b * z - 1.0 / 720.0;
  b = b * z + 1.0 / 24.0;
  b = b * z - 0.5;
  const double cosine = b * z + 1.0;
  const double s = (quadrant & 1u) ? cosine : sine;
  const double c = (quadrant & 1u) ? sine : cosine;
  return SinCos{.sin = (quadrant & 2u) ? -s : s, .cos = ((quadrant + 1u) & 2u) ? -c : c};
}

}  // namespace paceline::math
