#pragma once
// Division by a number that is known ahead, for host and device: a kernel has no time for divisions.

#include <cstdint>

#include "kernels/math/host_device.h"

namespace paceline::math {

/// Made on the host, where the number becomes known.
class Divisor {
 public:
  /// divisor >= 1.
  PACELINE_HD constexpr explicit Divisor(int divisor)
      : part_(uint32_t(((uint64_t{1} << kBits) + uint32_t(divisor) - 1) / uint32_t(divisor))) {}
  /// number / divisor, of 0 <= number < 2^31 / divisor; by a power of two of any number from 0 on.
  PACELINE_HD constexpr int quotient(int number) const { return int(uint64_t{uint32_t(number)} * part_ >> kBits); }

 private:
  static constexpr int kBits = 31;
  uint32_t part_;  // 2^31 / divisor, rounded up: too much by less than 1 / divisor of a number in that range
};

}  // namespace paceline::math
