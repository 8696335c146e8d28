#include "experiments/analysis/statistics/statistics.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/error.h"

namespace paceline {
namespace {

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
  const std::vector<double> sample = {40, 10, 30, 20};  // sorted 10 20 30 40, h = 3q
  EXPECT_DOUBLE_EQ(*quantile(sample, 0), 10);
  EXPECT_DOUBLE_EQ(*quantile(sample, 0.5), 25);
  EXPECT_DOUBLE_EQ(*quantile(sample, 0.9), 37);
  EXPECT_DOUBLE_EQ(*quantile(sample, 1), 40);
  EXPECT_FALSE(quantile({}, 0.5));
  EXPECT_THROW(quantile(sample, 1.5), Error);
}

TEST(Quantile, LeavesNonFiniteEntriesOut) {
  const std::vector<double> sample = {1, std::nan(""), 3, std::numeric_limits<double>::infinity()};
  EXPECT_DOUBLE_EQ(*quantile(sample, 0.5), 2);
  EXPECT_EQ(percentiles(sample).count, 2);
  EXPECT_DOUBLE_EQ(*percentiles(sample).mean, 2);
}

TEST(Moments, ByHand) {
  const std::vector<double> sample = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(*mean(sample), 5);
  EXPECT_DOUBLE_EQ(*standard_deviation(sample), std::sqrt(32.0 / 7.0));
  EXPECT_FALSE(standard_deviation(std::vector<double>{1}));
  EXPECT_DOUBLE_EQ(*geometric_mean(std::vector<double>{1, 100}), 10);
  EXPECT_FALSE(geometric_mean(std::vector<double>{1, 0}));
}

TEST(StudentT, MatchesTables) {
  EXPECT_NEAR(student_t_quantile(0.975, 1), 12.7062, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.975, 2), 4.30265, 1e-5);
  EXPECT_NEAR(student_t_quantile(0.975, 6), 2.44691, 1e-5);
}

TEST(Statistics, IntervalOfTheGeometricMeanByHand) {
  // Logs 0 and ln 4: mean ln 2, sd ln 4 / √2, standard error ln 2; t(0.975, 1) = 12.7062.
  const auto interval = geometric_mean_interval(std::vector<double>{1, 4});
  ASSERT_TRUE(interval);
  EXPECT_NEAR(std::log(interval->high), std::log(2.0) * (1 + 12.7062), 1e-4);
  EXPECT_NEAR(std::log(interval->low), std::log(2.0) * (1 - 12.7062), 1e-4);
  EXPECT_FALSE(geometric_mean_interval(std::vector<double>{3}));
  EXPECT_FALSE(geometric_mean_interval(std::vector<double>{3, 0}));
}

TEST(PairedRatio, LogRatioIntervalByHand) {
  // log ratios: log 2, log 2, log 4 -> mean 4/3 log 2, sd log(2)/sqrt(3)
  const std::vector<double> fast = {20, 30, 80}, slow = {10, 15, 20};
  const auto r = paired_ratio(fast, slow);
  ASSERT_TRUE(r);
  const double log2 = std::log(2.0), center = 4.0 / 3.0 * log2, half = 4.302652729911275 * log2 / 3.0;
  EXPECT_NEAR(r->ratio, std::exp(center), 1e-12);
  EXPECT_NEAR(*r->low, std::exp(center - half), 1e-9);
  EXPECT_NEAR(*r->high, std::exp(center + half), 1e-9);
}

TEST(PairedRatio, InverseGivesTheInverseInterval) {
  const std::vector<double> a = {3, 4, 7, 5}, b = {2, 3, 3, 4};
  const auto ab = paired_ratio(a, b), ba = paired_ratio(b, a);
  EXPECT_NEAR(ab->ratio * ba->ratio, 1, 1e-12);
  EXPECT_NEAR(*ab->low * *ba->high, 1, 1e-12);
}

TEST(PairedRatio, PairingCancelsDrift) {
  // The machine slows down by a factor of 4; paired, the ratio is exactly 2 with no spread.
  const auto r = paired_ratio(std::vector<double>{80, 40, 20}, std::vector<double>{40, 20, 10});
  EXPECT_NEAR(*r->low, 2, 1e-12);
  EXPECT_NEAR(*r->high, 2, 1e-12);
}

TEST(PairedRatio, NoIntervalFromOneRunAndNoneFromBadNumbers) {
  const auto one = paired_ratio(std::vector<double>{3}, std::vector<double>{2});
  EXPECT_DOUBLE_EQ(one->ratio, 1.5);
  EXPECT_FALSE(one->low);
  EXPECT_FALSE(paired_ratio({}, std::vector<double>{1}));
  EXPECT_FALSE(paired_ratio(std::vector<double>{1, 0}, std::vector<double>{1, 1}));
  EXPECT_FALSE(paired_ratio(std::vector<double>{1, std::nan("")}, std::vector<double>{1, 1}));
}

std::vector<int32_t> periodic(int head, int period, int tail) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < head; ++i) tokens.push_back(1000 + i);
  for (int i = 0; i < tail; ++i) tokens.push_back(i % period);
  return tokens;
}

TEST(Degenerate, PeriodsUpToSixteenForThirtyTwoTokens) {
  for (int period = 1; period <= 16; ++period) {
    EXPECT_TRUE(is_degenerate(periodic(5, period, 32))) << period;
    EXPECT_FALSE(is_degenerate(periodic(5, period, 31))) << period;
  }
  EXPECT_FALSE(is_degenerate(periodic(5, 17, 60)));
  EXPECT_FALSE(is_degenerate({}));
}

TEST(Degenerate, OnlyAtTheEnd) {
  std::vector<int32_t> tokens = periodic(0, 3, 48);
  EXPECT_TRUE(is_degenerate(tokens));
  tokens.push_back(77);
  EXPECT_FALSE(is_degenerate(tokens));
}

}  // namespace
}  // namespace paceline
