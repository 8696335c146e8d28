#include "experiments/analysis/metrics/loads.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/util/json_io.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/results/reachable_concurrency.h"

namespace paceline {
namespace {

using nlohmann::json;

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

std::optional<int64_t> fact(const json& facts, const char* name) {
  if (!facts.is_object()) return std::nullopt;
  const auto found = facts.find(name);
  return found != facts.end() ? integer_of<int64_t>(*found) : std::nullopt;
}

bool is_static(const CellResult& cell) {
  const json* const batching = find_value(cell.requested, "engine.scheduler.batching");
  return batching && *batching == "static";
}

/// Whether at the fullest the longest prompt would still have found its blocks.
bool had_free_blocks(const CellResult& cell) {
  const std::optional<int64_t> blocks = fact(cell.effective, "kv_blocks"), size = fact(cell.effective, "block_size");
  if (!blocks || !size || *size < 1) return true;
  return std::all_of(cell.repetitions.begin(), cell.repetitions.end(), [&](const RepetitionResult& repetition) {
    int64_t longest = 0;
    for (const RequestRecord& request : repetition.requests)
      longest = std::max<int64_t>(longest, request.prompt_tokens);
    return repetition.counters.kv_blocks_peak + (longest + *size - 1) / *size <= *blocks;
  });
}

bool meets(const RequestRecord& request, const ServiceLevel& slo) {
  if (slo.ttft_ms && !(request.ttft_ms <= *slo.ttft_ms)) return false;
  const std::optional<double> tpot = tpot_ms(request);
  return !slo.tpot_ms || !tpot || *tpot <= *slo.tpot_ms;
}

int64_t num_good(const RepetitionResult& r, const ServiceLevel& slo) {
  return std::ranges::count_if(r.requests, [&](const RequestRecord& request) { return meets(request, slo); });
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
    // of a trace all repetitions replay the same arrivals: their errors are one
    const double half =
        kNormal975 * std::sqrt(cell.load.starts_with("trace") ? variance / count : variance / count / count);
    out.queue_growth_interval = {.low = growth - half, .high = growth + half};
    if (growth - half > 0 && growth * window_s / count >= kGrowthRequests)
      out.saturated = true;
    else if (growth + half <= kMostGrowth * out.offered_rate_per_s.value_or(0))
      out.saturated = false;
  }
  return out;
}

std::optional<ClosedLoop> closed_loop_of(const CellResult& cell) {
  if (cell.load != "closed" || cell.repetitions.empty()) return std::nullopt;
  const auto requests = int64_t(cell.repetitions.front().requests.size());
  ClosedLoop loop{.asked = cell.axes.concurrency,
                  .in_flight = std::min<int64_t>(cell.axes.concurrency, requests),
                  .requests = requests};
  loop.in_batch = reachable_concurrency({.requests = requests,
                                         .concurrency = cell.axes.concurrency,
                                         .max_num_seqs = fact(cell.effective, "max_num_seqs").value_or(requests)});
  if (is_static(cell) && loop.in_flight > 1)
    loop.waits_for = WaitsFor::batch;
  else if (loop.in_batch < loop.in_flight)
    loop.waits_for = WaitsFor::place;
  else if (loop.in_flight > 1 && !had_free_blocks(cell))
    loop.waits_for = WaitsFor::blocks;
  else if (loop.in_flight > 1 && 2 * loop.in_flight >= requests)
    loop.waits_for = WaitsFor::start;
  return loop;
}

std::optional<Goodput> goodput_of(const CellResult& cell, const ServiceLevel& slo) {
  if (slo.empty()) return std::nullopt;
  int64_t good = 0, all = 0;
  double wall_s = 0;
  for (const RepetitionResult& r : cell.repetitions) {
    if (r.client && !r.client->streamed) return std::nullopt;  // nobody knows when first tokens came
    good += num_good(r, slo);
    all += int64_t(r.requests.size());
    wall_s += r.wall_s;
  }
  if (all == 0) return std::nullopt;
  Goodput out{.share = double(good) / double(all), .rate_per_s = {}};
  if (wall_s > 0) out.rate_per_s = double(good) / wall_s;
  return out;
}

std::vector<double> good_rates(const CellResult& cell, const ServiceLevel& slo) {
  std::vector<double> rates;
  for (const RepetitionResult& r : cell.repetitions) {
    rates.push_back(r.wall_s > 0 ? double(num_good(r, slo)) / r.wall_s : 0);
  }
  return rates;
}

std::string slo_text(const ServiceLevel& slo) {
  std::string text;
  if (slo.ttft_ms) text = fmt::format("ttft ≤ {:g} ms", *slo.ttft_ms);
  if (slo.tpot_ms) text += fmt::format("{}tpot ≤ {:g} ms", text.empty() ? "" : ", ", *slo.tpot_ms);
  return text;
}

}  // namespace paceline
