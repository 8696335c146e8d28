#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "experiments/analysis/published_rows.h"
#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"
#include "experiments/report/text.h"

namespace paceline::html {

namespace {

BarRow bar_row(const Report& report, const CellSummary& s) {
  const CellResult& cell = report.cell(s);
  BarRow row{.group = placement(cell.axes),
             .label = report.method(cell.axes),
             .value = *s.output_tok_s,
             .low = {},
             .high = {},
             .color = report.color(s),
             .faded = !s.rankable,
             .text = fmt::format("{:.1f}", *s.output_tok_s)};
  if (s.output_tok_s_interval) {
    row.low = s.output_tok_s_interval->low;
    row.high = s.output_tok_s_interval->high;
    row.text += fmt::format(" [{:.0f}, {:.0f}]", *row.low, *row.high);
    cut_whisker(row);
  }
  if (s.speedup && cell.baseline_id != cell.id) row.text += fmt::format(" · {:.2f}×", s.speedup->ratio);
  if (!s.rankable) row.text += " (" + s.not_rankable + ")";
  return row;
}

}  // namespace

Section headline_section(const Report& report) {
  Section section{"headline", "Speed at a glance", ""};
  std::string charts;
  for (int concurrency : report.concurrencies()) {
    BarChart chart{.title = "Output tokens per second",
                   .x_label = "output tokens per second (prefill included)",
                   .rows = {},
                   .scale_to = {}};
    std::vector<std::pair<std::array<int, 2>, BarRow>> rows;
    for (const CellSummary* s : report.fastest()) {
      const CellAxes& axes = report.cell(*s).axes;
      if (axes.concurrency == concurrency) rows.push_back({{axes.tp, axes.pp}, bar_row(report, *s)});
    }
    if (rows.empty()) continue;
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& row : rows) chart.rows.push_back(std::move(row.second));
    if (report.has_several_concurrencies()) charts += fmt::format("<h3>Concurrency {}</h3>", concurrency);
    charts += wide(chart.title, svg_bar_chart(chart));
  }
  if (charts.empty()) return section;
  section.body = charts + note(
                              "Each proposer at the k that was fastest for its placement; all k are in the table. "
                              "Whiskers and brackets: 95 % interval over repetitions (Student t of logs). × is against "
                              "the baseline of its row. An arrow head: the interval goes on, its whisker is cut at 1.5 "
                              "times the bar. Faded bars are not ranked.");
  return section;
}

Section published_section(const Report& report) {
  Section section{"published", "Beside what others measured", ""};
  std::string body;
  const std::vector<PublishedRow> rows = published_rows(report.run, report.summary);
  for (const PublishedRow& row : rows) {
    body += fmt::format("<tr data-label=\"{0}\"><td class=\"s\">{0}</td>", html_escaped(row.label)) +
            text_cell(row.over) + number_cell(row.output_tok_s, 1) + number_cell(row.tpot_ms, 2) +
            fmt::format("<td>{}</td><td>{}</td>", ratio_text(row.measured), ratio_text(row.published)) +
            text_cell(row.why, "why") + "</tr>\n";
  }
  if (body.empty()) return section;
  section.body = table(
      fmt::format("Output tokens per second over those of the row named; {}.", published_sources(rows)),
      {{"row", true}, {"over", true}, {"tok/s"}, {"TPOT p50, ms"}, {"measured"}, {"published"}, {"why", true}}, body);
  return section;
}

}  // namespace paceline::html
