#pragma once
// Is a difference more than noise? Tests and intervals for ratios of positive quantities, each with one stated formula.
// Pure functions of their input; any thread.

#include <optional>
#include <span>
#include <vector>

#include "experiments/analysis/statistics/statistics.h"

namespace paceline {

/// Two independent samples of one positive quantity, as repetitions of two runs are, other over first: exp(mean log
/// other - mean log first) with Welch's interval, exp(d ± t(0.975, v)·s), s² = s₁²/n₁ + s₂²/n₂ and
/// v = s⁴ / ((s₁²/n₁)²/(n₁-1) + (s₂²/n₂)²/(n₂-1)) (Welch 1947, Satterthwaite 1946). Logs, because a ratio and its
/// inverse must give the same interval. A side of one value has no spread: then there is no interval. No value when a
/// side is empty or holds a number that is not positive and finite.
std::optional<RatioInterval> welch_ratio(std::span<const double> first, std::span<const double> other);

/// Repetitions a side after which welch_ratio() would resolve `effect` (0.02: 2 %): the smallest n >= 7 with
/// t(0.975, 2n-2)·sqrt((s₁² + s₂²)/n) <= log(1 + effect), s the standard deviations of the logs so far. No value with
/// fewer than two values a side, or when 1,000 would not do.
std::optional<int> repetitions_needed(std::span<const double> first, std::span<const double> other, double effect);
inline constexpr int kFewestRepetitions = 7;

/// What one request contributes to a quotient of sums (accepted + drafts over drafts) in two runs.
struct RequestSums {
  double first_numerator = 0, first_denominator = 0;
  double other_numerator = 0, other_denominator = 0;
};

/// Ratio of two pooled quotients over the same requests, (Σ on / Σ od) / (Σ fn / Σ fd), with a bootstrap-t interval
/// over requests (Efron & Tibshirani 1993, §12.5; Hall 1988: second-order correct where percentiles of the bootstrap
/// are not): requests are drawn with replacement, each with what it is in both runs; t* = (log r* - log r) / s*, where
/// s² is the variance of the mean of the linearised log ratio; the interval is exp(log r - t*(0.975)·s), exp(log r -
/// t*(0.025)·s). 1,999 draws with a fixed seed: the same input gives the same interval. Equal in every request: [r, r].
/// No interval with fewer than 5 requests. No value when a sum is not positive.
std::optional<RatioInterval> bootstrap_ratio(std::span<const RequestSums> requests);

/// Holm's step-down adjustment (Holm 1979) of a family's p-values: sorted, p(i)·(m - i) with i from 0, made monotone,
/// at most 1. An adjusted value below a keeps the chance of any false claim in the family below a, whatever their
/// dependence.
std::vector<double> holm_adjusted(std::span<const double> p_values);

/// Wilcoxon's signed-rank test (Wilcoxon 1945) of "differences lie above 0". Zeros are left out; equal sizes share
/// their mean rank.
struct SignedRankTest {
  double positive_ranks = 0;  // W+, the sum of the ranks of positive differences
  int num_used = 0;           // differences other than 0
  double p_value = 1;         // one-sided: P(W+ >= observed) when signs are fair coins; 1 without differences
  bool exact = true;          // of all 2^n signs; above kExactSignedRanks normal, with the variance corrected for ties
                      // (less Σ(t³ - t)/48) and a continuity correction of 1/2 (Hollander & Wolfe 1999, §3.1)
};
inline constexpr int kExactSignedRanks = 60;
SignedRankTest signed_rank_test(std::span<const double> differences);

/// The smallest p-value that signed_rank_test() can give for n differences: 2^-n.
double smallest_signed_rank_p(int num_differences);

}  // namespace paceline
