#pragma once
// Four floats at a time for host loops over a row, in the baseline instruction set (GCC and Clang vector types), for
// use with the formulas of elementary.h: each lane has the bits of the scalar formula.

#include <cstdint>
#include <cstring>

#include "kernels/math/elementary.h"

namespace paceline::math {

struct Lanes {
  using Floats = float __attribute__((vector_size(16)));
  using Ints = int32_t __attribute__((vector_size(16)));
  static constexpr int kCount = 4;

  Floats value;

  PACELINE_MATH Lanes(Floats lanes) : value(lanes) {}
  PACELINE_MATH explicit Lanes(float all) : value(Floats{} + all) {}
  PACELINE_MATH static Lanes load(const float* from) {
    Floats lanes;
    memcpy(&lanes, from, sizeof lanes);
    return lanes;
  }
  PACELINE_MATH void store(float* to) const { memcpy(to, &value, sizeof value); }
};

PACELINE_MATH Lanes operator+(Lanes a, Lanes b) { return a.value + b.value; }
PACELINE_MATH Lanes operator-(Lanes a, Lanes b) { return a.value - b.value; }
PACELINE_MATH Lanes operator*(Lanes a, Lanes b) { return a.value * b.value; }
PACELINE_MATH Lanes operator/(Lanes a, Lanes b) { return a.value / b.value; }
PACELINE_MATH Lanes max_or_second(Lanes a, Lanes b) { return a.value > b.value ? a.value : b.value; }
PACELINE_MATH Lanes min_or_second(Lanes a, Lanes b) { return a.value < b.value ? a.value : b.value; }
PACELINE_MATH Lanes select_less(Lanes a, Lanes b, Lanes then_value, Lanes else_value) {
  return a.value < b.value ? then_value.value : else_value.value;
}
PACELINE_MATH Lanes shift_bits_left_23(Lanes x) { return Lanes::Floats(Lanes::Ints(x.value) << 23); }
/// All bits set in lanes where a == b, or where not a <= b (NaN included).
PACELINE_MATH Lanes::Ints equal(Lanes a, Lanes b) { return a.value == b.value; }
PACELINE_MATH Lanes::Ints not_less_equal(Lanes a, Lanes b) { return ~Lanes::Ints(a.value <= b.value); }
PACELINE_MATH bool any(Lanes::Ints mask) { return (mask[0] | mask[1] | mask[2] | mask[3]) != 0; }

}  // namespace paceline::math
