#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"
#include "experiments/report/text.h"

namespace paceline::html {

namespace {

constexpr double kFacetWidth = 276;

struct Facet {
  int concurrency, tp, pp;
  auto operator<=>(const Facet&) const = default;
};

Facet facet_of(const CellAxes& axes) { return {axes.concurrency, axes.tp, axes.pp}; }

std::string facet_title(const Report& report, const Facet& f) {
  std::string title = fmt::format("TP {} × PP {}", f.tp, f.pp);
  return report.has_several_concurrencies() ? title + fmt::format(", concurrency {}", f.concurrency) : title;
}

std::string section(const std::string& title, const std::string& body) {
  return fmt::format("<section><h2>{}</h2>{}</section>\n", title, body);
}

std::string note(const std::string& text) { return "<p class=\"note\">" + text + "</p>"; }

/// Speculative cells that can stand in the speedup charts.
bool has_speedup_point(const Report& report, const CellSummary& s) {
  return s.speedup && report.cell(s).axes.proposer != "none" && report.cell(s).axes.num_speculative_tokens;
}

LineChart speedup_chart(const Report& report, const Facet& facet, const std::vector<double>& ks, double y_max) {
  LineChart chart{.title = facet_title(report, facet),
                  .x_label = "num_speculative_tokens",
                  .y_label = "speedup",
                  .x_ticks = ks,
                  .reference = 1.0,
                  .y_min = 0,
                  .y_max = y_max,
                  .series = {},
                  .width = kFacetWidth};
  for (const std::string& proposer : report.proposers()) {
    LineSeries measured{.name = proposer, .color = report.color(proposer), .style = LineStyle::solid, .points = {}};
    LineSeries bound{.name = proposer + " bound",
                     .color = measured.color,
                     .style = LineStyle::dotted,
                     .markers = false,
                     .points = {}};
    for (const CellSummary& s : report.summary.cells) {
      const CellResult& cell = report.cell(s);
      if (cell.axes.proposer != proposer || facet_of(cell.axes) != facet || !cell.axes.num_speculative_tokens) continue;
      const double k = *cell.axes.num_speculative_tokens;
      if (!has_speedup_point(report, s)) {  // failed or skipped: the line must not run through
        const LinePoint gap{
            .x = k, .y = std::numeric_limits<double>::quiet_NaN(), .low = {}, .high = {}, .tooltip = ""};
        measured.points.push_back(gap);
        bound.points.push_back(gap);
        continue;
      }
      measured.points.push_back(
          {.x = k,
           .y = s.speedup->ratio,
           .low = s.speedup->low,
           .high = s.speedup->high,
           .faded = !s.rankable,
           .tooltip = fmt::format("{}: {} {}", report.label(cell.axes), speedup_text(s.speedup), s.not_rankable)});
      if (s.speedup_bound)
        bound.points.push_back(
            {.x = k, .y = *s.speedup_bound, .low = {}, .high = {}, .faded = !s.rankable, .tooltip = ""});
    }
    for (LineSeries* series : {&measured, &bound}) {
      std::stable_sort(series->points.begin(), series->points.end(),
                       [](const LinePoint& a, const LinePoint& b) { return a.x < b.x; });
      if (!series->points.empty()) chart.series.push_back(std::move(*series));
    }
  }
  return chart;
}

/// The cell whose acceptance stands for (proposer, k): the first finished one in plan order; `others` counts further
/// cells and how many of them have exactly the same shares.
struct AcceptanceSource {
  const CellSummary* summary = nullptr;
  int others = 0, equal = 0;
};

AcceptanceSource acceptance_of(const Report& report, const std::string& proposer, int k) {
  AcceptanceSource source;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    if (cell.axes.proposer != proposer || cell.axes.num_speculative_tokens != k || s.acceptance_per_position.empty() ||
        cell.forced || cell.random_weights) {
      continue;
    }
    if (source.summary == nullptr) {
      source.summary = &s;
    } else {
      ++source.others;
      source.equal += s.acceptance_per_position == source.summary->acceptance_per_position ? 1 : 0;
    }
  }
  return source;
}

std::set<int> ks_of(const Report& report, const std::string& proposer) {
  std::set<int> ks;
  for (const CellSummary& s : report.summary.cells) {
    const CellAxes& axes = report.cell(s).axes;
    if (axes.proposer == proposer && axes.num_speculative_tokens && report.is_done(s)) {
      ks.insert(*axes.num_speculative_tokens);
    }
  }
  return ks;
}

LineSeries position_series(const std::vector<double>& shares, int color, const std::string& name) {
  LineSeries series{.name = name, .color = color, .style = LineStyle::solid, .points = {}};
  for (size_t i = 0; i < shares.size(); ++i) {
    series.points.push_back({.x = static_cast<double>(i + 1),
                             .y = shares[i],
                             .low = {},
                             .high = {},
                             .faded = false,
                             .tooltip = fmt::format("{}, position {}: {:.3f}", name, i + 1, shares[i])});
  }
  return series;
}

}  // namespace

std::string headline_section(const Report& report) {
  // Per placement and concurrency: plain decoding, and each proposer at its fastest k.
  std::vector<const CellSummary*> chosen;
  for (const CellSummary& s : report.summary.cells) {
    if (!s.output_tok_s || report.cell(s).forced) continue;
    const CellAxes& axes = report.cell(s).axes;
    const auto rival = std::find_if(chosen.begin(), chosen.end(), [&](const CellSummary* other) {
      const CellAxes& o = report.cell(*other).axes;
      return std::tie(o.tp, o.pp, o.concurrency, o.proposer) ==
             std::tie(axes.tp, axes.pp, axes.concurrency, axes.proposer);
    });
    if (rival == chosen.end()) {
      chosen.push_back(&s);
    } else if (*s.output_tok_s > *(*rival)->output_tok_s) {
      *rival = &s;
    }
  }
  if (chosen.empty()) return "";
  BarChart chart{
      .title = "Output tokens per second", .x_label = "output tokens per second (prefill included)", .rows = {}};
  for (const CellSummary* s : chosen) {
    const CellResult& cell = report.cell(*s);
    const auto& runs = s->output_tok_s_per_repetition;
    const auto [low, high] = std::minmax_element(runs.begin(), runs.end());
    BarRow row{.label = report.label(cell.axes),
               .value = *s->output_tok_s,
               .low = {},
               .high = {},
               .color = report.color(cell.axes.proposer),
               .faded = !s->rankable,
               .text = fmt::format("{:.1f}", *s->output_tok_s)};
    if (runs.size() > 1) std::tie(row.low, row.high) = std::pair(std::optional(*low), std::optional(*high));
    if (s->speedup && cell.baseline_id != cell.id) row.text += fmt::format(" · {:.2f}×", s->speedup->ratio);
    if (!s->rankable) row.text += " (" + s->not_rankable + ")";
    chart.rows.push_back(std::move(row));
  }
  return section(
      "Speed at a glance",
      svg_bar_chart(chart) +
          note("Each proposer at the k that was fastest for its placement; all k are in the table. Whiskers: "
               "slowest and fastest repetition. × is against the baseline of its "
               "row. Faded bars are not ranked."));
}

std::string speedup_section(const Report& report) {
  std::set<Facet> facets;
  std::set<double> k_values;
  double top = 1.2;
  for (const CellSummary& s : report.summary.cells) {
    if (!has_speedup_point(report, s)) continue;
    const CellAxes& axes = report.cell(s).axes;
    facets.insert(facet_of(axes));
    k_values.insert(*axes.num_speculative_tokens);
    // A wide interval of few repetitions may leave the chart; the points and bounds may not.
    top = std::max({top, s.speedup->ratio * 1.1, std::min(s.speedup->high.value_or(0), s.speedup->ratio * 1.5),
                    s.speedup_bound.value_or(0)});
  }
  if (facets.empty()) return "";
  const double y_max = nice_ticks(0, top, 5).back();
  std::vector<LegendEntry> legend;
  for (const std::string& proposer : report.proposers())
    legend.push_back({.name = proposer, .color = report.color(proposer)});
  legend.push_back(
      {.name = "upper bound, in the proposer's colour", .color = kNumChartColors - 1, .style = LineStyle::dotted});
  std::string charts;
  for (const Facet& facet : facets) {
    charts += svg_line_chart(speedup_chart(report, facet, {k_values.begin(), k_values.end()}, y_max));
  }
  return section("Speedup over k",
                 chart_legend(legend) + "<div class=\"grid\">" + charts + "</div>" +
                     note("Ratio of output tokens per second to plain decoding (the line at 1) with the same placement "
                          "and load; bars: "
                          "95 % interval (Student t over repetitions, logs, paired). Dotted: upper bound, tokens per "
                          "target pass / (1 + draft time / plain step time); the gap to it is what verifying k + 1 "
                          "rows, prefill and overhead cost. Outputs are the same at every k: k changes the cost, not "
                          "the text."));
}

std::string acceptance_section(const Report& report) {
  std::string body;
  int others = 0, equal = 0;
  for (const std::string& proposer : report.proposers()) {
    const std::set<int> ks = ks_of(report, proposer);
    if (ks.empty()) continue;
    std::vector<double> ticks;
    for (int i = 1; i <= *ks.rbegin(); ++i) ticks.push_back(i);
    LineChart plain{.title = proposer + ": accepted up to this position",
                    .x_label = "draft position",
                    .y_label = "share of steps with drafts",
                    .x_ticks = ticks,
                    .reference = {},
                    .series = {},
                    .width = 420};
    LineChart conditional{.title = proposer + ": accepted if the one before was",
                          .x_label = "draft position",
                          .y_label = "conditional share",
                          .x_ticks = ticks,
                          .reference = {},
                          .series = {},
                          .width = 420};
    std::vector<LegendEntry> legend;
    int color = 0;
    for (int k : ks) {
      const AcceptanceSource source = acceptance_of(report, proposer, k);
      if (source.summary == nullptr) continue;
      others += source.others;
      equal += source.equal;
      const std::string name = fmt::format("k = {}", k);
      plain.series.push_back(position_series(source.summary->acceptance_per_position, color, name));
      conditional.series.push_back(position_series(source.summary->acceptance_per_position_conditional, color, name));
      legend.push_back({.name = fmt::format("{} (acceptance length {}, coverage {})", name,
                                            number_text(source.summary->mean_acceptance_length, 2),
                                            number_text(source.summary->draft_coverage, 2)),
                        .color = color});
      ++color;
    }
    if (plain.series.empty()) continue;
    body +=
        chart_legend(legend) + "<div class=\"grid\">" + svg_line_chart(plain) + svg_line_chart(conditional) + "</div>";
  }
  if (body.empty()) return "";
  std::string text =
      "Left: of the steps that had drafts, the share that accepted this position (unconditional). Right: of those that "
      "reached it, the share that went on. Coverage: share of steps that had drafts at all. Acceptance depends on text "
      "and proposer, not on placement";
  text += others == 0 ? "."
                      : fmt::format(": {} of {} further cells with the same proposer and k show exactly these shares.",
                                    equal, others);
  return section("Acceptance by position", body + note(text));
}

std::string step_section(const Report& report) {
  StackedBars chart{.title = "Time of a target pass by phase",
                    .x_label = "milliseconds per target pass, deciding rank",
                    .unit = "ms",
                    .parts = {"verify", "draft", "sample", "schedule", "communicate", "bubble", "other"},
                    .rows = {}};
  for (const CellSummary& s : report.summary.cells) {
    if (!s.step_ms || *s.step_ms <= 0) continue;
    const PhaseTimes& p = s.phase_ms_per_step;
    chart.rows.push_back(
        {.label = report.label(report.cell(s).axes),
         .parts = {p.verify_ms, p.draft_ms, p.sample_ms, p.schedule_ms, p.communicate_ms, p.bubble_ms, p.other_ms},
         .faded = !s.rankable,
         .text = fmt::format("{:.2f} ms", *s.step_ms)});
  }
  if (chart.rows.empty()) return "";
  std::vector<LegendEntry> legend;
  for (size_t i = 0; i < chart.parts.size(); ++i) {
    legend.push_back({.name = chart.parts[i], .color = static_cast<int>(i), .swatch = true});
  }
  return section("Where a step's time goes",
                 chart_legend(legend) + svg_stacked_bars(chart) +
                     note("Mean over all target passes, prefill passes included. verify: the target's forward pass; "
                          "bubble: waiting for another pipeline stage; communicate: sums and messages between ranks."));
}

}  // namespace paceline::html
