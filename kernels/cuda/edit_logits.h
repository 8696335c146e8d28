#pragma once
// The op edit_logits (contract: EditArgs), a block a row: with the formula of kernels/math, so with the CPU's bits.

#include "kernels/cuda/device.h"
#include "kernels/cuda/edit_parts.h"

namespace paceline::cuda {

/// Spans lie in device memory; rows.size() >= 1.
void edit_logits(const EditArgs& args, LaunchTo queue);

}  // namespace paceline::cuda
