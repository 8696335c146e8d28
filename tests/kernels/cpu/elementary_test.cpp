#include "kernels/math/elementary.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/cpu/storage.h"
#include "kernels/math/activation.h"

namespace paceline {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Elementary, ExpWithinStatedError) {
  double worst = 0, worst_double = 0;
  for (float x = -87.3f; x < 88.7f; x += 0.00173f) {
    const double want = std::exp(double(x));
    worst = std::max(worst, std::fabs(math::exp(x) - want) / want);
    worst_double = std::max(worst_double, std::fabs(math::exp(double(x)) - want) / want);
  }
  EXPECT_LE(worst, 2e-7);
  EXPECT_LE(worst_double, 1e-15);
  for (float x = -103.9f; x < -87.4f; x += 0.01f)  // subnormal results: half a unit more
    EXPECT_NEAR(math::exp(x), std::exp(double(x)), 0.51 * 0x1p-149 + 2e-7 * std::exp(double(x)));
}

TEST(Elementary, ExpOfModerateNumbersHasTheSameBits) {
  for (float x = -87.0f; x <= 87.0f; x += 0.00173f)
    ASSERT_EQ(math::float_bits(math::exp_of_moderate(x)), math::float_bits(math::exp(x))) << x;
  for (const float x : {-87.0f, -0.0f, 0.0f, 1e-30f, 87.0f})
    EXPECT_EQ(math::float_bits(math::exp_of_moderate(x)), math::float_bits(math::exp(x))) << x;
}

TEST(Elementary, LogWithinStatedError) {
  double worst = 0, worst_double = 0;
  const auto check = [&](float x) {
    const double want = std::log(double(x));
    if (want == 0) return;  // log(1) is among the special values
    worst = std::max(worst, std::fabs(math::log(x) - want) / std::fabs(want));
    worst_double = std::max(worst_double, std::fabs(math::log(double(x)) - want) / std::fabs(want));
  };
  for (uint32_t bits = 1; bits < 0x7f800000u; bits += 9973) check(math::bits_float(bits));
  for (uint32_t bits = 0x3f000000u; bits < 0x40000000u; bits += 31) check(math::bits_float(bits));
  EXPECT_LE(worst, 2e-7);
  EXPECT_LE(worst_double, 1e-15);
}

TEST(Elementary, SpecialValues) {
  EXPECT_EQ(math::exp(-kInf), 0.0f);
  EXPECT_EQ(math::exp(-104.0f), 0.0f);
  EXPECT_EQ(math::exp(kInf), kInf);
  EXPECT_EQ(math::exp(89.0f), kInf);
  EXPECT_EQ(math::exp(0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(math::exp(NAN)));
  EXPECT_EQ(math::log(0.0f), -kInf);
  EXPECT_EQ(math::log(-0.0f), -kInf);
  EXPECT_EQ(math::log(kInf), kInf);
  EXPECT_EQ(math::log(1.0f), 0.0f);
  EXPECT_TRUE(std::isnan(math::log(-1.0f)));
  EXPECT_TRUE(std::isnan(math::log(NAN)));
  EXPECT_EQ(math::exp(-800.0), 0.0);
  EXPECT_EQ(math::log(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(math::exp(std::nan(""))));
}

TEST(Elementary, SinCosAtEveryPositionOfALongContext) {
  double worst = 0;
  for (int position = 0; position < 1 << 18; position += 7)
    for (const double inv_freq : {1.0, 0.749894, 0.01, 1.1547819846894582e-4}) {
      const math::SinCos got = math::sin_cos(position * inv_freq);
      worst = std::max({worst, std::fabs(got.sin - std::sin(position * inv_freq)),
                        std::fabs(got.cos - std::cos(position * inv_freq))});
    }
  EXPECT_LE(worst, 4e-16);
}

TEST(Elementary, GeluTailKeepsRelativeAccuracy) {
  for (float x = -8.0f; x < 8.0f; x += 0.0103f) {
    const double want = 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    EXPECT_NEAR(math::gelu(x), want, 4e-6 * std::fabs(want) + 1e-30);
  }
  EXPECT_EQ(math::gelu(kInf), kInf);
}

TEST(Storage, BfloatRoundsToNearestEven) {
  const auto check = [](uint32_t bits) {
    const float x = math::bits_float(bits);
    const float low = math::bits_float(bits & 0xffff0000u), high = math::bits_float((bits & 0xffff0000u) + 0x10000u);
    if (!std::isfinite(x) || !std::isfinite(high)) return;
    BFloat got;
    from_f32(x, &got);
    const double to_low = std::fabs(double(x) - low), to_high = std::fabs(double(high) - x);
    const bool up = to_high < to_low || (to_high == to_low && (bits >> 16 & 1u));
    EXPECT_EQ(to_f32(got), up ? high : low) << bits;
  };
  for (uint32_t bits = 0; bits < 0xffffffffu - 65521u; bits += 65521u) {
    check(bits);
    check((bits & 0xffff0000u) | 0x8000u);  // a tie
  }
}

TEST(Storage, HalfRoundTripsEveryValueAndRoundsToNearestEven) {
  float previous = 0;
  for (uint32_t bits = 0; bits < 0x7c00u; ++bits) {
    const float x = to_f32(Half{uint16_t(bits)});
    Half back, middle;
    from_f32(x, &back);
    EXPECT_EQ(back.bits, bits);
    if (bits > 0) {
      EXPECT_GT(x, previous);
      from_f32((x + previous) * 0.5f, &middle);  // exact in float
      EXPECT_EQ(middle.bits, bits & 1u ? bits - 1 : bits) << "ties go to even";
    }
    previous = x;
  }
  Half big;
  from_f32(65520.0f, &big);
  EXPECT_EQ(big.bits, 0x7c00u);
  from_f32(-kInf, &big);
  EXPECT_EQ(big.bits, 0xfc00u);
  from_f32(NAN, &big);
  EXPECT_TRUE(std::isnan(to_f32(big)));
}

}  // namespace
}  // namespace paceline
