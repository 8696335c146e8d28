#include "experiments/analysis/comparison/timing_gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "experiments/analysis/statistics/significance.h"
#include "experiments/analysis/statistics/statistics.h"

namespace paceline {
namespace {

/// Of pairs with two times.
struct Ratios {
  std::vector<double> ratio, log;
};
Ratios ratios_of(const std::vector<TimingPair>& pairs) {
  Ratios out;
  for (const TimingPair& pair : pairs) {
    if (!(pair.baseline_s > 0) || !(pair.now_s > 0)) continue;
    out.ratio.push_back(pair.now_s / pair.baseline_s);
    out.log.push_back(std::log(out.ratio.back()));
  }
  return out;
}

/// TimingVerdict::waits of quiet pairs; more work takes longer, too.
std::optional<double> waits_of(const std::vector<TimingPair>& wall, double ratio_of_work) {
  const auto [ratios, logs] = ratios_of(wall);
  const std::optional<double> median = quantile(ratios, 0.5);
  const bool is_told = median && *median > kWaitingTolerance * std::max(1.0, ratio_of_work) &&
                       signed_rank_test(logs).p_value < kTimingChance;
  return is_told ? median : std::nullopt;
}

}  // namespace

std::vector<TimingVerdict> judge_timing(const std::vector<TimedCell>& cells) {
  std::vector<TimingVerdict> verdicts;
  std::vector<double> p_values;
  const int fewest = fewest_timing_pairs(
      int(std::count_if(cells.begin(), cells.end(), [](const TimedCell& cell) { return cell.judged; })));
  for (const TimedCell& cell : cells) {
    const bool quiet = int(cell.pairs.size()) >= fewest && cell.pairs.size() > cell.disturbed.size();
    std::vector<TimingPair> pairs = cell.pairs;
    if (!quiet) pairs.insert(pairs.end(), cell.disturbed.begin(), cell.disturbed.end());
    const auto [ratios, logs] = ratios_of(pairs);
    TimingVerdict verdict{.id = cell.id,
                          .judged = cell.judged,
                          .same_work = cell.same_work,
                          .same_threads = cell.same_threads,
                          .pairs = int(ratios.size()),
                          .median_ratio = quantile(ratios, 0.5).value_or(1),
                          .p_value = signed_rank_test(logs).p_value,
                          .disturbed = int(cell.disturbed.size()),
                          .quiet = quiet || cell.disturbed.empty()};
    verdict.adjusted_p = verdict.p_value;
    verdict.resolves = resolved_slowdown(logs);
    if (quiet) verdict.waits = waits_of(cell.wall, verdict.median_ratio);
    if (cell.judged) p_values.push_back(verdict.p_value);
    verdicts.push_back(std::move(verdict));
  }
  const std::vector<double> adjusted = holm_adjusted(p_values);
  size_t next = 0;
  for (TimingVerdict& verdict : verdicts) {
    if (verdict.judged) verdict.adjusted_p = adjusted[next++];
    verdict.slower = verdict.adjusted_p < kTimingChance && verdict.median_ratio > kTimingTolerance;
  }
  return verdicts;
}

double resolved_slowdown(std::span<const double> logs) {
  if (logs.empty()) return std::numeric_limits<double>::infinity();
  constexpr double kNormalRange = 1.349;             // interquartile range over standard deviation
  constexpr double kSure = 2.5758, kOften = 1.2816;  // normal quantiles of 0.995 and 0.9
  static_assert(kTimingChance == 0.005);
  const double n = double(logs.size()), spread = (*quantile(logs, 0.75) - *quantile(logs, 0.25)) / kNormalRange;
  const double for_test = (kSure + kOften) * spread * std::sqrt(std::numbers::pi / 3 / n);
  const double for_median = std::log(kTimingTolerance) + kOften * spread * std::sqrt(std::numbers::pi / 2 / n);
  return std::expm1(std::max(for_test, for_median));
}

int fewest_timing_pairs(int judged_cells) {
  int pairs = 1;
  while (smallest_signed_rank_p(pairs) * judged_cells >= kTimingChance) ++pairs;
  return pairs;
}

}  // namespace paceline
