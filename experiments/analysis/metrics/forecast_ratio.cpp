#include "experiments/analysis/metrics/forecast_ratio.h"

#include <algorithm>
#include <cmath>

namespace paceline {

std::vector<ForecastRatio> forecast_ratios(const RunResult& run, const RunSummary& summary) {
  std::vector<ForecastRatio> out;
  for (const CellSummary& s : summary.cells) {
    const CellResult& cell = run.cells[s.cell];
    if (cell.status != CellStatus::done || cell.oversubscribed || !cell.forecast || !s.itl_ms.p50) continue;
    if (cell.forecast->step_ms <= 0 || *s.itl_ms.p50 <= 0) continue;
    out.push_back({.cell = s.cell, .predicted_ms = cell.forecast->step_ms, .measured_ms = *s.itl_ms.p50});
  }
  return out;
}

std::optional<double> median_ratio(const std::vector<ForecastRatio>& ratios) {
  std::vector<double> values;
  for (const ForecastRatio& each : ratios) values.push_back(each.ratio());
  return quantile(values, 0.5);
}

const ForecastRatio* farthest_off(const std::vector<ForecastRatio>& ratios) {
  const std::optional<double> median = median_ratio(ratios);
  const auto off = [&](const ForecastRatio& each) { return std::abs(std::log(each.ratio() / *median)); };
  const auto farthest =
      std::max_element(ratios.begin(), ratios.end(), [&](const auto& a, const auto& b) { return off(a) < off(b); });
  return farthest == ratios.end() ? nullptr : &*farthest;
}

std::optional<double> time_ratio(const RunResult& run, const std::vector<ForecastRatio>& ratios) {
  double measured_s = 0, predicted_s = 0;
  for (const ForecastRatio& each : ratios) {
    for (const RepetitionResult& repetition : run.cells[each.cell].repetitions) {
      measured_s += repetition.wall_s - repetition.idle_s;
      predicted_s += double(repetition.counters.target_forwards) * each.predicted_ms / 1e3;
    }
  }
  return predicted_s > 0 ? std::optional(measured_s / predicted_s) : std::nullopt;
}

}  // namespace paceline
