#include "experiments/analysis/timing_gate.h"

#include <cmath>

#include "experiments/analysis/significance.h"
#include "experiments/analysis/statistics.h"

namespace paceline {

std::vector<TimingVerdict> judge_timing(const std::vector<TimedCell>& cells) {
  std::vector<TimingVerdict> verdicts;
  std::vector<double> p_values;
  for (const TimedCell& cell : cells) {
    std::vector<double> ratios, logs;
    for (const TimingPair& pair : cell.pairs) {
      if (!(pair.baseline_s > 0) || !(pair.now_s > 0)) continue;
      ratios.push_back(pair.now_s / pair.baseline_s);
      logs.push_back(std::log(ratios.back()));
    }
    TimingVerdict verdict{.id = cell.id,
                          .judged = cell.judged,
                          .same_work = cell.same_work,
                          .pairs = int(ratios.size()),
                          .median_ratio = quantile(ratios, 0.5).value_or(1),
                          .p_value = signed_rank_test(logs).p_value};
    verdict.adjusted_p = verdict.p_value;
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

int fewest_timing_pairs(int judged_cells) {
  int pairs = 1;
  while (smallest_signed_rank_p(pairs) * judged_cells >= kTimingChance) ++pairs;
  return pairs;
}

}  // namespace paceline
