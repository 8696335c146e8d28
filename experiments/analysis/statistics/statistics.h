#pragma once
// Small statistics with one stated definition each. Pure functions of their input; any thread.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline {

/// Sample quantile by linear interpolation between order statistics (Hyndman & Fan 1996, type 7): with the sorted
/// sample x[0..n) and h = (n-1)·q it is x[⌊h⌋] + (h-⌊h⌋)·(x[⌊h⌋+1] - x[⌊h⌋]). No value for an empty sample.
/// REQUIRES 0 <= q <= 1. Non-finite entries are left out.
std::optional<double> quantile(std::span<const double> sample, double q);

/// Arithmetic mean; no value for an empty sample.
std::optional<double> mean(std::span<const double> sample);

/// Standard deviation with n - 1; no value for n < 2.
std::optional<double> standard_deviation(std::span<const double> sample);

/// Half of the 95 % confidence interval of the mean, t(0.975, n-1)·sd/√n; no value for n < 2.
std::optional<double> mean_error(std::span<const double> sample);

/// The logarithms; no value for an empty sample, nor unless every entry is positive and finite.
std::optional<std::vector<double>> logs_of(std::span<const double> sample);

/// exp(mean(log x)); no value where logs_of has none.
std::optional<double> geometric_mean(std::span<const double> sample);

struct Interval {
  double low = 0, high = 0;
};
/// 95 % confidence interval of geometric_mean: exp(mean(log x) ± t(0.975, n-1)·sd(log x)/√n). No value for n < 2, nor
/// where geometric_mean has none.
std::optional<Interval> geometric_mean_interval(std::span<const double> sample);

/// 95 % confidence interval of a share of which `hits` of `all` independent draws tell (Clopper & Pearson 1934: covers
/// at least as often as it says). REQUIRES 0 <= hits <= all, all > 0.
Interval binomial_interval(int64_t hits, int64_t all);

struct Percentiles {
  std::optional<double> p50, p90, p99, mean;
  int64_t count = 0;

  /// Of a record (experiments/results/fields.h), as those of other structs.
  template <class Visit>
  static void fields(Visit&& visit) {
    visit("p50", &Percentiles::p50, "");
    visit("p90", &Percentiles::p90, "");
    visit("p99", &Percentiles::p99, "");
    visit("mean", &Percentiles::mean, "");
    visit("count", &Percentiles::count, "of the sample");
  }
};
Percentiles percentiles(std::span<const double> sample);

/// A ratio with its 95 % confidence interval and the two-sided p-value of "the ratio is 1".
struct RatioInterval {
  double ratio = 1;
  std::optional<double> low = std::nullopt, high = std::nullopt;  // no value: no spread to go by, as of one run
  std::optional<double> p_value = std::nullopt;                   // where there is an interval
};

/// For lists of fields: the ratio of a member.
template <class T>
auto ratio_of_member(std::optional<RatioInterval> T::*member) {
  return [member](const T& of) { return of.*member ? std::optional((of.*member)->ratio) : std::nullopt; };
}

/// Ratio of paired positive numbers: exp(mean d), d_i = log(numerator_i / denominator_i), with the Student-t interval
/// exp(mean d ± t(0.975, n-1)·sd(d)/√n). Pairs are repetitions of the same block, so that slow drift of the machine
/// cancels; logs, because a ratio and its inverse must give the same interval. Extra entries of the longer list are
/// left out; no value without a pair of positive finite numbers or when any pair is not.
std::optional<RatioInterval> paired_ratio(std::span<const double> numerator, std::span<const double> denominator);

/// Quantile t with P(T <= t) = probability for Student's t. REQUIRES degrees > 0 (Welch's are fractions).
double student_t_quantile(double probability, double degrees);

/// P(|T| >= |t|) for Student's t, the two-sided p-value. REQUIRES degrees > 0.
double student_t_two_sided_p(double t, double degrees);

/// `value` with `digits` digits behind the point, and up to three more where it would read as one of `others` and is
/// not.
std::string told_apart_text(double value, std::initializer_list<double> others, int digits);

/// "71 %"; what is not 0 or 100 % does not read so: "99.7 %". Nor as `goal`, a share likewise.
std::string percent_text(double share, std::optional<double> goal = std::nullopt);

// A ratio with its 95 % interval as text, the same in tables, tooltips, sentences and comparisons.

/// An end of an interval. One that is not 1 does not read as 1, since on which side of 1 it lies is what the interval
/// is read for.
std::string bound_text(double bound, int digits = 2);

/// "2.14× [2.09, 2.19]", "1.10× [1.003, 1.20]"; "2.14×" where there is no interval.
std::string interval_text(double ratio, const std::optional<double>& low, const std::optional<double>& high,
                          int digits = 2);
std::string interval_text(const RatioInterval& interval, int digits = 2);

inline constexpr int kDegenerateMaxPeriod = 16;
inline constexpr int kDegenerateMinTokens = 32;

/// True when the output ends in a loop: its last kDegenerateMinTokens tokens have a period <=
/// kDegenerateMaxPeriod (token[i] == token[i - period] inside them). Such text flatters every drafter, so its share
/// stands beside acceptance. A stop token at the end is the caller's to leave out.
bool is_degenerate(std::span<const int32_t> output);

}  // namespace paceline
