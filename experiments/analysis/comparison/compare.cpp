#include "experiments/analysis/comparison/compare.h"

#include <algorithm>
#include <limits>
#include <map>

#include "experiments/analysis/claims/policy.h"
#include "experiments/analysis/comparison/compare_settings.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/outputs/output_comparison.h"
#include "experiments/analysis/statistics/statistics.h"
#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

bool larger_is_better(Metric metric) {
  return metric == Metric::output_tok_s || metric == Metric::decode_tok_s || metric == Metric::acceptance_length;
}

bool is_timed(Metric metric) { return metric != Metric::acceptance_length && metric != Metric::steps; }

double value_of(const RepetitionResult& r, Metric metric) {
  switch (metric) {
    case Metric::output_tok_s: return r.wall_s > 0 ? double(output_tokens_of(r)) / r.wall_s : kNone;
    case Metric::decode_tok_s: {
      const double tpot = mean(tpot_of(r)).value_or(kNone);
      return tpot > 0 ? 1000 / tpot : kNone;
    }
    case Metric::ttft_ms: {
      std::vector<double> ttft;
      for (const RequestRecord& q : r.requests) ttft.push_back(q.ttft_ms);
      return quantile(ttft, 0.5).value_or(kNone);
    }
    case Metric::tpot_ms: return quantile(tpot_of(r), 0.5).value_or(kNone);
    case Metric::acceptance_length:
      return r.counters.drafts > 0 ? 1 + double(r.counters.accepted) / double(r.counters.drafts) : kNone;
    case Metric::steps: return double(r.counters.steps);
  }
  return kNone;
}

std::vector<double> values_of(const CellResult& cell, Metric metric) {
  std::vector<double> values;
  for (const RepetitionResult& r : cell.repetitions) values.push_back(value_of(r, metric));
  return values;
}

std::optional<double> shown_value(const CellResult& cell, Metric metric) {
  if (metric == Metric::steps) return value_of(cell.repetitions.front(), metric);
  if (metric == Metric::acceptance_length) {
    const RunCounters pooled = pooled_counters(cell);
    if (pooled.drafts == 0) return std::nullopt;
    return 1 + double(pooled.accepted) / double(pooled.drafts);
  }
  return geometric_mean(values_of(cell, metric));  // so that the ratio is that of the columns
}

/// Requests that both cells have, each with its drafts of all repetitions: bootstrapped as one, since repetitions of a
/// request are no new requests.
std::vector<RequestSums> draft_sums(const CellResult& first, const CellResult& other) {
  std::map<std::pair<int64_t, std::string>, RequestSums> sums;
  const auto add = [&](const CellResult& cell, double RequestSums::*numerator, double RequestSums::*denominator) {
    for (const RepetitionResult& r : cell.repetitions)
      for (const RequestRecord& q : r.requests)
        for (size_t step = 0; step < std::min(q.drafted.size(), q.accepted.size()); ++step)
          if (q.drafted[step] > 0) {
            RequestSums& sum = sums[{q.dataset_index, q.id}];
            sum.*numerator += 1 + q.accepted[step];
            sum.*denominator += 1;
          }
  };
  add(first, &RequestSums::first_numerator, &RequestSums::first_denominator);
  add(other, &RequestSums::other_numerator, &RequestSums::other_denominator);
  std::vector<RequestSums> out;
  for (const auto& [key, sum] : sums) out.push_back(sum);
  return out;
}

std::optional<RatioTest> ratio_of(const CellResult& first, const CellResult& other, Metric metric) {
  if (metric == Metric::acceptance_length) return bootstrap_ratio(draft_sums(first, other));
  if (metric == Metric::steps) {
    const double before = value_of(first.repetitions.front(), metric),
                 now = value_of(other.repetitions.front(), metric);
    if (before <= 0) return std::nullopt;
    return RatioTest{.ratio = now / before, .low = {}, .high = {}, .p_value = {}};
  }
  return welch_ratio(values_of(first, metric), values_of(other, metric));
}

/// Output tokens and counters of the first repetitions, leaf by leaf.
std::vector<CounterChange> counter_changes(const RepetitionResult& first, const RepetitionResult& other) {
  json before = counters_to_json(first.counters), now = counters_to_json(other.counters);
  before["output_tokens"] = output_tokens_of(first);
  now["output_tokens"] = output_tokens_of(other);
  before["requests"] = first.requests.size();
  now["requests"] = other.requests.size();
  std::vector<CounterChange> out;
  json all = before;
  all.update(now);
  for (const auto& [name, value] : all.items()) {
    const json a = before.value(name, json()), b = now.value(name, json());
    if (a != b) out.push_back({.name = name, .first = a, .other = b});
  }
  return out;
}

bool is_usable(const CellResult* cell) {
  return cell && cell->status == CellStatus::done && !cell->repetitions.empty();
}

CellSide side_of(const CellResult* cell) {
  CellSide side;
  if (!cell) return side;
  side.id = cell->id;
  side.status = cell->status;
  side.reason = cell->reason;
  side.repetitions = int(cell->repetitions.size());
  const CellSummary summary = summarize_cell(*cell);
  side.rankable = summary.rankable;
  side.noisy = !summary.noise.empty();
  if (!is_usable(cell)) return side;
  for (const Metric metric : kMetrics) side.values[size_t(metric)] = shown_value(*cell, metric);
  return side;
}

void compare_with_first(const CellResult& first, const CellResult& other, double min_effect, CellSide& side) {
  side.compared = true;
  const Comparison outputs = compare_outputs(other, first);
  for (const RepetitionResult& r : other.repetitions) side.requests_compared += int64_t(r.requests.size());
  side.requests_different = int64_t(outputs.partings.size());
  side.first_difference = outputs.partings.empty() ? outputs.complaint : described(outputs.partings.front());
  side.counters = counter_changes(first.repetitions.front(), other.repetitions.front());
  for (const Metric metric : kMetrics) {
    MetricChange& change = side.changes[size_t(metric)];
    change.test = ratio_of(first, other, metric);
    if (is_timed(metric))
      change.repetitions_needed = repetitions_needed(values_of(first, metric), values_of(other, metric), min_effect);
  }
}

Change judged(Metric metric, const MetricChange& change, double min_effect) {
  if (!change.test) return Change::none;
  const RatioTest& test = *change.test;
  const auto direction = [&] { return (test.ratio > 1) == larger_is_better(metric) ? Change::better : Change::worse; };
  if (metric == Metric::steps) return test.ratio == 1 ? Change::same : direction();
  const double most = 1 + min_effect, least = 1 / most;
  if (test.low && test.high && *test.low >= least && *test.high <= most) return Change::same;
  return is_shown(test.ratio, change.adjusted_p, min_effect) ? direction() : Change::inconclusive;
}

/// Holm's family: one metric of one other run, over the cells.
void judge(RunComparison& out, size_t run, Metric metric) {
  std::vector<MetricChange*> family;
  std::vector<double> p_values;
  for (CellRow& row : out.cells) {
    MetricChange& change = row.runs[run].changes[size_t(metric)];
    if (!change.test || !change.test->p_value) continue;
    family.push_back(&change);
    p_values.push_back(*change.test->p_value);
  }
  const std::vector<double> adjusted = holm_adjusted(p_values);
  for (size_t i = 0; i < family.size(); ++i) family[i]->adjusted_p = adjusted[i];
  for (CellRow& row : out.cells) {
    MetricChange& change = row.runs[run].changes[size_t(metric)];
    change.change = judged(metric, change, out.options.min_effect);
    if (change.change != Change::inconclusive) change.repetitions_needed.reset();
  }
}

/// Every axes of any run once: the first run's order, then what only later ones have.
std::vector<CellAxes> all_axes(const std::vector<RunResult>& runs) {
  std::vector<CellAxes> all;
  for (const RunResult& run : runs)
    for (const CellResult& cell : run.cells)
      if (std::find(all.begin(), all.end(), cell.axes) == all.end()) all.push_back(cell.axes);
  return all;
}

const CellResult* cell_at(const RunResult& run, const CellAxes& axes) {
  const auto found =
      std::find_if(run.cells.begin(), run.cells.end(), [&](const CellResult& cell) { return cell.axes == axes; });
  return found == run.cells.end() ? nullptr : &*found;
}

}  // namespace

const char* to_string(Metric metric) {
  switch (metric) {
    case Metric::output_tok_s: return "output_tok_s";
    case Metric::decode_tok_s: return "decode_tok_s";
    case Metric::ttft_ms: return "ttft_ms";
    case Metric::tpot_ms: return "tpot_ms";
    case Metric::acceptance_length: return "acceptance_length";
    case Metric::steps: return "steps";
  }
  return "";
}

const char* metric_title(Metric metric) {
  switch (metric) {
    case Metric::output_tok_s: return "tok/s";
    case Metric::decode_tok_s: return "decode tok/s";
    case Metric::ttft_ms: return "TTFT ms";
    case Metric::tpot_ms: return "TPOT ms";
    case Metric::acceptance_length: return "AL";
    case Metric::steps: return "steps";
  }
  return "";
}

const char* change_word(Metric metric, Change change) {
  switch (change) {
    case Change::none: return "–";
    case Change::same: return "same";
    case Change::inconclusive: return "inconclusive";
    case Change::better:
      return metric == Metric::steps ? "fewer" : metric == Metric::acceptance_length ? "longer" : "faster";
    case Change::worse:
      return metric == Metric::steps ? "more" : metric == Metric::acceptance_length ? "shorter" : "slower";
  }
  return "–";
}

RunComparison compare_runs(const std::vector<RunResult>& runs, const CompareOptions& options) {
  PACELINE_CHECK(runs.size() >= 2, "{} runs to compare", runs.size());
  RunComparison out{.options = options};
  for (const RunResult& run : runs)
    out.runs.push_back({.id = run.info.id, .started_at = run.info.started_at, .numerics = run.info.numerics});
  compare_settings(runs, out);
  for (const CellAxes& axes : all_axes(runs)) {
    CellRow row{.axes = axes};
    const CellResult* const first = cell_at(runs.front(), axes);
    for (size_t run = 0; run < runs.size(); ++run) {
      const CellResult* const cell = cell_at(runs[run], axes);
      row.runs.push_back(side_of(cell));
      if (run > 0 && is_usable(first) && is_usable(cell))
        compare_with_first(*first, *cell, options.min_effect, row.runs.back());
    }
    out.cells.push_back(std::move(row));
  }
  for (size_t run = 1; run < runs.size(); ++run)
    for (const Metric metric : kMetrics) judge(out, run, metric);
  return out;
}

}  // namespace paceline
