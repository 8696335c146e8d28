#pragma once
// PairStep by the dot products of AVX512_BF16, twice the rate of fma. The instruction adds the exact product of the
// upper halves, rounds, adds that of the lower halves, rounds; subnormal numbers are zeros, in and out, whatever the
// thread's mode. For inclusion by kernels_avx512_bf16.cpp only.

#include "kernels/cpu/floats16.h"
#include "kernels/cpu/simd_avx512.h"

namespace paceline {
namespace {

struct PairStep {
  static constexpr int kWords = 1;
  struct Arithmetic {};
  /// 16 words of x from the 32 values at `from`.
  PACELINE_MATH static Floats16 words(const float* from) {
    const Words16 low = rounded_to_bfloat((Words16)load_floats16(from));
    const Words16 high = rounded_to_bfloat((Words16)load_floats16(from + 16));
    const Words16 first = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const Words16 second =
        __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return (Floats16)(first | second >> 16);
  }
  PACELINE_MATH static void load_weights(const BFloat* from, F32x16* weights) {
    *weights = load(reinterpret_cast<const float*>(from));
  }
  PACELINE_MATH static F32x16 multiply_add(const float* x, F32x16 weights, F32x16 sum) {
    // _mm512_dpbf16_ps of a broadcast: GCC 12 makes two instructions of it
    asm("vdpbf16ps %1%{1to16%}, %2, %0" : "+v"(sum.v) : "m"(*x), "v"(weights.v));
    return sum;
  }
};

}  // namespace
}  // namespace paceline
