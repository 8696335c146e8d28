#pragma once
// Rotary position embedding (arXiv 2104.09864), one pair at a time.

#include "kernels/math/elementary.h"

namespace paceline::math {

struct RopeFactor {
  float cos = 1;
  float sin = 0;
};

/// Angle position * inv_freq in double, rounded once; attention_factor multiplies both (YaRN, arXiv 2309.00071).
PACELINE_MATH RopeFactor rope_factor(int32_t position, double inv_freq, float attention_factor) {
  const SinCos angle = sin_cos(double(position) * inv_freq);
  return RopeFactor{.cos = float(angle.cos) * attention_factor, .sin = float(angle.sin) * attention_factor};
}

/// (a, b) turned by the angle. No fma: the same two products and one sum everywhere.
template <class V>
PACELINE_MATH void rotate_pair(V& a, V& b, V cos, V sin) {
  const V turned = a * cos - b * sin;
  b = b * cos + a * sin;
  a = turned;
}

}  // namespace paceline::math
