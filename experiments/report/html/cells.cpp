#include <fmt/format.h>

#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/cell_table.h"

namespace paceline::html {

namespace {

/// The end of a failed cell's log, to be opened; older runs have none.
std::string log_block(const Report& report, const CellResult& cell) {
  if (cell.log_tail.empty()) return {};
  std::string lines;
  for (const std::string& line : cell.log_tail) lines += html_escaped(line) + "\n";
  const std::string file = fmt::format("cells/{}/log.txt", cell.folder);
  return fmt::format("<details><summary>Log of {} ({}, the last {} lines)</summary><pre>{}</pre></details>\n",
                     html_escaped(cell.id), report.linked(file, html_escaped(file)), cell.log_tail.size(), lines);
}

}  // namespace

Section cells_section(const Report& report) {
  Section section{"cells", "All cells", ""};
  const Table cells = cell_table(report.run, report.summary);
  if (cells.rows.empty()) return section;
  section.body = html_table(cells, "sortable filterable");
  for (const CellSummary& s : report.summary.cells) section.body += log_block(report, report.cell(s));
  section.body += note(
      "c: concurrent requests. speedup: output tokens per second, prefill included, over the baseline cell. decode "
      "speedup: ratio of mean time per output token. AL: mean acceptance length, 1 + accepted / drafts, bonus token "
      "included. accept: accepted / drafted tokens. coverage: share of verify steps that had drafts. tok/pass: output "
      "tokens per sequence and pass. degen.: share of requests whose output ends in a repetition (period ≤ 16 "
      "for ≥ 32 tokens). certificate: tokens compared with the reference" +
      std::string(pooled_flips(report.run)
                      ? ", in fast numerics up to each request's first flip: another token than the reference's, "
                        "explained where the logits of the two are nearer than twice the noise, the most by which "
                        "computing them in passes of many rows and of few moved a logit."
                      : ". A lower k does not make the output more accurate: it is the same text."));
  return section;
}

}  // namespace paceline::html
