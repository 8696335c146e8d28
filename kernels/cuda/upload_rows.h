#pragma once
// Rows of the host on their way into a packed weight.

#include <functional>
#include <span>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/host_weight.h"

namespace paceline::cuda {

/// The parts' rows (one behind the other; with pair_panels each part from its own first row on) into w and its row
/// copy, piece by piece through device memory. wait: until all work of the queue's stream has ended, or throws. They
/// are there when the call returns, as kernels may read packed weights before their predecessors end.
void upload_rows(std::span<const HostWeight> parts, const CudaWeight& w, LaunchQueue& queue,
                 const std::function<void()>& wait);

}  // namespace paceline::cuda
