#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/outputs/certificate.h"
#include "experiments/analysis/published_rows.h"
#include "experiments/analysis/statistics/statistics.h"
#include "experiments/report/text/text.h"

namespace paceline {
namespace {

/// A column of the cells: what it is called and what it says of a cell.
struct CellColumn {
  Table::Column column;
  std::function<Table::Cell(const CellResult& cell, const CellSummary& s)> cell;  // null: its verdict
  bool (*is_for)(const RunSummary& summary) = [](const RunSummary&) { return true; };
};

bool has_open_loop(const RunSummary& summary) {
  return std::any_of(summary.cells.begin(), summary.cells.end(), [](const CellSummary& s) { return s.open_loop; });
}
bool has_none(const RunSummary& summary) { return !has_open_loop(summary); }
bool has_goodput(const RunSummary& summary) {
  return std::any_of(summary.cells.begin(), summary.cells.end(), [](const CellSummary& s) { return s.goodput; });
}

std::string ms_text(const std::optional<double>& ms, int digits) { return ms ? number_text(ms, digits) + " ms" : "–"; }

Table::Cell ratio_cell(const CellResult& cell, const std::optional<RatioInterval>& ratio) {
  if (!ratio) return "–";
  if (cell.baseline_id == cell.id) return "1.00×";
  const std::string text = interval_text(*ratio), number = ratio_text(ratio->ratio);
  return text.starts_with(number + " ") ? Table::Cell(number, text.substr(number.size() + 1)) : Table::Cell(text);
}

Table::Cell certificate_cell(const CellResult& cell) {
  if (cell.status != CellStatus::done) return "–";
  const CertificateResult& c = cell.certificate;
  const std::string more = (c.flips ? "fast: " + flips_text(*c.flips) : "") +
                           (cell.random_weights ? (c.flips ? ", random weights" : "random weights") : "");
  switch (c.status) {
    case CertificateStatus::pass:
      return {"✓", fmt::format("{} tokens{}{}", c.tokens_checked, more.empty() ? "" : " ", more), "good", c.method};
    case CertificateStatus::fail:
      return {"✗ FAIL", fmt::format("{} of {}", c.mismatches, c.tokens_checked), "bad", c.detail};
    case CertificateStatus::baseline: return {"baseline", more};
    case CertificateStatus::unverified: return {"UNVERIFIED", "", "slow", c.detail};
  }
  return "";
}

const char* verdict_class(const CellResult& cell, const CellSummary& s) {
  if (cell.status == CellStatus::failed || cell.certificate.status == CertificateStatus::fail) return "why bad";
  if (s.rankable && s.outcome == Outcome::faster) return "why good";
  if (s.rankable && s.outcome == Outcome::slower) return "why slow";
  return "why";
}

using C = const CellResult&;
using S = const CellSummary&;

const CellColumn kColumns[] = {
    {{.name = "tp", .help = "tensor-parallel ranks"}, [](C c, S) { return std::to_string(c.axes.tp); }},
    {{.name = "pp", .help = "pipeline stages"}, [](C c, S) { return std::to_string(c.axes.pp); }},
    {{.name = "proposer", .is_text = true}, [](C c, S) { return proposer_label(c.axes); }},
    {{.name = "k", .help = "most draft tokens of a verify step (num_speculative_tokens)"},
     [](C c, S) { return c.axes.num_speculative_tokens ? std::to_string(*c.axes.num_speculative_tokens) : "–"; }},
    {{.name = "c", .help = "concurrent requests; –: not limited"},
     [](C c, S) { return c.load == "closed" ? std::to_string(c.axes.concurrency) : "–"; }},
    {{.name = "tok/s", .help = "output tokens per second, prefill included", .goes = 103},
     [](C, S s) { return number_text(s.output_tok_s, 1); }},
    {{.name = "req/dev/min", .help = "finished requests per minute per device", .goes = 1},
     [](C, S s) { return number_text(s.requests_per_device_minute, 0); }},
    {{.name = "speedup [95 %]", .help = "tok/s over the baseline's, with the 95 % interval over repetitions"},
     [](C c, S s) { return ratio_cell(c, s.speedup); },
     has_none},
    {{.name = "speedup [95 %]",
      .help = "tok/s over the baseline's, with the 95 % interval over repetitions",
      .goes = 100},
     [](C c, S s) { return ratio_cell(c, s.speedup); },
     has_open_loop},
    {{.name = "decode speedup",
      .help = "the baseline's mean TPOT divided by the cell's; prefill is excluded",
      .goes = 7},
     [](C, S s) {
       return s.decode_speedup
                  ? Table::Cell(ratio_text(s.decode_speedup->ratio), "", "", interval_text(*s.decode_speedup))
                  : Table::Cell("–");
     },
     has_none},
    {{.name = "AL",
      .help = "mean acceptance length, 1 + accepted tokens / verify steps with drafts: the bonus token is included",
      .goes = 102},
     [](C, S s) { return number_text(s.mean_acceptance_length, 2); }},
    {{.name = "accept", .help = "accepted / drafted tokens", .goes = 101},
     [](C, S s) { return number_text(s.draft_acceptance_rate, 2); }},
    {{.name = "coverage",
      .help = "share of verify steps (passes of one sequence after its prompt) that had draft tokens",
      .goes = 3},
     [](C, S s) { return number_text(s.draft_coverage, 2); }},
    {{.name = "tok/pass", .help = "output tokens per sequence per pass, passes of prompts included", .html_only = true},
     [](C, S s) { return number_text(s.tokens_per_target_forward, 2); }},
    {{.name = "ttft p50", .help = "median time to the first token", .goes = 6},
     [](C, S s) { return ms_text(s.ttft_ms.p50, 1); }},
    {{.name = "tpot p50", .help = "median time per output token after the first", .goes = 5},
     [](C, S s) { return ms_text(s.tpot_ms.p50, 2); }},
    {{.name = "e2e p50", .help = "from when a request was sent to its last token", .html_only = true},
     [](C, S s) { return ms_text(s.e2e_ms.p50, 0); }},
    {{.name = kDeviceBusy,
      .help = "share of the wall time in which a rank's device was at work, rank by rank",
      .goes = 4},
     [](C, S s) { return busy_text(s.devices.busy); }},
    {{.name = "degen.",
      .help = "share of outputs that end in at least 32 tokens of one repeated pattern (1 to 16 tokens)",
      .goes = 2},
     [](C, S s) { return number_text(s.degenerate_share, 2); }},
    {{.name = "req/s of offered", .goes = 104},
     [](C, S s) {
       const OpenLoopSummary o = s.open_loop.value_or(OpenLoopSummary{});
       return s.open_loop ? number_text(o.achieved_rate_per_s, 2) + " of " + number_text(o.offered_rate_per_s, 2) : "–";
     },
     has_open_loop},
    {{.name = "decode speedup"}, [](C c, S s) { return ratio_cell(c, s.decode_speedup); }, has_open_loop},
    {{.name = "ttft p90", .goes = 105}, [](C, S s) { return ms_text(s.ttft_ms.p90, 1); }, has_open_loop},
    {{.name = "goodput", .help = "requests that meet report.slo", .goes = 106},
     [](C, S s) {
       if (!s.goodput) return std::string("–");
       return fmt::format("{}/s, {}", number_text(s.goodput->rate_per_s, 2), percent_text(s.goodput->share));
     },
     has_goodput},
    {{.name = "certificate", .is_text = true, .html_only = true}, [](C c, S) { return certificate_cell(c); }},
    {{.name = "verdict",
      .is_text = true,
      .help = "faster, slower or inconclusive, from the cell's own 95 % interval; marked (uncorrected) if the "
              "difference is "
              "no longer significant after Holm's correction over all comparisons of ranked cells in the run. The "
              "verdict at "
              "the top uses the corrected result and does not call a difference below 2 % a gain. disturbed: the cores "
              "were "
              "busy with other work, held back by a quota, or slowed down. oversubscribed: more threads than cores"},
     {}},
};

}  // namespace

Table cell_table(const VerdictView& view) {
  const RunResult& run = view.run();
  const RunSummary& summary = view.summary();
  Table table{
      .title = "Includes cells that failed, were skipped or did not run, with the reason. In brackets: 95 % intervals.",
      .columns = {},
      .rows = std::vector<Table::Row>(summary.cells.size())};
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const CellResult& cell = run.cells[summary.cells[r].cell];
    table.rows[r].css = cell.status == CellStatus::failed ? "failed" : summary.cells[r].rankable ? "" : "muted";
    table.rows[r].filter = axes_label(cell.axes) + " " + to_string(cell.status);
  }
  for (const CellColumn& column : kColumns) {
    if (!column.is_for(summary)) continue;
    table.columns.push_back(column.column);
    for (size_t r = 0; r < table.rows.size(); ++r) {
      const CellSummary& s = summary.cells[r];
      const CellResult& cell = view.cell(s);
      table.rows[r].cells.push_back(column.cell ? column.cell(cell, s)
                                                : Table::Cell(cell_verdict(view, s), "", verdict_class(cell, s)));
    }
  }
  return table;
}

nlohmann::ordered_map<std::string, std::vector<const CellResult*>> missing_cells(const RunResult& run,
                                                                                 MissingKind kind) {
  nlohmann::ordered_map<std::string, std::vector<const CellResult*>> by_reason;
  for (const CellResult& cell : run.cells) {
    if (cell.status == CellStatus::done) continue;
    const MissingKind of = cell.status == CellStatus::failed ? MissingKind::failed
                           : cell.not_run                    ? MissingKind::left_out
                                                             : MissingKind::skipped;
    if (of == kind) by_reason[cell.reason.empty() ? "no reason was recorded" : cell.reason].push_back(&cell);
  }
  return by_reason;
}

Table published_table(const RunResult& run, const RunSummary& summary) {
  const std::vector<PublishedRow> published = published_rows(run, summary);
  Table table{
      .title = "Beside what others measured, each row over the one that it names; " + published_sources(published),
      .columns = {{"row", true}, {"over", true}, {"tok/s"}, {"tpot p50"}, {"measured"}, {"published"}, {"why", true}},
      .rows = {}};
  for (const PublishedRow& row : published)
    table.rows.push_back(
        {.cells = {row.label, row.over, number_text(row.output_tok_s, 1), ms_text(row.tpot_ms, 2),
                   ratio_text(row.measured), ratio_text(row.published), Table::Cell(row.why, "", "why")},
         .filter = row.label});
  return table;
}

}  // namespace paceline
