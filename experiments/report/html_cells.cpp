#include <fmt/format.h>

#include "experiments/analysis/interval_text.h"
#include "experiments/analysis/summary_verdict.h"
#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"
#include "experiments/report/text.h"

namespace paceline::html {

namespace {

enum class ShowInterval { beside, tooltip };

std::string ratio_cell(const std::optional<RatioInterval>& r, ShowInterval show) {
  if (!r) return "<td>–</td>";
  const bool has_width = r->low && r->high && *r->low < *r->high;
  const std::string interval = has_width ? interval_range_text(r->low, r->high) : "";
  if (show == ShowInterval::tooltip || interval.empty()) {
    return fmt::format("<td title=\"{}\">{:.2f}×</td>", interval, r->ratio);
  }
  return fmt::format("<td>{:.2f}× <span class=\"ci\">{}</span></td>", r->ratio, interval);
}

std::string certificate_cell(const CellResult& cell) {
  if (cell.status != CellStatus::done) return "<td class=\"s\">–</td>";
  const CertificateResult& c = cell.certificate;
  const char* const mark = cell.random_weights ? " <span class=\"ci\">random weights</span>" : "";
  const std::string fast =
      c.flips ? fmt::format(" <span class=\"ci\">fast: {}</span>", html_escaped(flips_text(*c.flips))) : "";
  switch (c.status) {
    case CertificateStatus::pass:
      return fmt::format("<td class=\"s good\" title=\"{}\">✓ <span class=\"ci\">{} tokens</span>{}{}</td>",
                         html_escaped(c.method), c.tokens_checked, fast, mark);
    case CertificateStatus::fail:
      return fmt::format("<td class=\"s bad\" title=\"{}\">✗ FAIL <span class=\"ci\">{} of {}</span>{}</td>",
                         html_escaped(c.detail), c.mismatches, c.tokens_checked, fast);
    case CertificateStatus::baseline: return fmt::format("<td class=\"s\">baseline{}{}</td>", fast, mark);
    case CertificateStatus::unverified:
      return fmt::format("<td class=\"s slow\" title=\"{}\">UNVERIFIED</td>", html_escaped(c.detail));
  }
  return "<td></td>";
}

const char* verdict_class(const CellResult& cell, const CellSummary& s) {
  if (cell.status == CellStatus::failed || cell.certificate.status == CertificateStatus::fail) return "why bad";
  if (s.rankable && s.outcome == Outcome::faster) return "why good";
  if (s.rankable && s.outcome == Outcome::slower) return "why slow";
  return "why";
}

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
  std::string body;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    body += row_open(cell, s, axes_label(cell.axes) + " " + to_string(cell.status)) + axes_cells(cell.axes) +
            number_cell(s.output_tok_s, 1) + ratio_cell(s.speedup, ShowInterval::beside) +
            ratio_cell(s.decode_speedup, ShowInterval::tooltip) + number_cell(s.mean_acceptance_length, 2) +
            number_cell(s.draft_acceptance_rate, 2) + number_cell(s.draft_coverage, 2) +
            number_cell(s.tokens_per_target_forward, 2) + number_cell(s.degenerate_share, 2) + certificate_cell(cell) +
            text_cell(cell_verdict(cell, s), verdict_class(cell, s)) + "</tr>\n";
  }
  if (body.empty()) return section;
  std::vector<TableColumn> columns = axes_columns();
  for (const TableColumn& column : std::initializer_list<TableColumn>{{"tok/s"},
                                                                      {"speedup"},
                                                                      {"decode speedup"},
                                                                      {"AL", false, "mean acceptance length"},
                                                                      {"accept", false, "accepted / drafted tokens"},
                                                                      {"coverage"},
                                                                      {"tok/pass"},
                                                                      {"degen."},
                                                                      {"certificate", true},
                                                                      {"verdict or reason", true}})
    columns.push_back(column);
  section.body = table("Failed, skipped and not run cells with their reasons too. Small numbers: 95 % intervals.",
                       columns, body, "sortable filterable");
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
