#pragma once
// What an open loop says about an engine: did it keep up with what was sent?

#include <optional>

#include "experiments/analysis/statistics/statistics.h"
#include "experiments/results/results.h"

namespace paceline {

struct OpenLoopSummary {
  std::optional<double> offered_rate_per_s, achieved_rate_per_s, mean_in_flight;
  /// Least-squares slope of the number of requests in flight, as each arrival of the last two thirds finds it, over
  /// time; mean over repetitions. The first third is left out: there the queue fills whatever the rate.
  std::optional<double> queue_growth_per_s;
  /// In flight is taken for a walk whose steps, from arrival to arrival, are independent of each other; a least-squares
  /// slope through such a walk over T seconds has the variance 6/5 · (variance per second) / T. None: fewer than
  /// kMinArrivalsToJudge in a repetition.
  std::optional<Interval> queue_growth_interval;
  std::optional<bool> saturated;
  int64_t late_requests = 0;  // sent more than kLateMs after their time
  Percentiles send_delay_ms;

  template <class Visit>
  static void fields(Visit&& visit) {
    using O = OpenLoopSummary;
    visit("offered_rate_per_s", &O::offered_rate_per_s,
          "(arrivals − 1) / time from the first to the last, over all repetitions");
    visit("achieved_rate_per_s", &O::achieved_rate_per_s,
          "(arrivals − 1) / time from the first arrival to the last end: never above the offered rate, and below it by "
          "the time that the last requests took even where the engine keeps up");
    visit("mean_in_flight", &O::mean_in_flight, "sum of E2E / wall time (Little's law)");
    visit("queue_growth_per_s", &O::queue_growth_per_s, "slope of requests in flight over the last two thirds");
    visit("queue_growth_per_s_ci95", &O::queue_growth_interval, "");
    visit(
        "saturated", &O::saturated,
        "that interval lies above 0 and the queue grew by a request or more: latencies then depend on how long the run "
        "was; null where there is no interval");
    visit("late_requests", &O::late_requests, "sent more than a millisecond after their time");
    visit("send_delay_ms", &O::send_delay_ms, "");
  }
};

inline constexpr int kMinArrivalsToJudge = 12;
inline constexpr double kLateMs = 1;

/// True when the cell's requests had arrival times.
bool is_open_loop(const CellResult& cell);

/// None for a cell that is no open loop.
std::optional<OpenLoopSummary> summarize_open_loop(const CellResult& cell);

}  // namespace paceline
