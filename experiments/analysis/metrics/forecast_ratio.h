#pragma once
// What was predicted for a step against what it took.

#include <optional>
#include <vector>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

/// A finished cell whose step was predicted.
struct ForecastRatio {
  size_t cell = 0;          // index into RunResult::cells
  double predicted_ms = 0;  // StepForecast::step_ms
  double measured_ms = 0;   // median gap between a request's emissions: its steps once the prompt is done
  double ratio() const { return measured_ms / predicted_ms; }
};

/// In plan order. Oversubscribed cells are left out: they wait for cores.
std::vector<ForecastRatio> forecast_ratios(const RunResult& run, const RunSummary& summary);

/// None without ratios.
std::optional<double> median_ratio(const std::vector<ForecastRatio>& ratios);
/// The one whose ratio is the largest multiple or fraction of the median; null without ratios.
const ForecastRatio* farthest_off(const std::vector<ForecastRatio>& ratios);

/// Wall time of the repetitions of these cells over their passes of the target at the predicted step: prefill, and what
/// lies between steps, is in it; loading and warming up are not. None without ratios.
std::optional<double> time_ratio(const RunResult& run, const std::vector<ForecastRatio>& ratios);

}  // namespace paceline
