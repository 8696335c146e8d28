// comparison_html(): one page, readable without script.

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "experiments/analysis/summary.h"
#include "experiments/report/comparison.h"
#include "experiments/report/svg_chart.h"

namespace paceline {

using comparison_parts::Sheet;

namespace {

constexpr const char* kStyle = R"css(
:root{--bg:#fff;--fg:#1b1f24;--mute:#5b6672;--line:#e3e7ec;--panel:#f6f8fa;--good:#00704d;--bad:#b3261e;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c7:#6b7580}
@media(prefers-color-scheme:dark){:root{--bg:#12161b;--fg:#e4e9ee;--mute:#98a4b0;--line:#2b323a;--panel:#1a2027;--good:#45c99b;--bad:#ff8a80;--c0:#4aa8e8;--c1:#f08a3c;--c2:#2fc598;--c7:#98a4b0}}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,"Liberation Sans",Arial,sans-serif}
main{max-width:1280px;margin:0 auto;padding:28px 24px 60px}h1{font-size:26px;margin:0 0 8px}h2{font-size:17px;margin:30px 0 6px}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:4px 9px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}th{background:var(--panel)}th.s,td.s{text-align:left}
.note{color:var(--mute);font-size:13.5px;margin:4px 0}.good{color:var(--good)}.bad{color:var(--bad)}
svg.chart{max-width:100%;height:auto;display:block}svg text{fill:var(--fg);font:12px system-ui,"Liberation Sans",Arial,sans-serif}svg .t{fill:var(--mute)}svg .h{font-weight:600}
svg .g{stroke:var(--line);fill:none}svg .w{stroke:var(--fg);stroke-width:1.2;fill:none}svg .faded{opacity:.4}
svg .b.k0{fill:var(--c0)}svg .b.k1{fill:var(--c1)}svg .b.k2{fill:var(--c2)}svg .b.k7{fill:var(--c7)}
@media print{main{max-width:none;padding:0}table{font-size:9px}})css";

std::string class_of(const std::string& text, bool left) {
  std::string name = left ? "s" : "";
  if (text.starts_with("faster") || text.ends_with(" faster")) name += " good";
  if (text.starts_with("slower") || text.ends_with(" slower") || text == "DIFFER") name += " bad";
  return name;
}

std::string html_table(const Sheet::Table& table) {
  std::string out = fmt::format("<h2>{}</h2><div class=\"wide\"><table>", html_escaped(table.title));
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const char* const tag = r == 0 ? "th" : "td";
    out += "<tr>";
    for (size_t c = 0; c < table.rows[r].size(); ++c) {
      const std::string& text = table.rows[r][c];
      const bool left = c < table.text_columns || c + 1 == table.rows[r].size();
      out += fmt::format("<{0} class=\"{1}\">{2}</{0}>", tag, class_of(text, left), html_escaped(text));
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

/// Ratios of one run's rates to A's; grey where nothing can be said.
std::string ratio_chart(const RunComparison& comparison, size_t run) {
  constexpr int kBetter = 2, kWorse = 1, kSame = 0, kOpen = 7;
  BarChart chart{.title = fmt::format("{}: {} against A's", run_letter(run), metric_title(Metric::output_tok_s)),
                 .x_label = "ratio; 1 is as fast as A"};
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
  return chart.rows.empty() ? "" : svg_bar_chart(chart);
}

}  // namespace

std::string comparison_html(const RunComparison& comparison) {
  const Sheet sheet = comparison_parts::sheet_of(comparison);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>Comparison</title>"
      "<style>{}</style></head><body><main><h1>Comparison of {} runs</h1>\n",
      kStyle, comparison.runs.size());
  for (const std::string& line : sheet.counts) out += fmt::format("<p><b>{}</b></p>\n", html_escaped(line));
  for (const Sheet::Table& table : sheet.settings) out += html_table(table);
  out += "<h2>Tokens and counters</h2>\n";
  for (const std::string& line : sheet.semantics) out += fmt::format("<p class=\"note\">{}</p>\n", html_escaped(line));
  for (size_t run = 1; run < comparison.runs.size(); ++run)
    out += html_table(sheet.changes[run - 1]) + ratio_chart(comparison, run);
  for (const std::string& line : sheet.notes) out += fmt::format("<p class=\"note\">{}</p>\n", html_escaped(line));
  return out + "</main></body></html>\n";
}

}  // namespace paceline
