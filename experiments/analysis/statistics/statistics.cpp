#include "experiments/analysis/statistics/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include "kernels/error.h"

namespace paceline {
namespace {

// In double precision throughout: in long double the library would be compiled twice.
using StudentsT =
    boost::math::students_t_distribution<double,
                                         boost::math::policies::policy<boost::math::policies::promote_double<false>>>;

std::vector<double> sorted_finite(std::span<const double> sample) {
  std::vector<double> sorted;
  sorted.reserve(sample.size());
  for (double x : sample) {
    if (std::isfinite(x)) sorted.push_back(x);
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::optional<double> quantile_of_sorted(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return std::nullopt;
  const double h = static_cast<double>(sorted.size() - 1) * q;
  const auto below = static_cast<size_t>(h);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (h - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

/// exp of the Student-t interval of the mean; no value for fewer than two.
std::optional<Interval> exp_of_mean_interval(const std::vector<double>& logs) {
  const std::optional<double> half = mean_error(logs);
  if (!half) return std::nullopt;
  const double center = *mean(logs);
  return Interval{.low = std::exp(center - *half), .high = std::exp(center + *half)};
}

}  // namespace

std::optional<double> quantile(std::span<const double> sample, double q) {
  PACELINE_CHECK(q >= 0 && q <= 1, "quantile {} lies outside [0, 1]", q);
  return quantile_of_sorted(sorted_finite(sample), q);
}

std::optional<double> mean(std::span<const double> sample) {
  if (sample.empty()) return std::nullopt;
  return std::accumulate(sample.begin(), sample.end(), 0.0) / static_cast<double>(sample.size());
}

std::optional<double> standard_deviation(std::span<const double> sample) {
  if (sample.size() < 2) return std::nullopt;
  const double center = *mean(sample);
  double sum = 0;
  for (double x : sample) sum += (x - center) * (x - center);
  return std::sqrt(sum / static_cast<double>(sample.size() - 1));
}

std::optional<std::vector<double>> logs_of(std::span<const double> sample) {
  std::vector<double> logs;
  for (const double x : sample) {
    if (!(x > 0) || !std::isfinite(x)) return std::nullopt;
    logs.push_back(std::log(x));
  }
  if (logs.empty()) return std::nullopt;
  return logs;
}

std::optional<double> geometric_mean(std::span<const double> sample) {
  const auto logs = logs_of(sample);
  return logs ? std::optional(std::exp(*mean(*logs))) : std::nullopt;
}

std::optional<Interval> geometric_mean_interval(std::span<const double> sample) {
  const auto logs = logs_of(sample);
  return logs ? exp_of_mean_interval(*logs) : std::nullopt;
}

std::optional<double> mean_error(std::span<const double> sample) {
  const std::optional<double> sd = standard_deviation(sample);
  if (!sd) return std::nullopt;
  const double n = static_cast<double>(sample.size());
  return student_t_quantile(0.975, n - 1) * *sd / std::sqrt(n);
}

Interval binomial_interval(int64_t hits, int64_t all) {
  PACELINE_CHECK(0 <= hits && hits <= all && all > 0, "{} of {}", hits, all);
  using Binomial = boost::math::binomial_distribution<>;
  constexpr double kEachSide = 0.025;
  return {.low = Binomial::find_lower_bound_on_p(double(all), double(hits), kEachSide),
          .high = Binomial::find_upper_bound_on_p(double(all), double(hits), kEachSide)};
}

Percentiles percentiles(std::span<const double> sample) {
  const std::vector<double> sorted = sorted_finite(sample);
  return {.p50 = quantile_of_sorted(sorted, 0.50),
          .p90 = quantile_of_sorted(sorted, 0.90),
          .p99 = quantile_of_sorted(sorted, 0.99),
          .mean = mean(sorted),
          .count = static_cast<int64_t>(sorted.size())};
}

double student_t_quantile(double probability, double degrees) {
  PACELINE_CHECK(degrees > 0 && probability > 0 && probability < 1, "degrees {} probability {}", degrees, probability);
  return boost::math::quantile(StudentsT(degrees), probability);
}

double student_t_two_sided_p(double t, double degrees) {
  PACELINE_CHECK(degrees > 0, "degrees {}", degrees);
  return 2 * boost::math::cdf(boost::math::complement(StudentsT(degrees), std::fabs(t)));
}

std::optional<RatioInterval> paired_ratio(std::span<const double> numerator, std::span<const double> denominator) {
  const size_t pairs = std::min(numerator.size(), denominator.size());
  const auto above = logs_of(numerator.first(pairs)), below = logs_of(denominator.first(pairs));
  if (!above || !below) return std::nullopt;
  std::vector<double> logs;
  for (size_t i = 0; i < pairs; ++i) logs.push_back((*above)[i] - (*below)[i]);
  const double center = *mean(logs);
  RatioInterval out{.ratio = std::exp(center)};
  if (const auto interval = exp_of_mean_interval(logs)) {
    out.low = interval->low;
    out.high = interval->high;
    const double error = *standard_deviation(logs) / std::sqrt(double(pairs));
    out.p_value = error > 0 ? student_t_two_sided_p(center / error, double(pairs) - 1) : center == 0 ? 1 : 0;
  }
  return out;
}

bool is_degenerate(std::span<const int32_t> output) {
  if (output.size() < kDegenerateMinTokens) return false;
  const std::span<const int32_t> tail = output.last(kDegenerateMinTokens);
  for (size_t period = 1; period <= kDegenerateMaxPeriod; ++period) {
    if (std::equal(tail.begin() + static_cast<std::ptrdiff_t>(period), tail.end(), tail.begin())) return true;
  }
  return false;
}

std::string told_apart_text(double value, std::initializer_list<double> others, int digits) {
  constexpr int kMoreDigits = 3;
  std::string text;
  for (int shown = digits; shown <= digits + kMoreDigits; ++shown) {
    const auto text_of = [shown](double number) { return fmt::format("{:.{}f}", number, shown); };
    text = text_of(value);
    if (std::ranges::none_of(others, [&](double other) { return other != value && text_of(other) == text; })) break;
  }
  return text;
}

std::string percent_text(double share, std::optional<double> goal) {
  return told_apart_text(100 * share, {0, 100, 100 * goal.value_or(0)}, 0) + " %";
}

std::string bound_text(double bound, int digits) { return told_apart_text(bound, {1}, digits); }

std::string interval_text(double ratio, const std::optional<double>& low, const std::optional<double>& high,
                          int digits) {
  const std::string text = fmt::format("{:.{}f}×", ratio, digits);
  if (!low || !high) return text;
  return fmt::format("{} [{}, {}]", text, bound_text(*low, digits), bound_text(*high, digits));
}

std::string interval_text(const RatioInterval& interval, int digits) {
  return interval_text(interval.ratio, interval.low, interval.high, digits);
}

}  // namespace paceline
