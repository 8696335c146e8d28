#pragma once
// The sum over ranks, where all their parts have arrived.

#include <cstdint>

#include "kernels/cuda/device.h"

namespace paceline::cuda {

inline constexpr int kMaxParts = 64;
/// to[i] = math::tree_sum of parts[p][i]; parts: [num_parts][count], num_parts <= kMaxParts.
void sum_parts(const float* parts, int num_parts, int64_t count, float* to, LaunchTo queue);

}  // namespace paceline::cuda
