#include <algorithm>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"

namespace paceline::html {

namespace {

std::optional<double> mib(int64_t bytes) {
  return bytes > 0 ? std::optional(static_cast<double>(bytes) / (1 << 20)) : std::nullopt;
}

double per_repetition(const CellSummary& s, int64_t count) {
  return static_cast<double>(count) / std::max(1, s.repetitions);
}

}  // namespace

Section memory_section(const Report& report) {
  Section section{"memory", "Preemptions and memory", ""};
  std::string rows;
  int64_t preemptions = 0;
  for (const CellSummary& s : report.summary.cells) {
    if (!report.is_done(s)) continue;
    const CellResult& cell = report.cell(s);
    const RunCounters& c = s.counters;
    preemptions += c.preemptions;
    rows += row_open(cell, s) + axes_cells(cell.axes) + number_cell(s.sequences_per_forward, 2) +
            number_cell(static_cast<double>(c.kv_blocks_peak), 0) + number_cell(per_repetition(s, c.preemptions), 1) +
            number_cell(per_repetition(s, c.swapped_blocks), 1) +
            number_cell(per_repetition(s, c.prefix_hit_tokens), 0) + number_cell(mib(cell.memory.weights_bytes), 1) +
            number_cell(mib(cell.memory.kv_bytes), 1) + number_cell(mib(cell.memory.rss_peak_bytes), 0) + "</tr>\n";
  }
  if (rows.empty()) return section;
  std::vector<TableColumn> columns = axes_columns();
  for (const TableColumn& column :
       std::initializer_list<TableColumn>{{"batch", false, "sequences of a target pass, mean"},
                                          {"KV peak", false, "blocks of the target in use at most"},
                                          {"preemptions", false, "of a repetition"},
                                          {"swapped", false, "blocks copied to host memory, of a repetition"},
                                          {"prefix hits", false, "prompt tokens found in the cache, of a repetition"},
                                          {"weights MiB", false, "planned, all ranks and the draft model"},
                                          {"KV MiB", false, "planned, all ranks and the draft model"},
                                          {"RSS MiB", false, "the process's peak so far"}})
    columns.push_back(column);
  section.body = (preemptions == 0
                      ? "<p>No request was preempted.</p>"
                      : fmt::format("<p>{} preemptions: the KV cache was too small for the load, and what a preempted "
                                    "request had computed was computed again or swapped.</p>",
                                    preemptions)) +
                 "<details><summary>As numbers</summary>" +
                 table("Counts of a repetition, mean over them.", columns, rows, "sortable") + "</details>" +
                 note("–: not recorded. The process's peak never falls from cell to cell.");
  return section;
}

}  // namespace paceline::html
