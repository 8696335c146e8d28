#include "kernels/math/divisor.h"

#include <climits>
#include <gtest/gtest.h>

namespace paceline::math {
namespace {

TEST(Divisor, QuotientsAreThoseOfDivisions) {
  for (int d = 1; d <= 300; ++d) {
    const Divisor divisor(d);
    const auto check = [&](int number) { ASSERT_EQ(divisor.quotient(number), number / d) << number << " / " << d; };
    for (int number = 0; number < 20000; ++number) check(number);
    const int64_t limit = (int64_t{1} << 31) / d;  // of numbers
    for (int64_t multiple = d; multiple < limit; multiple += multiple / 3 + d)
      for (const int64_t near : {multiple / d * d - 1, multiple / d * d}) check(int(near));
    for (int64_t number = limit - 2 * d < 0 ? 0 : limit - 2 * d; number < limit; ++number) check(int(number));
  }
  for (int bits = 0; bits < 31; ++bits) {
    const Divisor divisor(1 << bits);
    for (const int number : {0, 1, (1 << bits) - 1, 1 << bits, INT_MAX - 1, INT_MAX})
      ASSERT_EQ(divisor.quotient(number), number >> bits) << number << " >> " << bits;
  }
}

}  // namespace
}  // namespace paceline::math
