#pragma once
// PairStep by the dot products of AVX512_BF16, twice the rate of fma. The instruction adds the exact product of the
// upper halves, rounds, adds that of the lower halves, rounds; subnormal numbers are zeros, in and out, whatever the
// thread's mode. So they are to the conversion of x. For inclusion by kernels_avx512_bf16.cpp only.

#include "kernels/cpu/floats16.h"
#include "kernels/cpu/simd_avx512.h"

namespace paceline {
namespace {

struct PairStep {
  static constexpr int kWords = 1;
  struct Arithmetic {};
  static constexpr int64_t kFetchAheadOfFewRows = 0;
  /// 16 words of x from the 32 values at `from`.
  PACELINE_MATH static Floats16 words(const float* from) {
    const __m512bh pairs = _mm512_cvtne2ps_pbh(load(from + 16).v, load(from).v);
    return (Floats16)_mm512_ror_epi32((__m512i)pairs, 16);
  }
  PACELINE_MATH static F32x16 weights(const BFloat* from, int) { return load(reinterpret_cast<const float*>(from)); }
  PACELINE_MATH static F32x16 multiply_add(const float* x, F32x16 weights, F32x16 sum) {
    // _mm512_dpbf16_ps of a broadcast: GCC 12 makes two instructions of it
    asm("vdpbf16ps %1%{1to16%}, %2, %0" : "+v"(sum.v) : "m"(*x), "v"(weights.v));
    return sum;
  }
};

}  // namespace
}  // namespace paceline
