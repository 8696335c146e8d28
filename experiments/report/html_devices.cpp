#include <set>

#include <fmt/format.h>

#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"
#include "experiments/report/text.h"

namespace paceline::html {

namespace {

std::string number_cell(const std::optional<double>& value, int digits, double unit = 1.0) {
  if (!value) return "<td data-v=\"\">–</td>";
  return fmt::format("<td data-v=\"{:.6g}\">{:.{}f}</td>", *value / unit, *value / unit, digits);
}

std::string percent_cell(const std::optional<double>& share) {
  if (!share) return "<td data-v=\"\">–</td>";
  return fmt::format("<td data-v=\"{:.6g}\">{:.0f} %</td>", *share, *share * 100);
}

/// Time, share of the read rate, of the matrix rate, of the floor.
std::string phase_cells(const Roofline& r) {
  return number_cell(r.ms, 3) + percent_cell(r.read_share) + percent_cell(r.matrix_share) + percent_cell(r.floor_share);
}

std::string row(const std::string& label, const CellResult& cell, const CellSummary& s) {
  const DeviceSummary& d = s.devices;
  const DeviceCeilings& c = cell.ceilings;
  constexpr double kGiga = 1e9, kKibi = 1024.0;
  return fmt::format("<tr data-label=\"{0}\"><td class=\"s\">{0}</td><td>{1}</td>", html_escaped(label),
                     busy_text(d.busy)) +
         phase_cells(d.verify) + phase_cells(d.draft) + number_cell(d.sample.ms, 3) +
         percent_cell(d.sample.read_share) + number_cell(d.attention.floor_ms, 3) +
         number_cell(d.communicate.bytes > 0 ? std::optional(d.communicate.bytes) : std::nullopt, 1, kKibi) +
         number_cell(d.communicate.ms, 3) + number_cell(d.communicate.floor_ms, 3) +
         number_cell(c.read_bytes_s, 0, kGiga) + number_cell(c.matrix_flops_s, 0, kGiga) +
         number_cell(c.link_bytes_s, 0, kGiga) + "</tr>\n";
}

}  // namespace

std::string device_section(const Report& report) {
  std::string body;
  std::set<std::string> matrix;
  for (const CellSummary& s : report.summary.cells) {
    if (!report.is_done(s) || s.devices.busy.empty()) continue;
    const CellResult& cell = report.cell(s);
    body += row(report.label(cell.axes), cell, s);
    if (!cell.ceilings.matrix.empty()) matrix.insert(cell.ceilings.matrix);
  }
  if (body.empty()) return "";
  std::string out =
      "<section><h2>Devices against their ceilings</h2><div class=\"wide\"><table class=\"sortable\">"
      "<caption>Milliseconds and counts per target pass.</caption><thead><tr>";
  for (const char* const name : {"cell", "busy", "verify ms", "of read", "of matrix", "of floor", "draft ms", "of read",
                                 "of matrix", "of floor", "sample ms", "of read", "attention floor ms", "sent KiB",
                                 "waits ms", "link floor ms", "read GB/s", "matrix GFLOP/s", "link GB/s"})
    out += fmt::format("<th scope=\"col\"{}>{}</th>", std::string_view(name) == "cell" ? " class=\"s\"" : "", name);
  return out + "</tr></thead><tbody>" + body +
         fmt::format(
             "</tbody></table></div><p class=\"note\">busy: share of the wall time in which each rank's device was "
             "at work, by rank; the rest is the deciding rank's. of read: weights, KV and logits read, over the "
             "time, over plain reads. of matrix: operations over the time, over {}. of floor: the longer of both "
             "at the ceilings, over the time; 100 % is as fast as they allow. Attention is a part of verify and "
             "not timed by itself. Ranks on CPUs share the memory that one of them was measured on "
             "alone.</p></section>\n",
             matrix.empty() ? "the matrix rate" : html_escaped(fmt::format("{}", fmt::join(matrix, " or "))));
}

}  // namespace paceline::html
