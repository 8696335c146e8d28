#pragma once
// The op edit_logits on the CPU (contract: EditArgs in kernels/logit_edits.h).

#include "kernels/cpu/thread_pool.h"
#include "kernels/logit_edits.h"

namespace paceline {

/// Rows are spread over the pool. Logits are float32 host memory.
void cpu_edit_logits(const EditArgs& args, ThreadPool& pool);

}  // namespace paceline
