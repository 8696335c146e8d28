#include "engine/model/rope.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/holds.h"

namespace paceline {
namespace {

TEST(RopeInvFreq, PlainIsAGeometricSeries) {
  const std::vector<double> table = rope_inv_freq({.rotary_dim = 8, .theta = 10000.0}, 1024);
  ASSERT_EQ(table.size(), 4u);
  const double expected[] = {1.0, 0.1, 0.01, 0.001};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(table[i], expected[i], 1e-15);
}

TEST(RopeInvFreq, LinearDividesByTheFactor) {
  const std::vector<double> table =
      rope_inv_freq({.rotary_dim = 4, .theta = 10000.0, .scaling = RopeScaling::linear, .factor = 4.0}, 1024);
  EXPECT_NEAR(table[0], 0.25, 1e-15);
  EXPECT_NEAR(table[1], 0.0025, 1e-15);
}

// head_dim 16, theta 500000, factor 8, low 1, high 4, 32 original positions (the golden model's numbers). Pair i has
// 500000^(-i/8) radians a position and makes 32 / (2 pi) times that many turns in 32 positions:
//   i = 0: 5.093 turns > 4: kept; i = 1: 0.98764 < 1: divided by 8; so are all longer ones.
TEST(RopeInvFreq, Llama3KeepsShortAndStretchesLongWavelengths) {
  const RopeSpec rope{.rotary_dim = 16,
                      .theta = 500000.0,
                      .scaling = RopeScaling::llama3,
                      .factor = 8.0,
                      .low_freq_factor = 1.0,
                      .high_freq_factor = 4.0,
                      .original_max_position = 32};
  const std::vector<double> table = rope_inv_freq(rope, 256);
  EXPECT_EQ(table[0], 1.0);
  EXPECT_NEAR(table[1], 0.1939227 / 8, 1e-7);
  EXPECT_NEAR(table[7], std::pow(500000.0, -7.0 / 8.0) / 8, 1e-15);
}

// Same with 64 original positions: pair 1 makes 64 * 0.1939227 / (2 pi) = 1.975281 turns, so it keeps
// (1.975281 - 1) / 3 = 0.325094 of itself: 0.1939227 * (0.674906 / 8 + 0.325094) = 0.0794030.
TEST(RopeInvFreq, Llama3BlendsInBetween) {
  const RopeSpec rope{.rotary_dim = 16,
                      .theta = 500000.0,
                      .scaling = RopeScaling::llama3,
                      .factor = 8.0,
                      .low_freq_factor = 1.0,
                      .high_freq_factor = 4.0,
                      .original_max_position = 64};
  EXPECT_NEAR(rope_inv_freq(rope, 256)[1], 0.0794030, 1e-7);
}

// theta' = 10000 * (2 * 4096 / 2048 - 1)^(8 / 6) = 10000 * 3^(4/3) = 43267.487
TEST(RopeInvFreq, DynamicStretchesTheBaseForTheLongestSequenceServed) {
  const RopeSpec rope{
      .rotary_dim = 8, .theta = 10000.0, .scaling = RopeScaling::dynamic, .factor = 2.0, .original_max_position = 2048};
  EXPECT_NEAR(rope_inv_freq(rope, 4096)[1], std::pow(43267.487, -0.25), 1e-9);
  EXPECT_NEAR(rope_inv_freq(rope, 2048)[1], 0.1, 1e-15);
  EXPECT_NEAR(rope_inv_freq(rope, 16)[1], 0.1, 1e-15);
  EXPECT_EQ(longest_sequence({.max_position = 2048, .rope = rope}), 4096);
  EXPECT_EQ(longest_sequence({.max_position = 2048}), 2048);
}

TEST(RopeDifference, NamesTheLengthUpToWhichNothingDiffers) {
  const auto difference = [](RopeScaling scaling, int max_len) {
    return rope_difference({.rope = {.rotary_dim = 8, .scaling = scaling, .original_max_position = 4096}}, max_len);
  };
  EXPECT_TRUE(
      test::holds(difference(RopeScaling::longrope, 131072),
                  "longrope takes the factors of long texts from the first token on, as max_model_len 131072 is more "
                  "than 4096; "));
  EXPECT_TRUE(test::holds(difference(RopeScaling::dynamic, 4097), "set engine.scheduler.max_model_len to 4096"));
  EXPECT_EQ(difference(RopeScaling::longrope, 4096), "");
  EXPECT_EQ(difference(RopeScaling::yarn, 131072), "");
}

}  // namespace
}  // namespace paceline
