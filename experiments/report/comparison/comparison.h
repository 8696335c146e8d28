#pragma once
// A comparison of runs (experiments/analysis/comparison/compare.h) for people and for programs. Runs are called A, B, C
// … in the order in which they were named.

#include <string>

#include <nlohmann/json.hpp>

#include "experiments/analysis/comparison/compare.h"
#include "experiments/report/text/table.h"

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

namespace comparison_parts {

/// What the text, Markdown and HTML forms share: sentences and tables in reading order.
struct Sheet {
  std::vector<Table> settings;         // runs, then what differs; each with a column for every run
  std::vector<std::string> semantics;  // tokens and counters
  std::vector<Table> changes;          // one for each run but A
  std::vector<std::string> counts;     // "B: tok/s: 2 faster, 5 same"
  std::vector<std::string> notes;      // how to read it
};
Sheet sheet_of(const RunComparison& comparison);

}  // namespace comparison_parts

}  // namespace paceline
