#pragma once
// The ops sample and top_k on the CPU (contract: SampleArgs and TopKArgs in kernels/sampling_types.h).

#include "kernels/cpu/thread_pool.h"
#include "kernels/sampling_types.h"

namespace paceline {

/// Rows are spread over the pool; each worker that meets a non-greedy row allocates one row of scratch per call
/// (about 1 µs, against some 10 µs for the row). Logits are float32 host memory.
void cpu_sample(const SampleArgs& args, ThreadPool& pool);
void cpu_top_k(const TopKArgs& args, ThreadPool& pool);

}  // namespace paceline
