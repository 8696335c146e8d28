// comparison_html(): one page, readable without script.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "experiments/analysis/metrics/summary.h"
#include "experiments/report/comparison/comparison.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"

namespace paceline {

using comparison_parts::Sheet;

namespace {

std::string titled(const Table& table) {
  return fmt::format("<h2>{}</h2>", html_escaped(table.title)) + html_table(table, "titled fits");
}

/// Ratios of one run's rates to A's; grey where nothing can be said.
std::string ratio_chart(const RunComparison& comparison, size_t run) {
  constexpr int kBetter = 2, kWorse = 1, kSame = 0, kOpen = 7;
  BarChart chart{.title = fmt::format("{}: {} against A's", run_letter(run), metric_title(Metric::output_tok_s)),
                 .x_label = "ratio; 1 is as fast as A",
                 .rows = {},
                 .scale_to = {},
                 .reference = 1.0};
  for (const CellRow& row : comparison.cells) {
    const MetricChange& change = row.runs[run].changes[size_t(Metric::output_tok_s)];
    if (!change.test || !std::isfinite(change.test->ratio)) continue;
    const int color = change.change == Change::better  ? kBetter
                      : change.change == Change::worse ? kWorse
                      : change.change == Change::same  ? kSame
                                                       : kOpen;
    chart.rows.push_back({.label = axes_label(row.axes),
                          .value = change.test->ratio,
                          .low = change.test->low,
                          .high = change.test->high,
                          .color = color,
                          .faded = !row.runs[0].rankable || !row.runs[run].rankable,
                          .text = change_text(Metric::output_tok_s, change)});
  }
  return chart.rows.empty() ? "" : html::wide(chart.title, svg_bar_chart(chart));
}

}  // namespace

std::string comparison_html(const RunComparison& comparison) {
  const Sheet sheet = comparison_parts::sheet_of(comparison);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" "
      "content=\"light dark\"><title>Comparison</title>"
      "<style>{}</style></head><body><main><h1>Comparison of {} runs</h1>\n",
      html::page_style(), comparison.runs.size());
  for (const std::string& line : sheet.counts) out += fmt::format("<p><b>{}</b></p>\n", html_escaped(line));
  for (const Table& table : sheet.settings) out += titled(table);
  out += "<h2>Tokens and counters</h2>\n";
  for (const std::string& line : sheet.semantics) out += fmt::format("<p class=\"note\">{}</p>\n", html_escaped(line));
  for (size_t run = 1; run < comparison.runs.size(); ++run)
    out += titled(sheet.changes[run - 1]) + ratio_chart(comparison, run);
  for (const std::string& line : sheet.notes) out += fmt::format("<p class=\"note\">{}</p>\n", html_escaped(line));
  return out + "</main></body></html>\n";
}

}  // namespace paceline
