// Tests and intervals: known tables, enumeration, and coverage by simulation with fixed seeds.

#include "experiments/analysis/statistics/significance.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "experiments/analysis/statistics/statistics.h"

namespace paceline {
namespace {

/// P(W+ >= w) for ranks 1 … n, from the test itself: positive differences whose ranks sum to w.
double upper_tail_of(int n, int w) {
  std::vector<double> differences;
  int left = w;
  for (int rank = n; rank >= 1; --rank) {
    const bool positive = left >= rank;
    if (positive) left -= rank;
    differences.push_back(positive ? rank : -rank);
  }
  EXPECT_EQ(left, 0);
  const SignedRankTest test = signed_rank_test(differences);
  EXPECT_EQ(test.positive_ranks, w);
  EXPECT_TRUE(test.exact);
  return test.p_value;
}

TEST(SignedRank, AgreesWithPublishedCriticalValues) {
  // Largest c with P(W <= c) <= alpha, one-sided (Wilcoxon & Wilcox 1964, table 2; McCornack 1965). W- is the mirror
  // image of W+: P(W+ >= n(n+1)/2 - c) = P(W <= c).
  struct Entry {
    int n;
    double alpha;
    int critical;
  };
  for (const auto& [n, alpha, critical] :
       {Entry{8, 0.05, 5}, Entry{8, 0.005, 0}, Entry{10, 0.05, 10}, Entry{10, 0.025, 8}, Entry{10, 0.01, 5},
        Entry{10, 0.005, 3}, Entry{15, 0.05, 30}, Entry{15, 0.005, 15}, Entry{20, 0.05, 60}, Entry{20, 0.025, 52},
        Entry{20, 0.01, 43}, Entry{20, 0.005, 37}, Entry{25, 0.025, 89}, Entry{30, 0.05, 151}, Entry{30, 0.005, 109},
        Entry{40, 0.005, 220}, Entry{50, 0.005, 373}}) {
    const int total = n * (n + 1) / 2;
    EXPECT_LE(upper_tail_of(n, total - critical), alpha) << n;
    EXPECT_GT(upper_tail_of(n, total - critical - 1), alpha) << n;
  }
  EXPECT_DOUBLE_EQ(upper_tail_of(5, 15), 1.0 / 32);
  EXPECT_DOUBLE_EQ(smallest_signed_rank_p(5), 1.0 / 32);
}

/// By trying every sign.
double enumerated_p(const std::vector<double>& differences) {
  std::vector<double> used;
  for (const double d : differences)
    if (d != 0) used.push_back(d);
  const size_t n = used.size();
  std::vector<double> ranks(n);
  for (size_t i = 0; i < n; ++i) {
    double below = 0, equal = 0;
    for (size_t j = 0; j < n; ++j) {
      below += std::fabs(used[j]) < std::fabs(used[i]);
      equal += std::fabs(used[j]) == std::fabs(used[i]);
    }
    ranks[i] = below + (equal + 1) / 2;
  }
  double observed = 0;
  for (size_t i = 0; i < n; ++i) observed += used[i] > 0 ? ranks[i] : 0;
  int as_large = 0;
  for (uint32_t signs = 0; signs < (1u << n); ++signs) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += (signs >> i & 1u) ? ranks[i] : 0;
    as_large += sum >= observed;
  }
  return double(as_large) / double(1u << n);
}

TEST(SignedRank, TiesAndZerosAgreeWithEnumeration) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<double> differences;
    for (uint64_t n = 1 + random() % 11; differences.size() < n;)
      differences.push_back(double(int(random() % 9)) - 4);  // many ties, some zeros
    const SignedRankTest test = signed_rank_test(differences);
    if (test.num_used == 0) {
      EXPECT_EQ(test.p_value, 1);
    } else {
      EXPECT_NEAR(test.p_value, enumerated_p(differences), 1e-12);
    }
  }
}

TEST(SignedRank, TheNormalTailMeetsTheExactOne) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> noise(0.25, 1);
  for (const int kinds : {4, 1000}) {  // with many ties, with few
    std::vector<double> sixty, more;
    for (int i = 0; i < kExactSignedRanks; ++i) sixty.push_back(std::round(noise(random) * kinds) / kinds);
    std::erase(sixty, 0.0);
    const SignedRankTest exact = signed_rank_test(sixty);
    ASSERT_TRUE(exact.exact);
    // Copies of one sample shift z by about sqrt(copies): compare with the formula written out.
    for (int copy = 0; copy < 2; ++copy) more.insert(more.end(), sixty.begin(), sixty.end());
    const SignedRankTest normal = signed_rank_test(more);
    ASSERT_FALSE(normal.exact);
    double positive = 0, variance = 0;
    for (const double d : more) {
      double below = 0, equal = 0;
      for (const double e : more) {
        below += std::fabs(e) < std::fabs(d);
        equal += std::fabs(e) == std::fabs(d);
      }
      const double rank = below + (equal + 1) / 2;
      positive += d > 0 ? rank : 0;
      variance += rank * rank / 4;  // of a fair choice of these ranks: what the tie correction amounts to
    }
    const double n = double(more.size()), z = (positive - n * (n + 1) / 4 - 0.5) / std::sqrt(variance);
    EXPECT_NEAR(normal.p_value, 0.5 * std::erfc(z / std::sqrt(2.0)), 1e-9);
  }
}

TEST(Welch, AgreesWithAWorkedExample) {
  // logs 1, 2, 3, 4 against 2, 4, 6: d = 1.5, s² = (5/3)/4 + 4/3, v = s⁴ / ((5/12)²/3 + (4/3)²/2)
  std::vector<double> first, other;
  for (const double x : {1, 2, 3, 4}) first.push_back(std::exp(x));
  for (const double x : {2, 4, 6}) other.push_back(std::exp(x));
  const auto test = welch_ratio(first, other);
  ASSERT_TRUE(test && test->low && test->p_value);
  EXPECT_NEAR(std::log(test->ratio), 1.5, 1e-12);
  EXPECT_NEAR(*test->p_value, 0.33382, 5e-5);  // t = 1.1339, 3.2347 degrees, by numerical integration
  EXPECT_NEAR(std::log(*test->low) + std::log(*test->high), 3.0, 1e-9);
  const auto inverse = welch_ratio(other, first);
  EXPECT_NEAR(*inverse->low, 1 / *test->high, 1e-9);
  EXPECT_NEAR(*inverse->p_value, *test->p_value, 1e-12);
}

TEST(Welch, WhatHasNoSpreadHasNoInterval) {
  EXPECT_FALSE(welch_ratio({}, std::vector<double>{1.0}));
  EXPECT_FALSE(welch_ratio(std::vector<double>{1.0}, std::vector<double>{0.0}));
  EXPECT_FALSE(welch_ratio(std::vector<double>{1.0}, std::vector<double>{NAN}));
  const auto single = welch_ratio(std::vector<double>{1.0, 1.1}, std::vector<double>{2.0});
  ASSERT_TRUE(single);
  EXPECT_FALSE(single->low || single->p_value);
  const auto equal = welch_ratio(std::vector<double>{3.0, 3.0}, std::vector<double>{3.0, 3.0});
  EXPECT_EQ(*equal->low, 1);
  EXPECT_EQ(*equal->p_value, 1);
}

/// Share of `rounds` in which the interval of an unchanged or changed quantity holds the true ratio.
double welch_coverage(size_t first_n, size_t other_n, double first_sd, double other_sd) {
  constexpr int kRounds = 4000;
  constexpr double kTrue = 1.3;
  std::mt19937_64 random(first_n * 100 + other_n);
  std::normal_distribution<double> noise;
  int held = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> first, other;
    while (first.size() < first_n) first.push_back(std::exp(first_sd * noise(random)));
    while (other.size() < other_n) other.push_back(kTrue * std::exp(other_sd * noise(random)));
    const auto test = welch_ratio(first, other);
    held += *test->low <= kTrue && kTrue <= *test->high;
  }
  return double(held) / kRounds;
}

TEST(Welch, IntervalsHoldTheTruthAsOftenAsTheySay) {
  // Four standard errors of 4,000 rounds are 1.4 points. Welch is a little wide with 3 a side, never narrow by more.
  for (const auto& [first, other] : {std::pair<size_t, size_t>(3, 3), {7, 7}, {3, 7}, {7, 20}}) {
    for (const auto& [sd_first, sd_other] : {std::pair(0.03, 0.03), {0.01, 0.05}}) {
      const double coverage = welch_coverage(first, other, sd_first, sd_other);
      EXPECT_GE(coverage, 0.936) << first << " " << other << " " << sd_other;
      EXPECT_LE(coverage, 0.985) << first << " " << other << " " << sd_other;
    }
  }
}

std::vector<RequestSums> drawn_requests(size_t n, double first_rate, double other_rate, std::mt19937_64& random) {
  std::vector<RequestSums> requests;
  std::gamma_distribution<double> length(4, 5);
  std::normal_distribution<double> noise;
  while (requests.size() < n) {
    const double own = std::exp(0.3 * noise(random));  // texts differ, and are alike in both runs
    const double drafts = 3 + std::round(length(random));
    requests.push_back({.first_numerator = drafts * first_rate * own * std::exp(0.05 * noise(random)),
                        .first_denominator = drafts,
                        .other_numerator = drafts * other_rate * own * std::exp(0.05 * noise(random)),
                        .other_denominator = drafts});
  }
  return requests;
}

TEST(Bootstrap, IntervalsHoldTheTruthAsOftenAsTheySay) {
  constexpr int kRounds = 500;
  for (const size_t n : {12u, 40u}) {
    std::mt19937_64 random(n);
    int held = 0;
    for (int round = 0; round < kRounds; ++round) {
      const auto test = bootstrap_ratio(drawn_requests(n, 2, 2.2, random));
      held += *test->low <= 1.1 && 1.1 <= *test->high;
    }
    // Four standard errors of 500 rounds are 3.9 points.
    EXPECT_GE(double(held) / kRounds, 0.911) << n;
    EXPECT_LE(double(held) / kRounds, 0.989) << n;
  }
}

TEST(Bootstrap, IsRepeatableAndExactWhereNothingDiffers) {
  std::mt19937_64 random(3);
  std::vector<RequestSums> requests = drawn_requests(20, 2, 2.8, random);
  const auto one = bootstrap_ratio(requests), two = bootstrap_ratio(requests);
  EXPECT_EQ(*one->low, *two->low);
  EXPECT_LT(*one->p_value, 0.001);
  for (RequestSums& q : requests) {
    q.other_numerator = q.first_numerator;
    q.other_denominator = q.first_denominator;
  }
  const auto same = bootstrap_ratio(requests);
  EXPECT_EQ(same->ratio, 1);
  EXPECT_EQ(*same->low, 1);
  EXPECT_EQ(*same->high, 1);
  EXPECT_EQ(*same->p_value, 1);
  requests.resize(4);
  EXPECT_FALSE(bootstrap_ratio(requests)->low);
  EXPECT_FALSE(bootstrap_ratio({}));
}

TEST(Holm, StepsDownAndStaysMonotone) {
  const std::vector<double> adjusted = holm_adjusted(std::vector<double>{0.01, 0.04, 0.03, 0.005});
  const std::vector<double> want = {0.03, 0.06, 0.06, 0.02};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(adjusted[i], want[i], 1e-12);
  EXPECT_EQ(holm_adjusted(std::vector<double>{0.9, 0.8}), (std::vector<double>{1, 1}));
  EXPECT_TRUE(holm_adjusted({}).empty());
}

TEST(Repetitions, NeededFollowsTheSpread) {
  const std::vector<double> calm = {100, 100.1, 99.9}, wild = {100, 110, 90};
  EXPECT_EQ(repetitions_needed(calm, calm, 0.02), kFewestRepetitions);
  const auto many = repetitions_needed(wild, wild, 0.02);
  ASSERT_TRUE(many);
  EXPECT_GT(*many, 100);
  EXPECT_FALSE(repetitions_needed(std::vector<double>{1.0}, calm, 0.02));
  EXPECT_FALSE(repetitions_needed(wild, wild, 1e-4));
}

}  // namespace
}  // namespace paceline
