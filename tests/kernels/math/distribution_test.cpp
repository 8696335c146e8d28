#include "kernels/math/distribution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/speculative/statistics/toy_models.h"

namespace paceline::math {
namespace {

std::vector<float> random_logits(int32_t size, float spread, uint32_t seed, float step = 0.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logit;
  for (int32_t i = 0; i < size; ++i) {
    const float value = normal(random);
    logit.push_back(step > 0.0f ? step * std::round(value / step) : value);  // steps make ties
  }
  return logit;
}

template <class Real>
std::vector<double> dense(const std::vector<float>& logit, const DrawParams& params) {
  DistributionScratch<Real> scratch;
  const Candidates<Real> from = distribution<Real>({logit.data(), int32_t(logit.size()), params}, scratch);
  std::vector<double> prob(logit.size(), 0.0);
  for (int32_t i = 0; i < from.size; ++i) prob[size_t(from.id_at(i))] = double(from.prob[i]);
  return prob;
}

TEST(RowMaxTest, LowestIdWins) {
  for (const int32_t size : {1, 3, 16, 17, 63, 64, 1000}) {
    std::vector<float> logit = random_logits(size, 2.0f, uint32_t(size), 0.5f);
    const auto expected = std::max_element(logit.begin(), logit.end());
    const RowMax found = row_max(logit.data(), size);
    EXPECT_EQ(found.id, expected - logit.begin());
    EXPECT_EQ(found.value, *expected);
    logit.assign(size_t(size), -3.5f);
    EXPECT_EQ(row_max(logit.data(), size).id, 0);
  }
  const float zeros[] = {-1.0f, -0.0f, 0.0f};
  EXPECT_EQ(row_max(zeros, 3).id, 1);
}

TEST(RowMaxTest, RefusesRowsThatAreNotNumbers) {
  for (const int32_t size : {5, 16, 40}) {
    for (int32_t at = 0; at < size; ++at) {
      std::vector<float> logit = random_logits(size, 1.0f, 1);
      logit[size_t(at)] = NAN;
      EXPECT_EQ(row_max(logit.data(), size).id, -1);
      logit[size_t(at)] = INFINITY;
      EXPECT_EQ(row_max(logit.data(), size).id, -1);
      logit[size_t(at)] = -INFINITY;
      EXPECT_GE(row_max(logit.data(), size).id, 0);
    }
    const std::vector<float> nothing(size_t(size), -INFINITY);
    EXPECT_EQ(row_max(nothing.data(), size).id, -1);
    DistributionScratch<float> scratch;
    EXPECT_EQ((distribution<float>({nothing.data(), size, {.temperature = 1.0f}}, scratch).size), 0);
  }
}

TEST(DistributionTest, AgreesWithThePlainDefinition) {
  const DrawParams cases[] = {{.temperature = 1.0f},
                              {.temperature = 0.6f, .top_k = 1},
                              {.temperature = 1.0f, .top_k = 7},
                              {.temperature = 1.5f, .top_k = 400},
                              {.temperature = 1.0f, .top_p = 0.01f},
                              {.temperature = 0.8f, .top_p = 0.5f},
                              {.temperature = 1.0f, .top_p = 0.95f},
                              {.temperature = 30.0f, .top_p = 0.7f},
                              {.temperature = 1.0f, .min_p = 0.03f},
                              {.temperature = 0.7f, .top_k = 60, .top_p = 0.9f},
                              {.temperature = 0.9f, .top_k = 100, .top_p = 0.97f, .min_p = 0.02f},
                              {.temperature = 0.0f}};
  uint32_t seed = 0;
  for (const int32_t size : {1, 2, 9, 100, 1000}) {
    for (const float spread : {0.3f, 3.0f, 12.0f}) {
      for (const float step : {0.0f, 0.25f}) {
        const std::vector<float> logit = random_logits(size, spread, ++seed, step);
        for (const DrawParams& params : cases) {
          const std::vector<double> expected = reference_distribution(logit, params);
          const std::vector<double> found = dense<double>(logit, params);
          const std::vector<double> found_float = dense<float>(logit, params);
          for (size_t i = 0; i < logit.size(); ++i) {
            const std::string where =
                fmt::format("size {} spread {} step {} T {} k {} p {} min_p {} token {}", size, spread, step,
                            params.temperature, params.top_k, params.top_p, params.min_p, i);
            ASSERT_NEAR(found[i], expected[i], 1e-13) << where;
            ASSERT_NEAR(found_float[i], expected[i], 3e-6 * expected[i] + 1e-20) << where;
          }
        }
      }
    }
  }
}

TEST(DistributionTest, TiesGoToTheLowestIds) {
  const std::vector<float> flat(40, 1.0f);
  const std::vector<double> top_k = dense<float>(flat, {.temperature = 1.0f, .top_k = 3});
  const std::vector<double> top_p = dense<float>(flat, {.temperature = 1.0f, .top_p = 0.125f});  // 5 of 40
  for (size_t i = 0; i < flat.size(); ++i) {
    EXPECT_EQ(top_k[i] > 0.0, i < 3) << i;
    EXPECT_EQ(top_p[i] > 0.0, i < 5) << i;
  }
  std::vector<float> large(5000, 0.0f);  // more ties than the selection buffer holds
  large[4000] = 1.0f;
  const std::vector<double> kept = dense<float>(large, {.temperature = 1.0f, .top_k = 300});
  for (size_t i = 0; i < large.size(); ++i) EXPECT_EQ(kept[i] > 0.0, i < 299 || i == 4000) << i;
}

TEST(DistributionTest, MaskedAndHopelessTokensAreNeverKept) {
  std::vector<float> logit = random_logits(50, 1.0f, 3);
  for (size_t i = 0; i < 50; i += 2) logit[i] = -INFINITY;
  logit[7] = -1e30f;
  for (const DrawParams& params : {DrawParams{.temperature = 1.0f}, DrawParams{.temperature = 2.0f, .top_k = 40},
                                   DrawParams{.temperature = 2.0f, .top_p = 0.999f}}) {
    const std::vector<double> prob = dense<float>(logit, params);
    for (size_t i = 0; i < 50; ++i) EXPECT_EQ(prob[i] == 0.0, i % 2 == 0 || i == 7) << i;
  }
}

TEST(DistributionTest, ExtremeTemperaturesStayNumbers) {
  const std::vector<float> logit = random_logits(100, 50.0f, 3);
  for (const float temperature : {2e-5f, 1e-3f, 1e3f, 1e30f}) {
    const std::vector<double> prob = dense<float>(logit, {.temperature = temperature, .top_p = 0.99f});
    double sum = 0.0;
    for (const double p : prob) sum += p;
    EXPECT_NEAR(sum, 1.0, 1e-5) << temperature;
  }
}

TEST(DistributionTest, LanesAndSingleValuesGiveTheSameBits) {
  std::vector<float> logit = random_logits(1003, 40.0f, 5);
  logit[17] = -INFINITY;
  std::vector<int32_t> id;
  for (int32_t i = 0; i < 1003; ++i) id.push_back(i);
  std::vector<float> in_lanes(logit.size()), one_by_one(logit.size());
  const float top = row_max(logit.data(), 1003).value;
  detail::weights_of<float>(logit.data(), nullptr, 1003, top, 0.9f, in_lanes.data());
  detail::weights_of<float>(logit.data(), id.data(), 1003, top, 0.9f, one_by_one.data());
  EXPECT_EQ(memcmp(in_lanes.data(), one_by_one.data(), logit.size() * sizeof(float)), 0);
}

TEST(DistributionTest, ProbOfKnowsOnlyTheVocabulary) {
  const std::vector<float> logit = random_logits(10, 1.0f, 2);
  DistributionScratch<float> scratch;
  for (const int32_t top_k : {0, 4}) {
    const Candidates<float> from =
        distribution<float>({logit.data(), 10, {.temperature = 1.0f, .top_k = top_k}}, scratch);
    EXPECT_EQ(from.prob_of(-1), 0.0f);
    EXPECT_EQ(from.prob_of(10), 0.0f);
    for (int32_t i = 0; i < from.size; ++i) EXPECT_EQ(from.prob_of(from.id_at(i)), from.prob[i]);
  }
}

}  // namespace
}  // namespace paceline::math
