#include "experiments/analysis/metrics/open_loop.h"

#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

constexpr double kGrowthRequests = 1;  // of less nothing can be seen: requests are counted whole
constexpr double kNormal975 = 1.959964;

struct Stay {
  double arrival_ms = 0, end_ms = 0;
};

/// Of one repetition, in the order of arrival.
std::vector<Stay> stays_of(const RepetitionResult& repetition) {
  std::vector<Stay> stays;
  for (const RequestRecord& q : repetition.requests) {
    if (q.arrival_ms) stays.push_back({.arrival_ms = *q.arrival_ms, .end_ms = *q.arrival_ms + q.e2e_ms});
  }
  std::sort(stays.begin(), stays.end(), [](const Stay& a, const Stay& b) { return a.arrival_ms < b.arrival_ms; });
  return stays;
}

struct Growth {
  double per_s = 0;
  double variance = 0;  // of per_s
  double window_s = 0;
};

/// Slope of the requests in flight over the last two thirds of the arrivals.
std::optional<Growth> growth_of(const std::vector<Stay>& stays) {
  if (stays.size() < size_t(kMinArrivalsToJudge)) return std::nullopt;
  std::vector<double> ends;  // sorted, of the requests that came before
  double sum_t = 0, sum_n = 0, sum_tt = 0, sum_tn = 0, count = 0;
  double before = 0, sum_steps = 0, sum_squares = 0;  // of the changes from one arrival to the next
  const size_t first = stays.size() / 3;
  for (size_t i = 0; i < stays.size(); ++i) {
    const double now_ms = stays[i].arrival_ms;
    if (i >= first) {
      const double in_flight = double(ends.end() - std::upper_bound(ends.begin(), ends.end(), now_ms));
      const double t = (now_ms - stays[first].arrival_ms) / 1e3;
      if (i > first) {
        sum_steps += in_flight - before;
        sum_squares += (in_flight - before) * (in_flight - before);
      }
      before = in_flight;
      count += 1;
      sum_t += t;
      sum_n += in_flight;
      sum_tt += t * t;
      sum_tn += t * in_flight;
    }
    ends.insert(std::upper_bound(ends.begin(), ends.end(), stays[i].end_ms), stays[i].end_ms);
  }
  const double spread = count * sum_tt - sum_t * sum_t;
  if (spread <= 0) return std::nullopt;
  const double window_s = (stays.back().arrival_ms - stays[first].arrival_ms) / 1e3;
  const double walk = std::max(0.0, sum_squares - sum_steps * sum_steps / (count - 1));
  return Growth{.per_s = (count * sum_tn - sum_t * sum_n) / spread,
                .variance = 1.2 * walk / (window_s * window_s),
                .window_s = window_s};
}

}  // namespace

bool is_open_loop(const CellResult& cell) {
  return !cell.repetitions.empty() && !cell.repetitions.front().requests.empty() &&
         cell.repetitions.front().requests.front().arrival_ms.has_value();
}

std::optional<OpenLoopSummary> summarize_open_loop(const CellResult& cell) {
  if (!is_open_loop(cell)) return std::nullopt;
  OpenLoopSummary out;
  double arrivals_s = 0, ends_s = 0, wall_s = 0, stay_s = 0, gaps = 0, window_s = 0, variance = 0;
  std::vector<double> delays, growths;
  for (const RepetitionResult& r : cell.repetitions) {
    const std::vector<Stay> stays = stays_of(r);
    if (stays.empty()) continue;
    arrivals_s += (stays.back().arrival_ms - stays.front().arrival_ms) / 1e3;
    gaps += double(stays.size() - 1);
    double last_end_ms = 0;
    for (const Stay& stay : stays) last_end_ms = std::max(last_end_ms, stay.end_ms);
    ends_s += (last_end_ms - stays.front().arrival_ms) / 1e3;
    wall_s += r.wall_s;
    for (const Stay& stay : stays) stay_s += (stay.end_ms - stay.arrival_ms) / 1e3;
    for (const RequestRecord& q : r.requests) {
      delays.push_back(q.send_delay_ms);
      out.late_requests += q.send_delay_ms > kLateMs ? 1 : 0;
    }
    if (const std::optional<Growth> growth = growth_of(stays)) {
      growths.push_back(growth->per_s);
      window_s += growth->window_s;
      variance += growth->variance;
    }
  }
  if (arrivals_s > 0) out.offered_rate_per_s = gaps / arrivals_s;
  if (ends_s > 0 && gaps > 0) out.achieved_rate_per_s = gaps / ends_s;
  if (wall_s > 0) out.mean_in_flight = stay_s / wall_s;
  out.send_delay_ms = percentiles(delays);
  out.queue_growth_per_s = mean(growths);
  if (out.queue_growth_per_s) {
    const double growth = *out.queue_growth_per_s, count = double(growths.size());
    const double half = kNormal975 * std::sqrt(variance) / count;
    out.queue_growth_interval = {.low = growth - half, .high = growth + half};
    out.saturated = growth - half > 0 && growth * window_s / count >= kGrowthRequests;
  }
  return out;
}

}  // namespace paceline
