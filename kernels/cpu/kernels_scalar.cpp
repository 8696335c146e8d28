#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/simd_scalar.h"
// after the vector type:
#include "kernels/cpu/levels.h"
#include "kernels/cpu/pairs_widened.h"
// after both:
#include "kernels/cpu/attention.inl"
#include "kernels/cpu/blocks.inl"
#include "kernels/cpu/gemm.inl"
#include "kernels/cpu/rows.inl"
#include "kernels/cpu/table.inl"

namespace paceline {
const CpuKernels* scalar_kernels() { return &kTable; }
}  // namespace paceline
