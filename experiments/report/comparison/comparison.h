#pragma once
// A comparison of runs (experiments/analysis/comparison/compare.h) for people and for programs. Runs are called A, B, C
// … in the order in which they were named.

#include <string>

#include <nlohmann/json.hpp>

#include "experiments/analysis/comparison/compare.h"

namespace paceline {

/// "A" … "Z", then "R27".
std::string run_letter(size_t run);

/// "faster", "inconclusive (needs n >= 7)".
std::string change_text(Metric metric, const MetricChange& change);

/// What differs in settings, machine and tokens, then a table for each run against A. columns: of the terminal; tables
/// that are wider are stacked (stacked_table), sentences broken between words. 0: all stays as it is.
std::string comparison_text(const RunComparison& comparison, int columns = 0);
std::string comparison_markdown(const RunComparison& comparison);

/// One self-contained page: no script, no network, light and dark.
std::string comparison_html(const RunComparison& comparison);

/// {"schema": "paceline.comparison", "schema_version": 1, …}; docs/regression.md lists the fields.
nlohmann::json comparison_to_json(const RunComparison& comparison);

/// One line for each cell, other run and metric.
std::string comparison_csv(const RunComparison& comparison);

}  // namespace paceline
