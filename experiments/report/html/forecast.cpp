#include <algorithm>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "experiments/analysis/metrics/forecast_ratio.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"

namespace paceline::html {

namespace {

std::string row_of(const Report& report, const ForecastRatio& each) {
  const CellResult& cell = report.run.cells[each.cell];
  const StepForecast& forecast = *cell.forecast;
  return row_open(cell, report.summary.cells[each.cell]) + axes_cells(cell.axes) +
         number_cell(forecast.target_bytes / 1e6, 1) +
         number_cell(forecast.draft_bytes > 0 ? std::optional(forecast.draft_bytes / 1e6) : std::nullopt, 1) +
         number_cell(forecast.read_bytes_s / 1e9, 1) + number_cell(each.predicted_ms, 3) +
         number_cell(each.measured_ms, 3) + number_cell(each.ratio(), 2, "×") + "</tr>\n";
}

}  // namespace

Section forecast_section(const Report& report) {
  Section section{"forecast", "Predicted against measured step times", ""};
  const std::vector<ForecastRatio> ratios = forecast_ratios(report.run, report.summary);
  if (ratios.empty()) return section;
  ScatterChart chart{.title = "Predicted against measured",
                     .x_label = "predicted floor of a step, ms (reading alone)",
                     .y_label = "measured median step, ms",
                     .points = {},
                     .frontier = {}};
  std::string rows;
  double longest = 0, largest = 0;
  std::vector<LegendEntry> legend;
  for (const ForecastRatio& each : ratios) {
    const CellResult& cell = report.run.cells[each.cell];
    const int color = report.color(report.proposer(cell));
    chart.points.push_back(
        {.x = each.predicted_ms,
         .y = each.measured_ms,
         .color = color,
         .faded = !report.summary.cells[each.cell].rankable,
         .text = "",
         .tooltip = fmt::format("{}: {:.3f} ms predicted, {:.3f} ms measured, {:.2f}×", report.label(cell.axes),
                                each.predicted_ms, each.measured_ms, each.ratio())});
    longest = std::max(longest, each.predicted_ms);
    largest = std::max(largest, each.measured_ms);
    rows += row_of(report, each);
    if (std::none_of(legend.begin(), legend.end(), [&](const LegendEntry& known) { return known.color == color; }))
      legend.push_back({.name = report.proposer(cell), .color = color});
  }
  const double diagonal = std::min(longest, largest);
  chart.frontier = {{0, 0}, {diagonal, diagonal}};
  const ForecastRatio& farthest = *farthest_off(ratios);
  std::vector<TableColumn> columns = axes_columns();
  for (const TableColumn& column :
       std::initializer_list<TableColumn>{{"target MB", false, "weights over all ranks"},
                                          {"draft MB", false, "of the draft model, read k times a step"},
                                          {"GB/s", false, "at which all usable cores read so much when the run began"},
                                          {"predicted ms"},
                                          {"measured ms", false, "median gap between a request's emissions"},
                                          {"ratio", false, "measured over predicted"}})
    columns.push_back(column);
  section.body =
      "<p>" +
      html_escaped(fmt::format("In the median of {} a step took {:.2f}× its predicted floor. Farthest from that "
                               "median: {}, {:.2f}× its floor.",
                               counted(int64_t(ratios.size()), "cell"), *median_ratio(ratios),
                               report.label(report.run.cells[farthest.cell].axes), farthest.ratio())) +
      "</p>" + chart_legend(legend) + wide(section.title, svg_scatter_chart(chart)) +
      note(
          "A dot is a cell; on the dashed line a step takes what was predicted. Predicted when the run began: the "
          "bytes of the target's weights, and k times those of a draft model, over the rate at which all usable cores "
          "read memory. Measured: the median gap between a request's emissions, so prefill is not in it. Arithmetic, "
          "KV, waiting and the engine's own work come on top; below the line lies what a cache held. Faded: not "
          "ranked. Oversubscribed cells are left out.") +
      "<details><summary>As numbers</summary>" + table("Predicted and measured steps.", columns, rows, "sortable") +
      "</details>";
  return section;
}

}  // namespace paceline::html
