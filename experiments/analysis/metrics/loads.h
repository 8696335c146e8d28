#pragma once
// What a load says about an engine: whether it kept up with what an open loop sent; whether a closed loop had as many
// requests at once as its name says, and what these waited for; and how many requests met report.slo.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  /// Least-squares slope of TTFT (of E2E where answers come whole) over the arrival, in seconds per second; mean over
  /// repetitions. In flight grows as well where a run begins empty and is short beside a request; then nobody waits.
  std::optional<double> wait_growth;
  std::optional<Interval> wait_growth_interval;  // by the spread about the line
  std::optional<bool> saturated;                 // neither: too few arrivals tell
  int64_t late_requests = 0;                     // sent more than kLateMs after their time
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
    visit("wait_growth", &O::wait_growth,
          "slope of TTFT over the arrival, of E2E where answers come whole; seconds per second");
    visit("wait_growth_ci95", &O::wait_growth_interval, "");
    visit("saturated", &O::saturated,
          "true: more and more are in flight, later requests wait longer (both intervals lie above 0, and a queue grew "
          "by a request or more), and in most repetitions no arrival of the second half found the engine empty, so "
          "that latencies depend on the run's length; false: the first interval ends below a tenth of the offered "
          "rate; null: not known");
    visit("late_requests", &O::late_requests, "sent more than a millisecond after their time");
    visit("send_delay_ms", &O::send_delay_ms, "");
  }
};

inline constexpr int kMinArrivalsToJudge = 12;
inline constexpr double kMostGrowth = 0.1;  // of the offered rate: a cell of which more cannot be excluded may saturate
inline constexpr double kLateMs = 1;

/// True when the cell's requests had arrival times.
bool is_open_loop(const CellResult& cell);

/// None for a cell that is no open loop.
std::optional<OpenLoopSummary> summarize_open_loop(const CellResult& cell);

/// What a request waits for before its first pass, besides the step under way.
enum class WaitsFor : uint8_t {
  nothing,
  place,   // more are in flight than the engine takes at once (max_num_seqs)
  batch,   // static batching: the end of the batch before
  blocks,  // at the fullest, the KV cache had no room for the longest prompt
  start,   // the prompts of those sent together at the start, which are half of all requests or more
};

inline constexpr int64_t kWavesOfSteadyLoad = 5;

struct ClosedLoop {
  int64_t asked = 0;      // load.concurrency
  int64_t in_flight = 0;  // submitted and not finished, at most: no more than there are requests
  int64_t in_batch = 0;   // of these, with a place in the engine (reachable_concurrency)
  WaitsFor waits_for = WaitsFor::nothing;

  int64_t requests = 0;  // of a repetition

  /// Below kWavesOfSteadyLoad requests a place, most of the time goes to filling the batch and to its end.
  bool is_one_wave() const { return asked > 1 && requests < kWavesOfSteadyLoad * asked; }
  bool is_reached() const { return in_batch >= asked; }
};

/// None: another load, or nothing was measured. Facts that a record lacks bound nothing.
std::optional<ClosedLoop> closed_loop_of(const CellResult& cell);

struct Goodput {
  double share = 0;
  /// As if requests were independent of each other, or by the spread of the repetitions' shares, whichever is wider on
  /// each side: requests of one queue are late together.
  Interval share_interval;
  std::optional<double> rate_per_s;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("share", &Goodput::share, "requests that meet every limit that is given / all requests");
    visit("share_ci95", &Goodput::share_interval,
          "as if requests were independent, or by the spread over repetitions, whichever is wider on each side");
    visit("rate_per_s", &Goodput::rate_per_s,
          "`share` of the requests over the wall time of all repetitions; in an open loop of `achieved_rate_per_s`");
  }
};

/// Over all repetitions. A request with a single token has no TPOT and is judged by its TTFT. None: no limit is given,
/// or there is no request.
std::optional<Goodput> goodput_of(const CellResult& cell, const ServiceLevel& slo);

/// [repetition] requests that meet the limits per second, counted as Goodput::rate_per_s; of none half a one, as zero
/// has no logarithm. REQUIRES a limit.
std::vector<double> good_rates(const CellResult& cell, const ServiceLevel& slo);

/// "ttft ≤ 200 ms, tpot ≤ 20 ms"
std::string slo_text(const ServiceLevel& slo);
/// "90 %", the share that is asked for, as it was written.
std::string attainment_text(const ServiceLevel& slo);

}  // namespace paceline
