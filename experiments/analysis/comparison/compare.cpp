#include "experiments/analysis/comparison/compare.h"

#include <algorithm>
#include <limits>
#include <map>

#include "experiments/analysis/claims/policy.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/outputs/output_comparison.h"
#include "experiments/analysis/statistics/statistics.h"
#include "kernels/error.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double output_rate(const RepetitionResult& r) { return r.wall_s > 0 ? double(output_tokens_of(r)) / r.wall_s : kNone; }

double decode_rate(const RepetitionResult& r) {
  const double tpot = mean(tpot_of(r)).value_or(kNone);
  return tpot > 0 ? 1000 / tpot : kNone;
}

double median_ttft(const RepetitionResult& r) {
  return quantile(of_requests(r, &RequestRecord::ttft_ms), 0.5).value_or(kNone);
}

double median_tpot(const RepetitionResult& r) { return quantile(tpot_of(r), 0.5).value_or(kNone); }

struct MetricRow {
  const char *name, *title;
  bool larger_is_better, is_timed;
  const char *better, *worse;
  double (*value)(const RepetitionResult& r);
};
constexpr MetricRow kRows[kNumMetrics] = {
    // in the order of the enumerators
    {"output_tok_s", "tok/s", true, true, "faster", "slower", output_rate},
    {"decode_tok_s", "decode tok/s", true, true, "faster", "slower", decode_rate},
    {"ttft_ms", "TTFT ms", false, true, "faster", "slower", median_ttft},
    {"tpot_ms", "TPOT ms", false, true, "faster", "slower", median_tpot},
    {"acceptance_length", "AL", true, false, "longer", "shorter",
     [](const RepetitionResult& r) {
       return acceptance_length(r.counters.accepted, r.counters.drafts).value_or(kNone);
     }},
    {"steps", "steps", false, false, "fewer", "more",
     [](const RepetitionResult& r) { return double(r.counters.steps); }},
};
const MetricRow& row_of(Metric metric) { return kRows[size_t(metric)]; }

std::vector<double> values_of(const CellResult& cell, Metric metric) {
  std::vector<double> values;
  for (const RepetitionResult& r : cell.repetitions) values.push_back(row_of(metric).value(r));
  return values;
}

std::optional<double> shown_value(const CellResult& cell, Metric metric) {
  if (metric == Metric::steps) return row_of(metric).value(cell.repetitions.front());
  if (metric == Metric::acceptance_length) {
    const RunCounters pooled = pooled_counters(cell);
    return acceptance_length(pooled.accepted, pooled.drafts);
  }
  return geometric_mean(values_of(cell, metric));  // so that the ratio is that of the columns
}

/// Requests that both cells have, each with its drafts of all repetitions: bootstrapped as one, since repetitions of a
/// request are no new requests.
std::vector<RequestSums> draft_sums(const CellResult& first, const CellResult& other) {
  std::map<RequestKey, RequestSums> sums;
  const auto add = [&](const CellResult& cell, double RequestSums::*numerator, double RequestSums::*denominator) {
    for (const RepetitionResult& r : cell.repetitions)
      for (const RequestRecord& q : r.requests)
        for (size_t step = 0; step < std::min(q.drafted.size(), q.accepted.size()); ++step)
          if (q.drafted[step] > 0) {
            RequestSums& sum = sums[key_of(q)];
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

std::optional<RatioInterval> ratio_of(const CellResult& first, const CellResult& other, Metric metric) {
  if (metric == Metric::acceptance_length) return bootstrap_ratio(draft_sums(first, other));
  if (metric == Metric::steps) {
    const double before = *shown_value(first, metric), now = *shown_value(other, metric);
    if (before <= 0) return std::nullopt;
    return RatioInterval{.ratio = now / before};
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
  side.requests_compared = outputs.requests;
  side.requests_different = int64_t(outputs.partings.size());
  side.first_difference = outputs.partings.empty() ? outputs.complaint : described(outputs.partings.front());
  side.counters = counter_changes(first.repetitions.front(), other.repetitions.front());
  for (const Metric metric : kMetrics) {
    MetricChange& change = side.changes[size_t(metric)];
    change.test = ratio_of(first, other, metric);
    if (row_of(metric).is_timed)
      change.repetitions_needed = repetitions_needed(values_of(first, metric), values_of(other, metric), min_effect);
  }
}

Change judged(Metric metric, const MetricChange& change, double min_effect) {
  if (!change.test) return Change::none;
  if (change.may_be_drift) return Change::inconclusive;
  const RatioInterval& test = *change.test;
  const auto direction = [&] {
    return (test.ratio > 1) == row_of(metric).larger_is_better ? Change::better : Change::worse;
  };
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
    change.may_be_drift = row_of(metric).is_timed && (row.runs[0].noisy || row.runs[run].noisy);
    if (!change.test || !change.test->p_value || change.may_be_drift) continue;
    family.push_back(&change);
    p_values.push_back(*change.test->p_value);
  }
  const std::vector<double> adjusted = holm_adjusted(p_values);
  for (size_t i = 0; i < family.size(); ++i) family[i]->adjusted_p = adjusted[i];
  for (CellRow& row : out.cells) {
    MetricChange& change = row.runs[run].changes[size_t(metric)];
    change.change = judged(metric, change, out.options.min_effect);
    if (change.change != Change::inconclusive || change.may_be_drift) change.repetitions_needed.reset();
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

const char* to_string(Metric metric) { return row_of(metric).name; }
const char* metric_title(Metric metric) { return row_of(metric).title; }

const char* change_word(Metric metric, Change change) {
  switch (change) {
    case Change::none: return "–";
    case Change::same: return "same";
    case Change::inconclusive: return "inconclusive";
    case Change::better: return row_of(metric).better;
    case Change::worse: return row_of(metric).worse;
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
