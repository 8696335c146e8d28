#pragma once
// Hypothesis tests with known distributions: what the losslessness tests decide with.
// Every function states its formula; p-values are two-sided or upper-tail as named. Header only, pure functions.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <boost/math/special_functions/gamma.hpp>

#include "kernels/error.h"

namespace paceline {

/// P(X >= statistic) for X ~ chi-square(df): Q(df / 2, statistic / 2). df == 0: 1.
inline double chi_square_upper_p(double statistic, int64_t df) {
  if (df <= 0 || statistic <= 0.0) return 1.0;
  if (std::isinf(statistic)) return 0.0;
  return boost::math::gamma_q(0.5 * double(df), 0.5 * statistic);
}

/// The statistic whose upper tail is alpha.
inline double chi_square_critical(double alpha, int64_t df) {
  return 2.0 * boost::math::gamma_q_inv(0.5 * double(df), alpha);
}

/// P(|Z| >= |z|) for Z ~ N(0, 1): erfc(|z| / sqrt 2).
inline double normal_two_sided_p(double z) { return std::erfc(std::fabs(z) / std::sqrt(2.0)); }

struct CellTest {
  double statistic = 0.0;
  int64_t df = 0;          // cells after pooling - 1
  int64_t num_pooled = 0;  // cells that went into the pool
  double p_value = 1.0;    // upper tail
};

/// Goodness of fit by likelihood ratio: G = 2 sum O ln(O / E), E = n * probability, asymptotically
/// chi-square(cells - 1). Cells with E < min_expected are pooled into one; a pool that is still too small joins the
/// smallest other cell. observed, probability: [cells]; probabilities sum to 1. A count in a cell of probability 0
/// (and an empty pool) is impossible: p = 0.
inline CellTest g_test(std::span<const uint64_t> observed, std::span<const double> probability,
                       double min_expected = 5.0) {
  PACELINE_CHECK(observed.size() == probability.size(), "{} counts, {} probabilities", observed.size(),
                 probability.size());
  uint64_t num_observed = 0;
  for (const uint64_t count : observed) num_observed += count;
  struct Cell {
    double observed = 0.0, expected = 0.0;
  };
  CellTest test;
  Cell pool;
  std::vector<Cell> cells;
  for (size_t i = 0; i < observed.size(); ++i) {
    const Cell cell{double(observed[i]), double(num_observed) * probability[i]};
    if (cell.expected == 0.0) {
      if (observed[i] > 0) return {.statistic = std::numeric_limits<double>::infinity(), .df = 1, .p_value = 0.0};
    } else if (cell.expected < min_expected) {
      pool.observed += cell.observed;
      pool.expected += cell.expected;
      ++test.num_pooled;
    } else {
      cells.push_back(cell);
    }
  }
  if (pool.expected > 0.0) {
    if (pool.expected >= min_expected || cells.empty()) {
      cells.push_back(pool);
    } else {
      Cell& smallest = *std::min_element(cells.begin(), cells.end(),
                                         [](const Cell& a, const Cell& b) { return a.expected < b.expected; });
      smallest.observed += pool.observed;
      smallest.expected += pool.expected;
    }
  }
  for (const Cell& cell : cells) {
    if (cell.observed > 0.0) test.statistic += 2.0 * cell.observed * std::log(cell.observed / cell.expected);
  }
  test.df = int64_t(cells.size()) - 1;
  test.p_value = chi_square_upper_p(test.statistic, test.df);
  return test;
}

/// Do two samples come from one distribution? chi2 = sum over cells and samples (O - E)^2 / E with
/// E = row total * column total / n, chi-square(cells - 1). Cells whose smaller E is below min_expected are pooled.
inline CellTest homogeneity_test(std::span<const uint64_t> first, std::span<const uint64_t> second,
                                 double min_expected = 5.0) {
  PACELINE_CHECK(first.size() == second.size(), "{} cells against {}", first.size(), second.size());
  double total_first = 0.0, total_second = 0.0;
  for (size_t i = 0; i < first.size(); ++i) {
    total_first += double(first[i]);
    total_second += double(second[i]);
  }
  const double total = total_first + total_second;
  CellTest test;
  if (total_first == 0.0 || total_second == 0.0) return test;
  const double smaller_share = std::min(total_first, total_second) / total;
  int64_t num_cells = 0;
  const auto add = [&](double a, double b) {
    const double expected_a = (a + b) * total_first / total, expected_b = (a + b) * total_second / total;
    test.statistic += (a - expected_a) * (a - expected_a) / expected_a;
    test.statistic += (b - expected_b) * (b - expected_b) / expected_b;
    ++num_cells;
  };
  double pool_first = 0.0, pool_second = 0.0;
  for (size_t i = 0; i < first.size(); ++i) {
    const double a = double(first[i]), b = double(second[i]);
    if ((a + b) * smaller_share < min_expected) {
      pool_first += a;
      pool_second += b;
      ++test.num_pooled;
    } else {
      add(a, b);
    }
  }
  if ((pool_first + pool_second) * smaller_share >= min_expected) add(pool_first, pool_second);
  test.df = std::max<int64_t>(num_cells - 1, 0);
  test.p_value = chi_square_upper_p(test.statistic, test.df);
  return test;
}

/// Kolmogorov-Smirnov distance of values to U(0, 1): max over i of max(i / n - x_i, x_i - (i - 1) / n), x sorted.
inline double ks_distance(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double n = double(values.size());
  double distance = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    distance = std::max({distance, double(i + 1) / n - values[i], values[i] - double(i) / n});
  }
  return distance;
}

/// Distance exceeded with probability <= alpha for any n: sqrt(ln(2 / alpha) / (2 n)) (Dvoretzky-Kiefer-Wolfowitz with
/// Massart's constant).
inline double ks_critical(double alpha, int64_t n) { return std::sqrt(std::log(2.0 / alpha) / (2.0 * double(n))); }

/// Upper bound 2 exp(-2 n d^2) on P(distance >= d), the same inequality.
inline double ks_p_bound(double distance, int64_t n) {
  return std::min(1.0, 2.0 * std::exp(-2.0 * double(n) * distance * distance));
}

/// Probability integral transform of a discrete draw: U = F(x-) + xi * prob(x), xi ~ U(0, 1) independent of the draw;
/// U(0, 1) if x was drawn from F.
inline double pit_value(double cdf_below, double prob, double xi) { return cdf_below + xi * prob; }

/// z = (sum of observations - sum of means) / sqrt(sum of variances) for a martingale difference sequence; N(0, 1) in
/// the limit. Acceptance test: Bernoulli a_i = sum_v min(target_prob, draft_prob), variance a_i (1 - a_i). Surprisal
/// test: observations -ln prob(x_t), mean the entropy H_t, variance sum_v prob (ln prob)^2 - H_t^2.
class ZTest {
 public:
  void add(double observation, double mean, double variance) {
    excess_ += observation - mean;
    variance_ += variance;
    ++num_observations_;
  }
  void add_bernoulli(bool hit, double probability) {
    add(hit ? 1.0 : 0.0, probability, probability * (1.0 - probability));
  }
  int64_t num_observations() const { return num_observations_; }

  /// 0 when nothing was random and nothing was off; infinite when a certain outcome did not happen.
  double z() const {
    if (variance_ > 0.0) return excess_ / std::sqrt(variance_);
    return std::fabs(excess_) < 1e-9 ? 0.0 : std::copysign(std::numeric_limits<double>::infinity(), excess_);
  }
  double p_value() const { return normal_two_sided_p(z()); }

 private:
  double excess_ = 0.0;
  double variance_ = 0.0;
  int64_t num_observations_ = 0;
};

/// Total variation distance 1/2 sum |O / n - probability|.
inline double total_variation(std::span<const uint64_t> observed, std::span<const double> probability) {
  double n = 0.0;
  for (const uint64_t count : observed) n += double(count);
  double distance = 0.0;
  for (size_t i = 0; i < observed.size(); ++i) distance += std::fabs(double(observed[i]) / n - probability[i]);
  return 0.5 * distance;
}

/// Distance of an empirical distribution of n draws over `cells` cells that is exceeded with probability <= alpha, for
/// every n and every distribution: sqrt((cells - 1) / n) / 2 bounds the mean, McDiarmid's inequality adds
/// sqrt(ln(1 / alpha) / (2 n)).
inline double total_variation_critical(double alpha, int64_t cells, int64_t n) {
  return 0.5 * std::sqrt(double(cells - 1) / double(n)) + std::sqrt(std::log(1.0 / alpha) / (2.0 * double(n)));
}

}  // namespace paceline
