#include <fmt/format.h>

#include "experiments/report/html/parts.h"

namespace paceline::html {

namespace {

std::optional<double> ratio(double part, double whole) {
  return whole > 0 ? std::optional(part / whole) : std::nullopt;
}

std::string stage_row(const CellResult& cell, const CellSummary& s, const StageCounters& stage) {
  CellAxes axes = cell.axes;
  axes.proposer = "↳ " + stage.name;
  const double drafts = double(stage.drafts), drafted = double(stage.drafted), accepted = double(stage.accepted);
  return "<tr>" + axes_cells(axes) + number_cell(ratio(drafts, double(s.counters.verify_steps)), 2) +
         number_cell(drafts > 0 ? std::optional(1 + accepted / drafts) : std::nullopt, 2) + number_cell({}, 2) +
         number_cell({}, 2) + number_cell(ratio(drafted, accepted), 2) + number_cell({}, 3) + number_cell({}, 2) +
         "</tr>\n";
}

}  // namespace

Section drafts_section(const Report& report) {
  Section section{"drafts", "What drafts cost and bring", ""};
  std::string rows;
  bool has_stages = false;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    if (!report.is_done(s) || !s.rows_per_step) continue;
    std::optional<double> draft_ms, share;
    if (s.passes && s.passes->decode.pass_ms) {
      draft_ms = s.passes->decode.phase_ms.draft_ms;
      share = ratio(*draft_ms, *s.passes->decode.pass_ms);
    }
    rows += row_open(cell, s) + axes_cells(cell.axes) + number_cell(s.draft_coverage, 2) +
            number_cell(s.mean_acceptance_length, 2) + number_cell(s.rows_per_step, 2) +
            number_cell(s.mean_draft_depth, 2) + number_cell(s.drafted_per_kept, 2) + number_cell(draft_ms, 3) +
            number_cell(share, 2) + "</tr>\n";
    for (const StageCounters& stage : s.counters.stages) rows += stage_row(cell, s, stage);
    has_stages = has_stages || !s.counters.stages.empty();
  }
  if (rows.empty()) return section;
  std::vector<TableColumn> columns = axes_columns();
  for (const TableColumn& column : std::initializer_list<TableColumn>{
           {"coverage", false, "share of verify steps that had drafts"},
           {"AL", false, "tokens of a verify step that had drafts"},
           {"rows", false, "of the target, per sequence and verify step: 1 + drafted"},
           {"depth", false, "positions that the drafts of a step reach: less than their number where they branch"},
           {"drafted per kept", false, "drafted / accepted"},
           {"drafting ms", false, "of a decode pass"},
           {"of pass", false, "drafting, as a share of a decode pass"}})
    columns.push_back(column);
  section.body =
      table("All repetitions together.", columns, rows, has_stages ? "" : "sortable") +
      note(std::string("A chain reaches as deep as it has drafts; a tree of as many reaches less deep and is "
                       "right more often at each depth.") +
           (has_stages ? " ↳: a stage of the row above, of the steps whose drafts were its own." : ""));
  return section;
}

}  // namespace paceline::html
