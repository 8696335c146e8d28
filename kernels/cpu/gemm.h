#pragma once
// Cuts a gemm into panels and row tiles for the pool.

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/op_args.h"

namespace paceline {

/// norm: what is done to args.x's rows first (norm.residual, without delta, is then read in place of them), or null.
/// tiles: scratch that is kept between calls.
void cpu_gemm(const GemmArgs& args, const NormWork* norm, const CpuKernels& kernels, ThreadPool& pool,
              MappedMemory& tiles);

}  // namespace paceline
