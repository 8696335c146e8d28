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
  double wait_ms = 0;  // TTFT, or E2E where answers come whole
};

/// Of one repetition, in the order of arrival.
std::vector<Stay> stays_of(const RepetitionResult& repetition) {
  const bool is_whole = repetition.client && !repetition.client->streamed;
  std::vector<Stay> stays;
  for (const RequestRecord& q : repetition.requests) {
    if (!q.arrival_ms) continue;
    stays.push_back(
        {.arrival_ms = *q.arrival_ms, .end_ms = *q.arrival_ms + q.e2e_ms, .wait_ms = is_whole ? q.e2e_ms : q.ttft_ms});
  }
  std::sort(stays.begin(), stays.end(), [](const Stay& a, const Stay& b) { return a.arrival_ms < b.arrival_ms; });
  return stays;
}

struct Served {
  double count = 0, seconds = 0;
  Served& operator+=(const Served& more) {
    count += more.count;
    seconds += more.seconds;
    return *this;
  }
};

/// The requests behind the first arrival, and the time from it to the last end.
Served served_behind_first(const std::vector<Stay>& stays) {
  double last_end_ms = 0;
  for (const Stay& stay : stays) last_end_ms = std::max(last_end_ms, stay.end_ms);
  return {.count = double(stays.size() - 1), .seconds = (last_end_ms - stays.front().arrival_ms) / 1e3};
}

struct Slope {
  double value = 0;
  double variance = 0;  // of value
};

struct Point {
  double t_s = 0, y = 0;
};

/// Of the least-squares line, with the variance that the spread about it gives. None: all points at one time.
/// REQUIRES three points.
std::optional<Slope> slope_of(const std::vector<Point>& points) {
  const double count = double(points.size());
  double mean_t = 0, mean_y = 0, sum_tt = 0, sum_ty = 0, sum_yy = 0;
  for (const Point& point : points) {
    mean_t += point.t_s / count;
    mean_y += point.y / count;
  }
  for (const Point& point : points) {
    const double t = point.t_s - mean_t, y = point.y - mean_y;
    sum_tt += t * t;
    sum_ty += t * y;
    sum_yy += y * y;
  }
  if (sum_tt <= 0) return std::nullopt;
  const double residual = std::max(0.0, sum_yy - sum_ty * sum_ty / sum_tt);
  return Slope{.value = sum_ty / sum_tt, .variance = residual / (count - 2) / sum_tt};
}

struct Growth {
  Slope in_flight;         // per second
  Slope wait;              // in seconds per second
  double window_s = 0;     // of in_flight
  bool was_empty = false;  // an arrival of the second half found nothing in flight
};

/// Of the requests in flight over the last two thirds of the arrivals, and of the waits over all.
std::optional<Growth> growth_of(const std::vector<Stay>& stays) {
  if (stays.size() < size_t(kMinArrivalsToJudge)) return std::nullopt;
  Growth growth;
  std::vector<Point> in_flight, waits;
  std::vector<double> ends;               // sorted, of the requests that came before
  double sum_steps = 0, sum_squares = 0;  // of the changes from one arrival to the next
  const size_t first = stays.size() / 3;
  for (size_t i = 0; i < stays.size(); ++i) {
    const double t_s = (stays[i].arrival_ms - stays.front().arrival_ms) / 1e3;
    waits.push_back({.t_s = t_s, .y = stays[i].wait_ms / 1e3});
    if (i >= first) {
      const double now = double(ends.end() - std::upper_bound(ends.begin(), ends.end(), stays[i].arrival_ms));
      if (i > first) {
        const double step = now - in_flight.back().y;
        sum_steps += step;
        sum_squares += step * step;
      }
      in_flight.push_back({.t_s = t_s, .y = now});
      growth.was_empty = growth.was_empty || (2 * i >= stays.size() && now == 0);
    }
    ends.insert(std::upper_bound(ends.begin(), ends.end(), stays[i].end_ms), stays[i].end_ms);
  }
  const std::optional<Slope> of_flight = slope_of(in_flight), of_waits = slope_of(waits);
  if (!of_flight || !of_waits) return std::nullopt;
  growth.window_s = in_flight.back().t_s - in_flight.front().t_s;
  const double walk = std::max(0.0, sum_squares - sum_steps * sum_steps / double(in_flight.size() - 1));
  growth.in_flight = {.value = of_flight->value, .variance = 1.2 * walk / (growth.window_s * growth.window_s)};
  growth.wait = *of_waits;
  return growth;
}

/// Of repetitions; of a trace they all replay the same arrivals, so that their errors are one.
struct Slopes {
  std::vector<double> values;
  double variance = 0;

  void add(const Slope& slope) {
    values.push_back(slope.value);
    variance += slope.variance;
  }
  Interval interval(bool is_one_error) const {
    const double count = double(values.size()), middle = *mean(values);
    const double half = kNormal975 * std::sqrt(variance / count / (is_one_error ? 1 : count));
    return {.low = middle - half, .high = middle + half};
  }
};

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

/// Requests and the time they took: all of them by the wall, or as an open loop's rates are counted.
Served served_in(const RepetitionResult& r) {
  const std::vector<Stay> stays = stays_of(r);
  return stays.empty() ? Served{.count = double(r.requests.size()), .seconds = r.wall_s} : served_behind_first(stays);
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
  Served served;
  double arrivals_s = 0, wall_s = 0, stay_s = 0, window_s = 0, judged_gaps = 0;
  int64_t num_empty = 0;  // repetitions in which the engine was empty again
  std::vector<double> delays;
  Slopes in_flight, wait;
  for (const RepetitionResult& r : cell.repetitions) {
    const std::vector<Stay> stays = stays_of(r);
    if (stays.empty()) continue;
    arrivals_s += (stays.back().arrival_ms - stays.front().arrival_ms) / 1e3;
    served += served_behind_first(stays);
    wall_s += r.wall_s;
    for (const Stay& stay : stays) stay_s += (stay.end_ms - stay.arrival_ms) / 1e3;
    for (const RequestRecord& q : r.requests) {
      delays.push_back(q.send_delay_ms);
      out.late_requests += q.send_delay_ms > kLateMs ? 1 : 0;
    }
    if (const std::optional<Growth> growth = growth_of(stays)) {
      in_flight.add(growth->in_flight);
      wait.add(growth->wait);
      window_s += growth->window_s;
      judged_gaps += double(stays.size() - 1);
      num_empty += growth->was_empty ? 1 : 0;
    }
  }
  if (arrivals_s > 0) out.offered_rate_per_s = served.count / arrivals_s;
  if (served.seconds > 0 && served.count > 0) out.achieved_rate_per_s = served.count / served.seconds;
  if (wall_s > 0) out.mean_in_flight = stay_s / wall_s;
  out.send_delay_ms = percentiles(delays);
  out.queue_growth_per_s = mean(in_flight.values);
  out.wait_growth = mean(wait.values);
  if (out.queue_growth_per_s) {
    const bool is_trace = cell.load.starts_with("trace");
    const double count = double(in_flight.values.size());
    const Interval growth = in_flight.interval(is_trace), longer = wait.interval(is_trace);
    out.queue_growth_interval = growth;
    out.wait_growth_interval = longer;
    const bool grew = growth.low > 0 && *out.queue_growth_per_s * window_s / count >= kGrowthRequests;
    const bool waited = longer.low > 0 && *out.wait_growth * judged_gaps / count >= kGrowthRequests;
    if (grew && waited && 2 * double(num_empty) < count)
      out.saturated = true;
    else if (growth.high <= kMostGrowth * out.offered_rate_per_s.value_or(0))
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
  Served served;
  std::vector<double> shares;  // of the repetitions
  for (const RepetitionResult& r : cell.repetitions) {
    if (r.client && !r.client->streamed) return std::nullopt;  // nobody knows when first tokens came
    const int64_t good_of_r = num_good(r, slo), all_of_r = int64_t(r.requests.size());
    if (all_of_r > 0) shares.push_back(double(good_of_r) / double(all_of_r));
    good += good_of_r;
    all += all_of_r;
    served += served_in(r);
  }
  if (all == 0) return std::nullopt;
  Goodput out{.share = double(good) / double(all), .share_interval = binomial_interval(good, all), .rate_per_s = {}};
  if (const std::optional<double> half = mean_error(shares)) {
    out.share_interval.low = std::max(0.0, std::min(out.share_interval.low, out.share - *half));
    out.share_interval.high = std::min(1.0, std::max(out.share_interval.high, out.share + *half));
  }
  if (served.count > 0 && served.seconds > 0) out.rate_per_s = out.share * served.count / served.seconds;
  return out;
}

std::vector<double> good_rates(const CellResult& cell, const ServiceLevel& slo) {
  std::vector<double> rates;
  for (const RepetitionResult& r : cell.repetitions) {
    const Served served = served_in(r);
    const double good = std::max(0.5, double(num_good(r, slo))) / std::max(1.0, double(r.requests.size()));
    rates.push_back(served.seconds > 0 ? good * served.count / served.seconds : 0);
  }
  return rates;
}

std::string slo_text(const ServiceLevel& slo) {
  std::string text;
  if (slo.ttft_ms) text = fmt::format("ttft ≤ {:g} ms", *slo.ttft_ms);
  if (slo.tpot_ms) text += fmt::format("{}tpot ≤ {:g} ms", text.empty() ? "" : ", ", *slo.tpot_ms);
  return text;
}

std::string attainment_text(const ServiceLevel& slo) { return fmt::format("{:.10g} %", 100 * slo.attainment); }

}  // namespace paceline
