#include "experiments/analysis/statistics/significance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "experiments/analysis/statistics/statistics.h"

namespace paceline {
namespace {

constexpr double kUpper = 0.975;  // of a 95 % interval
constexpr int kMostRepetitions = 1000;
constexpr int kDraws = 1999;  // odd, so that both quantiles are order statistics
constexpr uint64_t kSeed = 20261121;
constexpr size_t kFewestRequests = 5;

double square(double x) { return x * x; }

/// |log ratio| of p-value and interval when nothing varies.
RatioInterval without_spread(double log_ratio) {
  const double ratio = std::exp(log_ratio);
  return {.ratio = ratio, .low = ratio, .high = ratio, .p_value = log_ratio == 0 ? 1.0 : 0.0};
}

struct PooledRatio {
  double log_ratio = 0;
  double error = 0;  // standard error of log_ratio
  bool valid = false;
};

/// requests[picked[i]] for every i.
PooledRatio pooled_ratio(std::span<const RequestSums> requests, std::span<const size_t> picked) {
  RequestSums sum;
  for (const size_t i : picked) {
    sum.first_numerator += requests[i].first_numerator;
    sum.first_denominator += requests[i].first_denominator;
    sum.other_numerator += requests[i].other_numerator;
    sum.other_denominator += requests[i].other_denominator;
  }
  const double smallest =
      std::min({sum.first_numerator, sum.first_denominator, sum.other_numerator, sum.other_denominator});
  if (!(smallest > 0)) return {};
  // The derivative of the log of a sum is one over it, so a request moves the log ratio by these four shares.
  const double n = double(picked.size());
  double variance = 0;
  for (const size_t i : picked) {
    const RequestSums& q = requests[i];
    variance += square(q.other_numerator / sum.other_numerator - q.other_denominator / sum.other_denominator -
                       q.first_numerator / sum.first_numerator + q.first_denominator / sum.first_denominator);
  }
  return {.log_ratio = std::log(sum.other_numerator / sum.other_denominator) -
                       std::log(sum.first_numerator / sum.first_denominator),
          .error = n > 1 ? std::sqrt(variance * n / (n - 1)) : 0,
          .valid = true};
}

struct MeanRanks {
  std::vector<int> doubled;  // twice the rank, so that the mean of two neighbours is whole
  double ties = 0;           // Σ(t³ - t)
};

/// Of |difference|, which holds no zeros.
MeanRanks mean_ranks(const std::vector<double>& differences) {
  std::vector<size_t> order(differences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto size_of = [&](size_t i) { return std::fabs(differences[i]); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return size_of(a) < size_of(b); });
  MeanRanks out{.doubled = std::vector<int>(differences.size())};
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && size_of(order[end]) == size_of(order[begin])) ++end;
    for (size_t i = begin; i < end; ++i) out.doubled[order[i]] = int(begin + 1 + end);  // ranks begin + 1 … end
    const double tied = double(end - begin);
    out.ties += tied * tied * tied - tied;
  }
  return out;
}

/// P(sum of a fair choice of `ranks` >= bound), by the distribution of all subsets' sums.
double upper_tail(const std::vector<int>& ranks, int bound) {
  std::vector<double> probability(size_t(std::accumulate(ranks.begin(), ranks.end(), 0)) + 1);
  probability[0] = 1;
  size_t top = 0;
  for (const int rank : ranks) {
    const auto step = size_t(rank);
    top += step;
    for (size_t sum = top + 1; sum-- > 0;)
      probability[sum] = 0.5 * (probability[sum] + (sum >= step ? probability[sum - step] : 0.0));
  }
  double tail = 0;
  for (size_t sum = probability.size(); sum-- > size_t(std::max(bound, 0));) tail += probability[sum];
  return std::min(tail, 1.0);
}

}  // namespace

std::optional<RatioInterval> welch_ratio(std::span<const double> first, std::span<const double> other) {
  const auto a = logs_of(first), b = logs_of(other);
  if (!a || !b) return std::nullopt;
  const double difference = *mean(*b) - *mean(*a);
  const auto sd_a = standard_deviation(*a), sd_b = standard_deviation(*b);
  if (!sd_a || !sd_b) return RatioInterval{.ratio = std::exp(difference)};
  const double var_a = square(*sd_a) / double(a->size()), var_b = square(*sd_b) / double(b->size());
  const double variance = var_a + var_b;
  if (!(variance > 0)) return without_spread(difference);
  const double degrees =
      square(variance) / (square(var_a) / double(a->size() - 1) + square(var_b) / double(b->size() - 1));
  const double error = std::sqrt(variance), half = student_t_quantile(kUpper, degrees) * error;
  return RatioInterval{.ratio = std::exp(difference),
                       .low = std::exp(difference - half),
                       .high = std::exp(difference + half),
                       .p_value = student_t_two_sided_p(difference / error, degrees)};
}

std::optional<int> repetitions_needed(std::span<const double> first, std::span<const double> other, double effect) {
  const auto a = logs_of(first), b = logs_of(other);
  if (!a || !b || a->size() < 2 || b->size() < 2) return std::nullopt;
  const double spread = std::hypot(*standard_deviation(*a), *standard_deviation(*b));
  for (int n = kFewestRepetitions; n <= kMostRepetitions; ++n) {
    if (student_t_quantile(kUpper, 2 * n - 2) * spread / std::sqrt(double(n)) <= std::log1p(effect)) return n;
  }
  return std::nullopt;
}

std::optional<RatioInterval> bootstrap_ratio(std::span<const RequestSums> requests) {
  std::vector<size_t> picked(requests.size());
  std::iota(picked.begin(), picked.end(), size_t{0});
  const PooledRatio observed = pooled_ratio(requests, picked);
  if (!observed.valid) return std::nullopt;
  RatioInterval out{.ratio = std::exp(observed.log_ratio)};
  if (requests.size() < kFewestRequests) return out;
  if (observed.error == 0) return without_spread(observed.log_ratio);
  std::mt19937_64 random(kSeed);
  std::vector<double> draws;
  int as_far = 0;
  const double distance = std::fabs(observed.log_ratio) / observed.error;
  for (int draw = 0; draw < kDraws; ++draw) {
    for (size_t& i : picked) i = size_t(random() % requests.size());
    const PooledRatio again = pooled_ratio(requests, picked);
    const double moved = again.log_ratio - observed.log_ratio;
    const double t = !again.valid ? std::numeric_limits<double>::infinity() : moved == 0 ? 0.0 : moved / again.error;
    draws.push_back(t);
    if (!(std::fabs(t) < distance)) ++as_far;
  }
  std::sort(draws.begin(), draws.end());
  const auto at = [&](double q) { return draws[size_t(std::lround(q * (kDraws + 1))) - 1]; };
  const double low = std::exp(observed.log_ratio - at(kUpper) * observed.error);
  const double high = std::exp(observed.log_ratio - at(1 - kUpper) * observed.error);
  out.p_value = double(as_far + 1) / double(kDraws + 1);
  if (low > 0 && std::isfinite(low) && high > 0 && std::isfinite(high)) {
    out.low = low;
    out.high = high;
  }
  return out;
}

std::vector<double> holm_adjusted(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, p_values[order[i]] * double(order.size() - i)));
    adjusted[order[i]] = largest;
  }
  return adjusted;
}

SignedRankTest signed_rank_test(std::span<const double> differences) {
  std::vector<double> used;
  for (const double d : differences)
    if (d != 0) used.push_back(d);
  SignedRankTest out{.num_used = int(used.size())};
  if (used.empty()) return out;
  const MeanRanks ranks = mean_ranks(used);
  int doubled = 0;
  for (size_t i = 0; i < used.size(); ++i) doubled += used[i] > 0 ? ranks.doubled[i] : 0;
  out.positive_ranks = doubled / 2.0;
  if (out.num_used <= kExactSignedRanks) {
    out.p_value = upper_tail(ranks.doubled, doubled);
    return out;
  }
  out.exact = false;
  const double n = double(out.num_used);
  const double center = n * (n + 1) / 4, variance = n * (n + 1) * (2 * n + 1) / 24 - ranks.ties / 48;
  const double z = (out.positive_ranks - center - 0.5) / std::sqrt(variance);
  out.p_value = 0.5 * std::erfc(z / std::sqrt(2.0));
  return out;
}

double smallest_signed_rank_p(int num_differences) { return std::exp2(-num_differences); }

}  // namespace paceline
