#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxBars = 64;  // of more cells the chart shows the fastest of each proposer

constexpr std::array<const char*, 7> kPhases = {"verify",      "draft",  "sample", "schedule",
                                                "communicate", "bubble", "other"};

std::vector<double> parts_of(const PhaseTimes& p) {
  return {p.verify_ms, p.draft_ms, p.sample_ms, p.schedule_ms, p.communicate_ms, p.bubble_ms, p.other_ms};
}

bool is_timed(const CellSummary& s) { return s.step_ms && *s.step_ms > 0; }

/// The passes that a chart is about: decode passes, of older records all.
struct ChartedPasses {
  bool decode = true;

  explicit ChartedPasses(const RunSummary& summary) {
    for (const CellSummary& s : summary.cells)
      decode = decode && (!is_timed(s) || (s.passes && s.passes->decode.pass_ms));
  }
  const char* name() const { return decode ? "decode pass" : "target pass"; }
  const PhaseTimes& phases(const CellSummary& s) const {
    return decode ? s.passes->decode.phase_ms : s.phase_ms_per_step;
  }
  double ms(const CellSummary& s) const { return decode ? *s.passes->decode.pass_ms : *s.step_ms; }
};

std::string share_cells(const PassSummaries& passes) {
  std::string cells;
  for (const PassSummary* pass : {&passes.prefill, &passes.decode, &passes.mixed})
    cells += number_cell(100 * pass->share, 1);
  return cells;
}

}  // namespace

Section step_section(const Report& report) {
  Section section{"steps", "Where a step's time goes", ""};
  std::vector<const CellSummary*> cells;
  std::string rows;
  const ChartedPasses charted(report.summary);
  for (const CellSummary& s : report.summary.cells) {
    if (!is_timed(s)) continue;
    cells.push_back(&s);
    rows += row_open(report.cell(s), s) + axes_cells(report.cell(s).axes) + number_cell(charted.ms(s), 3);
    for (double part : parts_of(charted.phases(s))) rows += number_cell(part, 3);
    if (charted.decode) rows += share_cells(*s.passes);
    rows += "</tr>\n";
  }
  if (cells.empty()) return section;
  const bool all = cells.size() <= kMaxBars;
  if (!all) cells = report.fastest();
  std::erase_if(cells, [](const CellSummary* s) { return !is_timed(*s); });
  std::stable_sort(cells.begin(), cells.end(), [&](const CellSummary* a, const CellSummary* b) {
    const CellAxes &x = report.cell(*a).axes, &y = report.cell(*b).axes;
    return std::tie(x.tp, x.pp, x.concurrency) < std::tie(y.tp, y.pp, y.concurrency);
  });
  cells.resize(std::min(cells.size(), 2 * kMaxBars));
  StackedBars chart{.title = fmt::format("Time of a {} by phase", charted.name()),
                    .x_label = fmt::format("milliseconds per {}, deciding rank", charted.name()),
                    .unit = "ms",
                    .parts = {kPhases.begin(), kPhases.end()},
                    .rows = {}};
  for (const CellSummary* s : cells) {
    const CellAxes& axes = report.cell(*s).axes;
    chart.rows.push_back({.group = report.place(axes),
                          .label = report.method(axes),
                          .parts = parts_of(charted.phases(*s)),
                          .faded = !s->rankable,
                          .text = fmt::format("{:.2f} ms", charted.ms(*s))});
  }
  std::vector<LegendEntry> legend;
  const auto is_drawn = [&](size_t part) {
    return std::any_of(chart.rows.begin(), chart.rows.end(),
                       [&](const StackedRow& row) { return row.parts[part] > 0; });
  };
  for (size_t i = 0; i < chart.parts.size(); ++i)
    if (is_drawn(i)) legend.push_back({.name = chart.parts[i], .color = static_cast<int>(i), .swatch = true});
  std::vector<TableColumn> columns = axes_columns();
  columns.push_back({"pass", false, "all phases together"});
  for (const char* phase : kPhases) columns.push_back({phase});
  if (charted.decode)
    for (const char* kind : {"prefill %", "decode %", "mixed %"})
      columns.push_back({kind, false, "passes of this kind, share of the time"});
  section.body =
      chart_legend(legend) + wide(chart.title, svg_stacked_bars(chart)) +
      note(
          std::string(all ? "" : "Each proposer at its fastest k; the table below has all cells. ") +
          (charted.decode
               ? "Mean over decode passes: prefill is not in them; the table has its share of the time. Parts "
               : "Mean over all target passes, prefill passes included, as this run was recorded before they were told "
                 "apart; parts ") +
          "stand in the order of the legend. verify: the target's forward pass; bubble: waiting for another pipeline "
          "stage; communicate: sums and messages between "
          "ranks.") +
      "<details><summary>As numbers</summary>" +
      table(fmt::format("Milliseconds per {}.", charted.name()), columns, rows, "sortable") + "</details>";
  return section;
}

}  // namespace paceline::html
