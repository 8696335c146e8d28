#pragma once
// Division of whole numbers that rounds up, for host and device.

#include "kernels/math/host_device.h"

namespace paceline::math {

/// a >= 0, b >= 1.
PACELINE_HD constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace paceline::math
