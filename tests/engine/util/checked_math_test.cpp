#include "engine/util/checked_math.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};

TEST(CheckedMath, AddsUpToTheLimit) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_FALSE(checked_add(kMax, 1));
}

TEST(CheckedMath, MultipliesUpToTheLimit) {
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1), kMax - (uint64_t{1} << 32) + 1);
  EXPECT_FALSE(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32));
  EXPECT_EQ(checked_mul(kMax, 0), 0u);
}

TEST(CheckedMath, RoundsUp) {
  EXPECT_EQ(ceil_div(0, 16), 0);
  EXPECT_EQ(ceil_div(49953, 2), 24977);
  EXPECT_EQ(round_up(16, 16), 16);
  EXPECT_EQ(round_up(17, 16), 32);
}

}  // namespace
}  // namespace paceline
