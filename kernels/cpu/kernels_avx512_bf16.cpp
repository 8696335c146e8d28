#if defined(__AVX512BF16__)  // the build gives this file its flags on x86-64 only
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/simd_avx512.h"
// after the vector type:
#include "kernels/cpu/pairs_dot.h"
// after both:
#include "kernels/cpu/attention.inl"
#include "kernels/cpu/blocks.inl"
#include "kernels/cpu/gemm.inl"
#include "kernels/cpu/rows.inl"
#include "kernels/cpu/table.inl"

namespace paceline {
const CpuKernels* avx512_bf16_kernels() { return &kTable; }
}  // namespace paceline
#else
#include "kernels/cpu/cpu_kernels.h"

namespace paceline {
const CpuKernels* avx512_bf16_kernels() { return nullptr; }
}  // namespace paceline
#endif
