#pragma once
// Cuts a gemm into panels and row tiles for the pool.

#include "kernels/backend.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/thread_pool.h"

namespace paceline {

/// tiles: scratch that is kept between calls.
void cpu_gemm(const GemmArgs& args, const CpuKernels& kernels, ThreadPool& pool, MappedMemory& tiles);

}  // namespace paceline
