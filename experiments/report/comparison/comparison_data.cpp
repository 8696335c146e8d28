// JSON and CSV of a comparison. Field names are a contract: docs/regression.md.

#include <fmt/format.h>

#include "experiments/analysis/metrics/csv.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/report/comparison/comparison.h"

namespace paceline {

using nlohmann::json;

namespace {

json differences_to_json(const std::vector<KeyDifference>& differences) {
  json out = json::array();
  for (const KeyDifference& difference : differences)
    out.push_back({{"key", difference.key}, {"values", difference.values}});
  return out;
}

json change_to_json(Metric metric, const MetricChange& change) {
  const auto number = [&](std::optional<double> RatioInterval::*field) {
    return change.test ? json_number((*change.test).*field) : json(nullptr);
  };
  return {{"ratio", change.test ? json_number(change.test->ratio) : json(nullptr)},
          {"ci95", change.test && change.test->low && change.test->high
                       ? json::array({json_number(change.test->low), json_number(change.test->high)})
                       : json(nullptr)},
          {"p_value", number(&RatioInterval::p_value)},
          {"adjusted_p", json_number(change.adjusted_p)},
          {"change", change.change == Change::none ? json(nullptr) : json(change_word(metric, change.change))},
          {"repetitions_needed", change.repetitions_needed ? json(*change.repetitions_needed) : json(nullptr)}};
}

json side_to_json(const CellSide& side) {
  json out = {{"id", side.id.empty() ? json(nullptr) : json(side.id)},
              {"status", side.id.empty() ? json(nullptr) : json(to_string(side.status))},
              {"reason", side.reason},
              {"repetitions", side.repetitions},
              {"rankable", side.rankable},
              {"noisy", side.noisy},
              {"values", json::object()}};
  for (const Metric metric : kMetrics) out["values"][to_string(metric)] = json_number(side.values[size_t(metric)]);
  if (!side.compared) return out;
  json changes = json::object(), counters = json::array();
  for (const Metric metric : kMetrics)
    changes[to_string(metric)] = change_to_json(metric, side.changes[size_t(metric)]);
  for (const CounterChange& c : side.counters)
    counters.push_back({{"name", c.name}, {"first", c.first}, {"other", c.other}});
  out["against_first"] = {{"changes", std::move(changes)},
                          {"outputs_compared", side.requests_compared},
                          {"outputs_different", side.requests_different},
                          {"first_difference", side.first_difference},
                          {"counters", std::move(counters)}};
  return out;
}

constexpr std::string_view kCsvColumns =
    "cell first_run other_run metric first other ratio=change/ratio ci95_low=change/ci95/0 "
    "ci95_high=change/ci95/1 p_value=change/p_value adjusted_p=change/adjusted_p change=change/change "
    "repetitions_needed=change/repetitions_needed outputs_different counters_different";

}  // namespace

json comparison_to_json(const RunComparison& comparison) {
  json runs = json::array(), cells = json::array();
  for (const ComparedRun& run : comparison.runs)
    runs.push_back({{"id", run.id}, {"started_at", run.started_at}, {"numerics", run.numerics}});
  for (const CellRow& row : comparison.cells) {
    json sides = json::array();
    for (const CellSide& side : row.runs) sides.push_back(side_to_json(side));
    cells.push_back({{"label", axes_label(row.axes)}, {"axes", fields_to_json(row.axes)}, {"runs", std::move(sides)}});
  }
  return {{"schema", "paceline.comparison"},
          {"schema_version", 1},
          {"min_effect", comparison.options.min_effect},
          {"runs", std::move(runs)},
          {"subject", differences_to_json(comparison.subject)},
          {"environment", differences_to_json(comparison.environment)},
          {"config", differences_to_json(comparison.config)},
          {"cells", std::move(cells)}};
}

std::string comparison_csv(const RunComparison& comparison) {
  std::vector<json> rows;
  for (const CellRow& row : comparison.cells)
    for (size_t run = 1; run < row.runs.size(); ++run) {
      const CellSide& side = row.runs[run];
      if (!side.compared) continue;
      for (const Metric metric : kMetrics)
        rows.push_back({{"cell", axes_label(row.axes)},
                        {"first_run", comparison.runs[0].id},
                        {"other_run", comparison.runs[run].id},
                        {"metric", to_string(metric)},
                        {"first", json_number(row.runs[0].values[size_t(metric)])},
                        {"other", json_number(side.values[size_t(metric)])},
                        {"change", change_to_json(metric, side.changes[size_t(metric)])},
                        {"outputs_different", side.requests_different},
                        {"counters_different", side.counters.size()}});
    }
  return to_csv(kCsvColumns, rows);
}

}  // namespace paceline
