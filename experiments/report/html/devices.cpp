#include <set>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"

namespace paceline::html {

namespace {

/// Time, share of the read rate, of the matrix rate, of the floor.
std::string phase_cells(const Roofline& r) {
  return number_cell(r.ms, 3) + percent_cell(r.read_share) + percent_cell(r.matrix_share) + percent_cell(r.floor_share);
}

std::optional<double> in_units(const std::optional<double>& value, double unit) {
  return value ? std::optional(*value / unit) : std::nullopt;
}

std::string row(const CellResult& cell, const CellSummary& s) {
  const DeviceSummary& d = s.devices;
  const DeviceCeilings& c = cell.ceilings;
  constexpr double kGiga = 1e9, kKibi = 1024.0;
  return row_open(cell, s) + axes_cells(cell.axes) + fmt::format("<td>{}</td>", busy_text(d.busy)) +
         phase_cells(d.verify) + phase_cells(d.draft) + number_cell(d.sample.ms, 3) +
         percent_cell(d.sample.read_share) + number_cell(d.attention.floor_ms, 3) +
         number_cell(d.communicate.bytes > 0 ? std::optional(d.communicate.bytes / kKibi) : std::nullopt, 1) +
         number_cell(d.communicate.ms, 3) + number_cell(d.communicate.floor_ms, 3) +
         number_cell(in_units(c.read_bytes_s, kGiga), 0) + number_cell(in_units(c.matrix_flops_s, kGiga), 0) +
         number_cell(in_units(c.link_bytes_s, kGiga), 0) + "</tr>\n";
}

}  // namespace

Section device_section(const Report& report) {
  Section section{"devices", "Devices against their ceilings", ""};
  std::string body;
  std::set<std::string> matrix;
  for (const CellSummary& s : report.summary.cells) {
    if (!report.is_done(s) || s.devices.busy.empty()) continue;
    const CellResult& cell = report.cell(s);
    body += row(cell, s);
    if (!cell.ceilings.matrix.empty()) matrix.insert(cell.ceilings.matrix);
  }
  if (body.empty()) return section;
  std::vector<TableColumn> columns = axes_columns();
  for (const char* const name :
       {"device busy", "verify ms", "verify of read", "verify of matrix", "verify of floor", "draft ms",
        "draft of read", "draft of matrix", "draft of floor", "sample ms", "sample of read", "attention floor ms",
        "sent KiB", "waits ms", "link floor ms", "read GB/s", "matrix GFLOP/s", "link GB/s"})
    columns.push_back({name});
  section.body =
      table("Milliseconds and counts per target pass.", columns, body, "sortable") +
      note(fmt::format(
          "device busy: share of the wall time in which each rank's device was at work, by rank; the rest is the "
          "deciding "
          "rank's. of read: weights, KV and logits read, over the time, over plain reads. of matrix: operations over "
          "the time, over {}. of floor: the longer of both at the ceilings, over the time; 100 % is as fast as they "
          "allow. Attention is a part of verify and not timed by itself. Ranks on CPUs share the memory that one of "
          "them was measured on alone.",
          matrix.empty() ? "the matrix rate" : html_escaped(fmt::format("{}", fmt::join(matrix, " or ")))));
  return section;
}

}  // namespace paceline::html
