#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxBars = 64;  // of more cells the chart shows the fastest of each proposer

struct Phase {
  const char* name;
  double PhaseTimes::*ms;
};
constexpr std::array<Phase, 7> kPhases = {{{"verify", &PhaseTimes::verify_ms},
                                           {"draft", &PhaseTimes::draft_ms},
                                           {"sample", &PhaseTimes::sample_ms},
                                           {"schedule and rest", &PhaseTimes::schedule_ms},
                                           {"communicate", &PhaseTimes::communicate_ms},
                                           {"bubble", &PhaseTimes::bubble_ms},
                                           {"other", &PhaseTimes::other_ms}}};

bool is_timed(const CellSummary& s) { return s.step_ms && *s.step_ms > 0; }

}  // namespace

Section step_section(const Report& report) {
  Section section{"steps", "Where the time of a pass goes"};
  std::vector<const CellSummary*> cells = report.cells(is_timed);
  if (cells.empty()) return section;
  // Of older records the passes of decoding are not known.
  const bool decode = std::all_of(cells.begin(), cells.end(),
                                  [](const CellSummary* s) { return s->passes && s->passes->decode.pass_ms; });
  const std::string pass = decode ? "decode pass" : "pass";
  const auto phases = [=](const CellSummary& s) -> const PhaseTimes& {
    return decode ? s.passes->decode.phase_ms : s.phase_ms_per_step;
  };
  const auto pass_ms = [=](const CellSummary& s) { return decode ? *s.passes->decode.pass_ms : *s.step_ms; };
  CellColumns columns = {
      {"pass ms", "all phases together", [=](const CellSummary& s) { return number(pass_ms(s), 3); }}};
  for (const Phase& phase : kPhases)
    if (!decode || phase.ms != &PhaseTimes::other_ms)  // nothing of a pass
      columns.push_back({phase.name, "", [=](const CellSummary& s) { return number(phases(s).*phase.ms, 3); }});
  for (const auto& [name, kind] : {std::pair("prefill %", &PassSummaries::prefill),
                                   {"decode %", &PassSummaries::decode},
                                   {"mixed %", &PassSummaries::mixed}})
    if (decode)
      columns.push_back({name, "passes of this kind, share of the whole time (all passes and the time between them)",
                         [kind = kind](const CellSummary& s) { return number(100 * ((*s.passes).*kind).share, 1); }});
  const Table table =
      table_of(report,
               decode ? "Milliseconds per decode pass, prefill excluded. The columns with % are shares of "
                        "the whole time (all passes and the time between them)."
                      : "Milliseconds per pass.",
               cells, columns);

  const bool all = cells.size() <= kMaxBars;
  if (!all) {
    cells = report.fastest();
    std::erase_if(cells, [](const CellSummary* s) { return !is_timed(*s); });
  }
  report.sort_by_place(cells);
  cells.resize(std::min(cells.size(), 2 * kMaxBars));
  StackedBars chart{.title = fmt::format("Time of a {} by phase", pass),
                    .x_label = fmt::format("milliseconds per {}, sampling rank", pass),
                    .unit = "ms"};
  for (const CellSummary* s : cells) {
    const CellAxes& axes = report.cell(*s).axes;
    StackedRow& row = chart.rows.emplace_back(StackedRow{.group = report.place(axes),
                                                         .label = report.method(axes),
                                                         .faded = !s->rankable,
                                                         .text = fmt::format("{:.2f} ms", pass_ms(*s))});
    for (const Phase& phase : kPhases) row.parts.push_back(phases(*s).*phase.ms);
  }
  std::vector<LegendEntry> legend;
  for (const Phase& phase : kPhases) {
    const size_t part = chart.parts.size();
    chart.parts.emplace_back(phase.name);
    if (std::any_of(chart.rows.begin(), chart.rows.end(), [&](const StackedRow& row) { return row.parts[part] > 0; }))
      legend.push_back({.name = phase.name, .color = int(part), .swatch = true});
  }
  section.body =
      chart_legend(legend) + wide(chart.title, svg_stacked_bars(chart)) +
      note(std::string(all ? "" : "Each proposer at its fastest k; the table below has all cells. ") +
           "A pass is one forward pass of the target over a batch. " +
           (decode
                ? "Mean over decode passes, those without rows of prompts: prefill is excluded. "
                : "Mean over all passes, prefill included, as this run was recorded before kinds of passes were told "
                  "apart. ") +
           "Times of the sampling rank, which accepts drafts and draws tokens. draft: the proposer; verify: the rank's "
           "layers of the target; sample: accepting draft tokens and sampling; communicate: waiting for other ranks in "
           "collectives (all-reduce, gather); bubble: waiting for the previous pipeline stage; schedule and rest: all "
           "else of a pass, which is the scheduler, making the batch and handing it out, committing tokens, stop "
           "checks, and the time in which the engine's thread waits for a core." +
           (decode ? "" : " other: what lies between passes.")) +
      folded(table);
  return section;
}

}  // namespace paceline::html
