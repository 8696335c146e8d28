#pragma once
// The accept op on the CPU (contract: AcceptArgs in kernels/sampling_types.h).

#include "kernels/cpu/thread_pool.h"
#include "kernels/sampling_types.h"

namespace paceline {

/// Windows are spread over the pool, the rows of one window are looked at in order until a draft is rejected.
/// Scratch as in cpu_sample. Logits and draft probabilities are float32 host memory.
void cpu_accept(const AcceptArgs& args, ThreadPool& pool);

}  // namespace paceline
