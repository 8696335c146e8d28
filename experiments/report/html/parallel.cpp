#include <algorithm>

#include <fmt/format.h>

#include "experiments/analysis/claims/view.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxRankBars = 96;

std::optional<double> share_of_step(const CellSummary& s, double ms) {
  if (!s.step_ms || *s.step_ms <= 0) return std::nullopt;
  return ms / *s.step_ms;
}

std::string scaling_row(const Report& report, const VerdictView& view, const CellSummary& s) {
  const CellResult& cell = report.cell(s);
  const Claim* const gain = view.claim(ClaimKind::over_one_rank, s);
  const int num_ranks = cell.axes.tp * cell.axes.pp;
  std::optional<RatioInterval> over_one;
  if (gain)
    over_one = gain->ratio;
  else if (num_ranks == 1 && !s.open_loop)
    over_one = RatioInterval{.ratio = 1.0, .low = {}, .high = {}, .pairs = 0};
  const double kib = s.devices.communicate.bytes / 1024;
  return row_open(cell, s) + axes_cells(cell.axes) + number_cell(s.output_tok_s, 1) + "<td>" + speedup_text(over_one) +
         "</td>" + percent_cell(over_one ? std::optional(over_one->ratio / num_ranks) : std::nullopt) +
         percent_cell(share_of_step(s, s.phase_ms_per_step.communicate_ms)) +
         percent_cell(share_of_step(s, s.phase_ms_per_step.bubble_ms)) +
         number_cell(s.step_ms ? std::optional(s.phase_ms_per_step.communicate_ms) : std::nullopt, 3) +
         number_cell(kib > 0 ? std::optional(kib) : std::nullopt, 1) +
         fmt::format("<td class=\"s\">{}</td></tr>\n", busy_text(s.devices.busy));
}

}  // namespace

Section parallel_section(const Report& report) {
  Section section{"ranks", "What more ranks give", ""};
  std::vector<const CellSummary*> cells = report.fastest();
  if (std::none_of(cells.begin(), cells.end(),
                   [&](const CellSummary* s) { return report.cell(*s).axes.tp * report.cell(*s).axes.pp > 1; }))
    return section;
  const VerdictView& view = report.view;
  std::string rows;
  BarChart chart{
      .title = "Busy share of each rank's device", .x_label = "share of the wall time", .rows = {}, .scale_to = 1.0};
  for (const CellSummary* s : cells) {
    const CellAxes& axes = report.cell(*s).axes;
    rows += scaling_row(report, view, *s);
    if (axes.tp * axes.pp == 1 || chart.rows.size() + s->devices.busy.size() > kMaxRankBars) continue;
    for (size_t rank = 0; rank < s->devices.busy.size(); ++rank) {
      const int stage = static_cast<int>(rank) / axes.tp;
      chart.rows.push_back(
          {.group = report.label(axes),
           .label = axes.pp > 1 ? fmt::format("rank {}, stage {}", rank, stage) : fmt::format("rank {}", rank),
           .value = s->devices.busy[rank],
           .low = {},
           .high = {},
           .color = report.color(*s),
           .faded = !s->rankable,
           .text = fmt::format("{:.2f}", s->devices.busy[rank])});
    }
  }
  std::vector<TableColumn> columns = axes_columns();
  for (const TableColumn& column : std::initializer_list<TableColumn>{
           {"tok/s"},
           {"over one rank", false, "tok/s over those of the same cell on one rank, with its 95 % interval"},
           {"efficiency", false, "that ratio over the number of ranks"},
           {"communicate", false, "share of a step"},
           {"bubble", false, "share of a step"},
           {"communicate ms", false, "of the deciding rank, per target pass"},
           {"sent KiB", false, "per target pass, of the rank that sends most"},
           {"device busy", true, "share of the wall time, rank by rank"}})
    columns.push_back(column);
  section.body = table("Each proposer at its fastest k, against the same cell on one rank.", columns, rows, "sortable");
  if (!chart.rows.empty()) section.body += "<h3>Busy share of each rank</h3>" + wide(chart.title, svg_bar_chart(chart));
  section.body += note(
      "efficiency: tok/s over one rank, over the number of ranks; 100 % is perfect scaling. communicate and bubble: "
      "shares of the deciding rank's step. device busy: the device's time at work; under pipeline stages one waits for "
      "the "
      "other unless there are as many requests as stages. –: not recorded, nothing was sent, or an open loop, whose "
      "tok/s is what was sent.");
  return section;
}

}  // namespace paceline::html
