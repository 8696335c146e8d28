#pragma once
// Several floats of a thread as one number of kernels/math, so that its formulas run for all of them side by side:
// alone each would wait for every instruction of its chain. The bits are those of float.

#include "kernels/cuda/device_code.cuh"
#include "kernels/math/activation.h"

namespace paceline::cuda {

template <int kCount>
struct Floats {
  float of[kCount];

  Floats() = default;
  __device__ __forceinline__ explicit Floats(float x) {
#pragma unroll
    for (float& value : of) value = x;
  }
  template <class Function>
  __device__ __forceinline__ static Floats each(Function&& function) {
    Floats y;
#pragma unroll
    for (int i = 0; i < kCount; ++i) y.of[i] = function(i);
    return y;
  }
  __device__ __forceinline__ friend Floats operator+(const Floats& a, const Floats& b) {
    return each([&](int i) { return a.of[i] + b.of[i]; });
  }
  __device__ __forceinline__ friend Floats operator-(const Floats& a, const Floats& b) {
    return each([&](int i) { return a.of[i] - b.of[i]; });
  }
  __device__ __forceinline__ friend Floats operator*(const Floats& a, const Floats& b) {
    return each([&](int i) { return a.of[i] * b.of[i]; });
  }
  /// The division of IEEE: the reciprocal, two corrections and a last one, whose rounding is exact as long as nothing
  /// leaves the normal range; else each for itself.
  __device__ __forceinline__ friend Floats operator/(const Floats& a, const Floats& b) {
    constexpr float kLeast = 0x1p-60f, kMost = 0x1p60f;
    const bool is_ordinary = a.sizes_within(kLeast, kMost) & b.sizes_within(kLeast, kMost);
    return is_ordinary ? ordinary_quotient(a, b) : divided_one_by_one(a, b);
  }
  /// Whether all are in [least, most] but for their signs.
  __device__ __forceinline__ bool sizes_within(float least, float most) const {
    bool are_within = true;
#pragma unroll
    for (int i = 0; i < kCount; ++i) are_within &= (fabsf(of[i]) >= least) & (fabsf(of[i]) <= most);
    return are_within;
  }
  /// Of a and b whose sizes are in [2^-60, 2^60].
  __device__ __forceinline__ static Floats ordinary_quotient(const Floats& a, const Floats& b) {
    const Floats about = each([&](int i) {
      const float reciprocal = reciprocal_approximate(b.of[i]);
      return __fmaf_rn(reciprocal, __fmaf_rn(-b.of[i], reciprocal, 1.0f), reciprocal);
    });
    const auto corrected = [&](const Floats& quotient) {
      return each(
          [&](int i) { return __fmaf_rn(about.of[i], __fmaf_rn(-b.of[i], quotient.of[i], a.of[i]), quotient.of[i]); });
    };
    return corrected(corrected(a * about));
  }

 private:
  __device__ __noinline__ static Floats divided_one_by_one(Floats a, Floats b) {
    return each([&](int i) { return a.of[i] / b.of[i]; });
  }
};

template <int kCount>
__device__ __forceinline__ Floats<kCount> max_or_second(const Floats<kCount>& a, const Floats<kCount>& b) {
  return Floats<kCount>::each([&](int i) { return math::max_or_second(a.of[i], b.of[i]); });
}
template <int kCount>
__device__ __forceinline__ Floats<kCount> min_or_second(const Floats<kCount>& a, const Floats<kCount>& b) {
  return Floats<kCount>::each([&](int i) { return math::min_or_second(a.of[i], b.of[i]); });
}
template <int kCount>
__device__ __forceinline__ Floats<kCount> select_less(const Floats<kCount>& a, const Floats<kCount>& b,
                                                      const Floats<kCount>& then_value,
                                                      const Floats<kCount>& else_value) {
  return Floats<kCount>::each(
      [&](int i) { return math::select_less(a.of[i], b.of[i], then_value.of[i], else_value.of[i]); });
}
template <int kCount>
__device__ __forceinline__ Floats<kCount> shift_bits_left_23(const Floats<kCount>& x) {
  return Floats<kCount>::each([&](int i) { return math::shift_bits_left_23(x.of[i]); });
}

template <int kCount>
__device__ __noinline__ Floats<kCount> silu_one_by_one(Floats<kCount> x) {
  return Floats<kCount>::each([&](int i) { return math::silu(x.of[i]); });
}
/// math::silu, in fewer instructions where all values are as sums are.
template <int kCount>
__device__ __forceinline__ Floats<kCount> silu(const Floats<kCount>& x) {
  constexpr float kLeast = 0x1p-60f, kMost = 41.0f;  // e^41 < 2^60
  if (!x.sizes_within(kLeast, kMost)) return silu_one_by_one(x);
  using F = Floats<kCount>;
  return F::ordinary_quotient(x, F(1.0f) + math::exp_of_moderate(F(0.0f) - x));
}

/// By how much silu_approximate() misses math::silu at most, in parts of 2^-24 of it, for sizes in [kLeastGate,
/// kMostGate]: a test tries all floats and finds 6.
constexpr uint32_t kSiluApart = 8;
constexpr float kLeastGate = 0x1p-100f, kMostGate = 80.0f;
/// math::silu, nearly, in 10 instructions.
__device__ __forceinline__ float silu_approximate(float x) {
  // e^-x = 2^power (1 + ln2 rest), where power + rest is -x log2e in two floats
  constexpr float kLn2 = 0.693147182f, kLog2ELow = 1.925963033e-8f;  // log2e - kLog2E
  const float power = x * -kLog2E;
  const float rest = __fmaf_rn(x, -kLog2ELow, __fmaf_rn(x, -kLog2E, -power));
  const float about = power_of_two_approximate(power);
  return x * reciprocal_approximate(1.0f + __fmaf_rn(about * rest, kLn2, about));
}
template <int kCount>
__device__ __noinline__ Floats<kCount> gated_by_silu(Floats<kCount> gate, Floats<kCount> up) {
  return silu(gate) * up;
}
/// math::silu(gate) * up for what is rounded to bfloat16 next: the same bfloat16. Where the approximation lies so near
/// to a place where rounding turns that this is not certain, in all of a lane's: one in 400 lanes has one of eight.
template <int kCount>
__device__ __forceinline__ Floats<kCount> gated_for_bfloat(const Floats<kCount>& gate, const Floats<kCount>& up) {
  constexpr uint32_t kUlps = kSiluApart + 1;  // of the product, which is rounded itself: an ulp is 2^-24 of it or more
  constexpr uint32_t kTurn = 0x8000;          // of the bits that rounding takes away
  const uint32_t least = 2 * __float_as_uint(kLeastGate) - 1;
  bool is_certain = true;
  const auto y = Floats<kCount>::each([&](int i) {
    const float product = silu_approximate(gate.of[i]) * up.of[i];
    is_certain &= 2 * __float_as_uint(gate.of[i]) - 1 >= least;  // or zero
    is_certain &= fabsf(gate.of[i]) <= kMostGate;
    is_certain &= (__float_as_uint(product) - kTurn + kUlps) << 16 > 2 * kUlps << 16;
    return product;
  });
  return is_certain ? y : gated_by_silu(gate, up);
}

/// For all but silu, called: few models have them, and in line they are a fifth of a kernel's instructions.
template <int kCount>
__device__ __noinline__ Floats<kCount> activated(Activation activation, Floats<kCount> x) {
  return math::activate(activation, x);
}
/// math::activate(gate) * up. kForBfloat: it is rounded to bfloat16 next.
template <bool kForBfloat, int kCount>
__device__ __forceinline__ Floats<kCount> gated(Activation activation, const Floats<kCount>& gate,
                                                const Floats<kCount>& up) {
  if (activation == Activation::silu) return kForBfloat ? gated_for_bfloat(gate, up) : silu(gate) * up;
  constexpr int kTogether = kCount < 4 ? kCount : 4;
  static_assert(kCount % kTogether == 0);
  Floats<kCount> y;
#pragma unroll
  for (int i = 0; i < kCount; i += kTogether) {
    const auto part = activated(activation, Floats<kTogether>::each([&](int j) { return gate.of[i + j]; }));
#pragma unroll
    for (int j = 0; j < kTogether; ++j) y.of[i + j] = part.of[j];
  }
  return y * up;
}

}  // namespace paceline::cuda
