#include "tests/support/hypothesis.h"

#include <array>
#include <random>

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(HypothesisTest, ChiSquareTailHasItsTextbookValues) {
  EXPECT_NEAR(chi_square_upper_p(3.841458820694124, 1), 0.05, 1e-12);
  EXPECT_NEAR(chi_square_upper_p(16.918977604620448, 9), 0.05, 1e-12);
  EXPECT_NEAR(chi_square_critical(1e-6, 7), 40.5, 0.05);
  EXPECT_NEAR(chi_square_critical(1e-6, 63), 131.4, 0.05);
  EXPECT_NEAR(chi_square_critical(1e-6, 4095), 4540, 1.0);
  EXPECT_EQ(chi_square_upper_p(3.0, 0), 1.0);
  EXPECT_EQ(chi_square_upper_p(std::numeric_limits<double>::infinity(), 3), 0.0);
}

TEST(HypothesisTest, NormalTailHasItsTextbookValues) {
  EXPECT_NEAR(normal_two_sided_p(1.959963984540054), 0.05, 1e-12);
  EXPECT_NEAR(normal_two_sided_p(-4.891638475699412), 1e-6, 1e-11);
}

TEST(HypothesisTest, GIsTwiceTheLogLikelihoodRatio) {
  const std::array<uint64_t, 3> observed{30, 50, 20};
  const std::array<double, 3> probability{0.25, 0.5, 0.25};
  const CellTest test = g_test(observed, probability);
  EXPECT_NEAR(test.statistic, 2 * (30 * std::log(30.0 / 25) + 20 * std::log(20.0 / 25)), 1e-12);
  EXPECT_EQ(test.df, 2);
  EXPECT_EQ(test.num_pooled, 0);
}

TEST(HypothesisTest, GPoolsSmallCells) {
  const std::array<uint64_t, 5> observed{60, 32, 3, 4, 1};
  const std::array<double, 5> probability{0.6, 0.3, 0.04, 0.04, 0.02};
  const CellTest pooled = g_test(observed, probability);  // E = 4 + 4 + 2 share a cell
  EXPECT_EQ(pooled.df, 2);
  EXPECT_EQ(pooled.num_pooled, 3);
  EXPECT_NEAR(pooled.statistic, 2 * (32 * std::log(32.0 / 30) + 8 * std::log(8.0 / 10)), 1e-9);

  const std::array<uint64_t, 3> few{60, 38, 2};
  const std::array<double, 3> small_tail{0.6, 0.38, 0.02};
  const CellTest joined = g_test(few, small_tail);  // E = 2 alone is too small: joins the 38
  EXPECT_EQ(joined.df, 1);
  EXPECT_NEAR(joined.statistic, 0.0, 1e-9);
}

TEST(HypothesisTest, GRejectsTheImpossible) {
  const std::array<uint64_t, 2> observed{100, 1};
  const std::array<double, 2> probability{1.0, 0.0};
  EXPECT_EQ(g_test(observed, probability).p_value, 0.0);
}

// False alarms at alpha = 5 % over 400 fair samples: binomial(400, 0.05), within 5 sigma; a shift is seen.
TEST(HypothesisTest, GHasItsSizeAndPower) {
  const std::vector<double> fair{0.5, 0.2, 0.1, 0.1, 0.05, 0.05};
  const std::vector<double> shifted{0.46, 0.24, 0.1, 0.1, 0.05, 0.05};
  std::mt19937_64 random(7);
  const auto alarms = [&](const std::vector<double>& law) {
    std::discrete_distribution<size_t> die(law.begin(), law.end());
    int num_alarms = 0;
    for (int trial = 0; trial < 400; ++trial) {
      std::vector<uint64_t> count(law.size());
      for (int i = 0; i < 2000; ++i) ++count[die(random)];
      num_alarms += g_test(count, fair).p_value < 0.05;
    }
    return num_alarms;
  };
  EXPECT_NEAR(alarms(fair), 20, 22);
  EXPECT_GT(alarms(shifted), 320);
}

TEST(HypothesisTest, HomogeneityComparesTwoSamples) {
  const std::array<uint64_t, 3> a{100, 200, 300}, b{110, 190, 300}, c{200, 100, 300};
  EXPECT_GT(homogeneity_test(a, b).p_value, 0.3);
  EXPECT_LT(homogeneity_test(a, c).p_value, 1e-10);
  EXPECT_EQ(homogeneity_test(a, b).df, 2);
  const std::array<uint64_t, 3> tiny{100, 200, 1}, tiny2{100, 200, 2};
  EXPECT_EQ(homogeneity_test(tiny, tiny2).num_pooled, 1);
  // 2 x 2 by hand: chi2 = n (ad - bc)^2 / products of the margins
  const std::array<uint64_t, 2> x{30, 70}, y{50, 50};
  EXPECT_NEAR(homogeneity_test(x, y).statistic, 200.0 * 2000.0 * 2000.0 / (100.0 * 100.0 * 80.0 * 120.0), 1e-9);
}

TEST(HypothesisTest, KolmogorovSmirnov) {
  EXPECT_NEAR(ks_distance({0.1, 0.4, 0.9}), 2.0 / 3.0 - 0.4, 1e-12);
  EXPECT_DOUBLE_EQ(ks_distance({0.5}), 0.5);
  EXPECT_NEAR(ks_critical(1e-6, 100000), 0.0085, 5e-5);
  EXPECT_NEAR(ks_p_bound(ks_critical(1e-6, 1000), 1000), 1e-6, 1e-12);
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform;
  std::vector<double> fair, skewed;
  for (int i = 0; i < 20000; ++i) {
    fair.push_back(uniform(random));
    skewed.push_back(std::pow(uniform(random), 1.1));
  }
  EXPECT_LT(ks_distance(fair), ks_critical(1e-6, 20000));
  EXPECT_GT(ks_distance(skewed), ks_critical(1e-6, 20000));
}

TEST(HypothesisTest, PitOfADiscreteDrawIsUniform) {
  const std::vector<double> law{0.6, 0.3, 0.1};
  std::mt19937_64 random(5);
  std::discrete_distribution<int> die(law.begin(), law.end());
  std::uniform_real_distribution<double> uniform;
  std::vector<double> right, wrong;
  for (int i = 0; i < 50000; ++i) {
    const int x = die(random);
    const double below[] = {0.0, 0.6, 0.9}, below_wrong[] = {0.0, 0.55, 0.9};
    const double wrong_law[] = {0.55, 0.35, 0.1};
    const double xi = uniform(random);
    right.push_back(pit_value(below[x], law[size_t(x)], xi));
    wrong.push_back(pit_value(below_wrong[x], wrong_law[x], xi));
  }
  EXPECT_LT(ks_distance(right), ks_critical(1e-6, 50000));
  EXPECT_GT(ks_distance(wrong), ks_critical(1e-6, 50000));
}

TEST(HypothesisTest, ZTestOfBernoulliTrials) {
  ZTest fair;
  for (int i = 0; i < 400; ++i) fair.add_bernoulli(i % 2 == 0, 0.5);
  EXPECT_DOUBLE_EQ(fair.z(), 0.0);
  EXPECT_EQ(fair.num_observations(), 400);
  fair.add_bernoulli(true, 0.5);
  EXPECT_NEAR(fair.z(), 0.5 / std::sqrt(401 * 0.25), 1e-12);
  ZTest certain;
  certain.add_bernoulli(true, 1.0);
  EXPECT_EQ(certain.z(), 0.0);
  certain.add_bernoulli(false, 1.0);
  EXPECT_TRUE(std::isinf(certain.z()));
  EXPECT_EQ(certain.p_value(), 0.0);
}

TEST(HypothesisTest, TotalVariation) {
  const std::array<uint64_t, 2> observed{60, 40};
  const std::array<double, 2> probability{0.5, 0.5};
  EXPECT_NEAR(total_variation(observed, probability), 0.1, 1e-12);
  EXPECT_NEAR(total_variation_critical(1e-6, 64, 1000000), 0.0066, 5e-5);
}

}  // namespace
}  // namespace paceline
