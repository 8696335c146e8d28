#pragma once
// PairStep: how gemm.inl multiplies a panel's step of two bfloat16 values of k, here by one fma for each, from widened
// weights. Their products are exact, so this is what the dot product of pairs_dot.h computes; subnormal x are zeros
// before they are rounded, for they could round to a normal number. After the simd header.

#include "kernels/cpu/floats16.h"
#include "kernels/cpu/storage.h"
#include "kernels/cpu/subnormals.h"

namespace paceline {
namespace {

struct PairStep {
  static constexpr int kWords = 2;  // floats of x, and registers of weights
  using Arithmetic = FlushSubnormals;
  static constexpr int64_t kFetchAheadOfFewRows = 2048;  // widening keeps the core busy
  /// 16 words of x from the values at `from`.
  PACELINE_MATH static Floats16 words(const float* from) {
    const Words16 bits = (Words16)load_floats16(from);
    return (Floats16)((bits & 0x7f800000u) == 0u ? bits & 0x80000000u : rounded_to_bfloat(bits));
  }
  PACELINE_MATH static F32x16 weights(const BFloat* from, int word) { return load_of_pairs(from, word); }
  PACELINE_MATH static F32x16 multiply_add(const float* x, F32x16 weight, F32x16 sum) {
    return fma(F32x16(*x), weight, sum);
  }
};

}  // namespace
}  // namespace paceline
