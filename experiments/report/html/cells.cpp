#include <algorithm>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"
#include "experiments/report/text/text.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxNamed = 12;  // cells of one reason

/// The cells of each reason, in plan order.
std::string missing_list(const Report& report, const char* heading, MissingKind kind) {
  std::string out;
  for (const auto& [reason, cells] : missing_cells(report.run, kind)) {
    std::string names;
    for (size_t i = 0; i < std::min(cells.size(), kMaxNamed); ++i)
      names += (i == 0 ? "" : "; ") + report.label(cells[i]->axes);
    if (cells.size() > kMaxNamed) names += fmt::format("; and {} more", cells.size() - kMaxNamed);
    out += fmt::format("<li{}>{} <span class=\"sub\">({}: {})</span></li>",
                       kind == MissingKind::failed ? " class=\"bad\"" : "", html_escaped(reason), cells.size(),
                       html_escaped(names));
  }
  return out.empty() ? "" : fmt::format("<h3>{}</h3><ul>{}</ul>", heading, out);
}

/// The end of a failed cell's log, to be opened; older runs have none.
std::string log_block(const Report& report, const CellResult& cell) {
  if (cell.log_tail.empty()) return {};
  const std::string file = fmt::format("cells/{}/log.txt", cell.folder);
  return fmt::format("<details><summary>Log of {} ({}, the last {} lines)</summary><pre>{}\n</pre></details>\n",
                     html_escaped(cell.id), report.linked(file, html_escaped(file)), cell.log_tail.size(),
                     html_escaped(fmt::format("{}", fmt::join(cell.log_tail, "\n"))));
}

}  // namespace

Section trouble_section(const Report& report) {
  Section section{"trouble", "Cells without a result",
                  missing_list(report, "Failed", MissingKind::failed) +
                      missing_list(report, "Not run", MissingKind::left_out) +
                      missing_list(report, "Skipped", MissingKind::skipped)};
  if (!section.body.empty() && report.run.info.status == "interrupted")
    section.body += note("The run was interrupted: <code>runexp resume " + html_escaped(report.run.info.id) +
                         "</code> measures what is missing.");
  return section;
}

namespace {

/// The last column, the verdict, behind the speedup: on most screens the table is wider than the page.
void move_verdict(Table& cells) {
  const auto speedup = std::ranges::find_if(
      cells.columns, [](const Table::Column& column) { return column.name.starts_with("speedup"); });
  if (speedup == cells.columns.end()) return;
  const auto to = speedup - cells.columns.begin() + 1;
  const auto rotate = [&](auto& items) { std::rotate(items.begin() + to, items.end() - 1, items.end()); };
  rotate(cells.columns);
  for (Table::Row& row : cells.rows) rotate(row.cells);
}

}  // namespace

Section cells_section(const Report& report) {
  Section section{"cells", "All cells"};
  Table cells = cell_table(report.view);
  move_verdict(cells);
  if (cells.rows.empty()) return section;
  section.body = html_table(cells, "sortable filterable");
  for (const CellSummary& s : report.summary.cells) section.body += log_block(report, report.cell(s));
  section.body += note(
      html_escaped(legend_text(cells)) + " certificate: tokens compared with the reference" +
      (pooled_flips(report.run)
           ? ", in fast numerics up to each request's first flip, which is explained where the logits of both tokens "
             "are nearer than twice the noise: the most by which passes of many rows and of few moved a logit."
           : "."));
  return section;
}

}  // namespace paceline::html
