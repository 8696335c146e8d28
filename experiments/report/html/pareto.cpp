#include <algorithm>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"
#include "speculative/proposer_entry.h"

namespace paceline::html {

namespace {

/// What a chart sets against what, for loops of one kind.
struct LoopKind {
  bool is_open = false;
  std::string heading, x_label, y_label, user, device, axes;
};

LoopKind closed_kind() {
  return {.heading = "Speed per user, throughput per device",
          .x_label = "tokens per second of a user (1000 / median TPOT in ms)",
          .y_label = "tokens per second per device",
          .user = "tok/s per user",
          .device = "tok/s per device",
          .axes = "Vertical axis: over all requests, prefill included."};
}

/// tok/s of an open loop is what was sent, whatever the engine.
LoopKind open_kind(const ServiceLevel& slo) {
  const std::string requests = slo.empty() ? "requests/s" : "good requests/s";
  return {.is_open = true,
          .heading = "Latency against requests of a device",
          .x_label = "median E2E latency, ms",
          .y_label = requests + " and device" + (slo.empty() ? "" : " (" + slo_text(slo) + ")"),
          .user = "ms median E2E",
          .device = requests + " per device",
          .axes = slo.empty() ? "Vertical axis: what was sent where the engine keeps up, else what was finished."
                              : "Vertical axis: finished requests that meet report.slo."};
}

std::string described(const Report& report, const CellSummary& s, const LoopKind& kind) {
  const auto [x, y] = *pareto_point(report.cell(s), s);
  return fmt::format("{}: {:.0f} {}, {} {}{}", report.label(report.cell(s).axes), x, kind.user,
                     kind.is_open ? fmt::format("{:.3g}", y) : fmt::format("{:.0f}", y), kind.device,
                     s.is_saturated() ? ", saturated" : "");
}

/// Empty with fewer than two points.
std::string pareto_chart(const Report& report, const LoopKind& kind) {
  ScatterChart chart{.title = "Pareto", .x_label = kind.x_label, .y_label = kind.y_label};
  std::string list;
  std::vector<const CellSummary*> best;
  for (const Frontier& frontier : report.view.frontiers()) {
    if (frontier.is_open != kind.is_open) continue;
    best = frontier.cells;
    for (const CellSummary* s : best) {
      const ParetoPoint point = *pareto_point(report.cell(*s), *s);
      chart.frontier.emplace_back(point.user, point.device);
      list += "<li>" + html_escaped(described(report, *s, kind)) + "</li>";
    }
  }
  std::vector<std::string> drawn;
  for (const CellSummary& s : report.summary.cells) {
    const auto point = pareto_point(report.cell(s), s);
    if (s.open_loop.has_value() != kind.is_open || !point || report.cell(s).forced) continue;
    drawn.push_back(report.proposer(s));
    const auto at = std::find(best.begin(), best.end(), &s);
    chart.points.push_back({.x = point->user,
                            .y = point->device,
                            .color = report.color(s),
                            .faded = !s.rankable || s.is_saturated(),
                            .text = at == best.end() ? "" : std::to_string(at - best.begin() + 1),
                            .tooltip = described(report, s, kind)});
  }
  if (chart.points.size() < 2) return "";
  // The list and the legend name the shapes, so the chart can be read without colour.
  std::vector<LegendEntry> legend;
  std::vector<std::string> proposers = report.proposers();
  proposers.insert(proposers.begin(), std::string(kNoProposer));
  for (const std::string& proposer : proposers)
    if (std::find(drawn.begin(), drawn.end(), proposer) != drawn.end())
      legend.push_back({.name = proposer, .color = report.color(proposer)});
  return chart_legend(legend) + "<div class=\"beside\">" + wide(kind.heading, svg_scatter_chart(chart)) +
         (list.empty() ? "" : "<div><p>Pareto frontier of the ranked cells:</p><ol>" + list + "</ol></div>") +
         "</div>" +
         note("Each point is a cell. " + kind.axes + " Dashed: the frontier. Faded: not ranked" +
              (kind.is_open ? ", or saturated." : "."));
}

}  // namespace

Section pareto_section(const Report& report) {
  Section section{"pareto", ""};
  const LoopKind closed = closed_kind(), open = open_kind(report.run.slo);
  const std::string of_closed = pareto_chart(report, closed), of_open = pareto_chart(report, open);
  section.title = of_closed.empty() ? open.heading : closed.heading;
  section.body = of_closed + of_open;
  if (!of_closed.empty() && !of_open.empty())
    section.body = "<h3>" + closed.heading + "</h3>" + of_closed + "<h3>" + open.heading + "</h3>" + of_open;
  return section;
}

}  // namespace paceline::html
