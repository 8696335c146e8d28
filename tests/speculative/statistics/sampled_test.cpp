// T1, T2, T2b, T4 and the identity check on the shipped policy.

#include <gtest/gtest.h>

#include "tests/speculative/statistics/lossless_tests.h"

namespace paceline {
namespace {

void expect_lossless(const ToyModels& models, int32_t draft_len, int length, int64_t num_trials) {
  const SampleCounts counts = sample_counts(models, draft_len, length, num_trials, 42);
  const CellTest marginal = g_test(counts.first, models.joint_law(1));
  const CellTest joint = g_test(counts.joint, models.joint_law(length));
  EXPECT_GT(marginal.p_value, kAlpha) << "G " << marginal.statistic << " df " << marginal.df;
  EXPECT_GT(joint.p_value, kAlpha) << "G " << joint.statistic << " df " << joint.df;
  EXPECT_LT(total_variation(counts.first, models.joint_law(1)),
            total_variation_critical(kAlpha, models.vocab_size(), num_trials));
  EXPECT_GT(counts.acceptance.p_value(), kAlpha) << "z " << counts.acceptance.z();
  for (int32_t j = 0; j < draft_len; ++j) {
    EXPECT_GT(counts.acceptance_at[size_t(j)].p_value(), kAlpha) << "draft " << j;
    EXPECT_GT(counts.acceptance_at[size_t(j)].num_observations(), num_trials / 20);
  }
  EXPECT_TRUE(counts.identity);
}

TEST(SampledLawTest, JointOfFourTokens) { expect_lossless(ToyModels(8, {.temperature = 1.0f}, 21), 3, 4, 1'000'000); }

TEST(SampledLawTest, OtherDraftLengths) {
  expect_lossless(ToyModels(8, {.temperature = 1.0f}, 22), 1, 4, 200'000);
  expect_lossless(ToyModels(8, {.temperature = 1.0f}, 23), 2, 4, 200'000);
  expect_lossless(ToyModels(8, {.temperature = 1.0f}, 24), 4, 4, 200'000);
}

TEST(SampledLawTest, LargerVocabulary) { expect_lossless(ToyModels(64, {.temperature = 1.0f}, 25), 2, 2, 300'000); }

TEST(SampledLawTest, Blocks) {
  for (const int32_t draft_len : {1, 3, 4}) {
    const ToyModels models(8, {.temperature = 1.0f}, uint64_t(30 + draft_len));
    const CellTest joint = g_test(block_counts(models, draft_len, 4, 300'000, 42), models.joint_law(4));
    EXPECT_GT(joint.p_value, kAlpha) << "G " << joint.statistic << " df " << joint.df;
  }
}

TEST(SampledLawTest, Filters) {
  expect_lossless(ToyModels(8, {.temperature = 0.8f, .top_p = 0.9f}, 26), 3, 4, 200'000);
  expect_lossless(ToyModels(8, {.temperature = 1.2f, .top_k = 5, .min_p = 0.05f}, 27), 3, 4, 200'000);
}

}  // namespace
}  // namespace paceline
