#pragma once
// The sum over ranks (docs/numerics.md).

#include "kernels/math/elementary.h"

namespace paceline::math {

/// Adds part[0 … count) level by level: neighbours in pairs, an odd one out moves up unchanged. Overwrites `part`.
PACELINE_MATH float tree_sum(float* part, int count) {
  while (count > 1) {
    int kept = 0;
    for (int i = 0; i < count; i += 2) part[kept++] = i + 1 < count ? part[i] + part[i + 1] : part[i];
    count = kept;
  }
  return part[0];
}

/// The same, count <= kMost, for values that lie in registers.
template <int kMost>
PACELINE_MATH float tree_sum_of(float (&part)[kMost], int count) {
  for (int width = kMost; width > 1; width /= 2) {
    for (int i = 0; i < width / 2; ++i) part[i] = 2 * i + 1 < count ? part[2 * i] + part[2 * i + 1] : part[2 * i];
    count = (count + 1) / 2;
  }
  return part[0];
}

}  // namespace paceline::math
