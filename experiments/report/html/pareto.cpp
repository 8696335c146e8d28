#include <algorithm>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "speculative/proposer_entry.h"

namespace paceline::html {

namespace {

/// What a chart sets against what, for loops of one kind.
struct LoopKind {
  bool is_open = false;
  std::string heading, x_label, y_label, user, device;

  bool holds(const CellSummary& s) const { return s.open_loop.has_value() == is_open; }
};

LoopKind closed_kind() {
  return {.heading = "Speed per user, throughput per device",
          .x_label = "tokens per second of a user (1000 / median TPOT in ms)",
          .y_label = "tokens per second and device",
          .user = "tok/s per user",
          .device = "tok/s per device"};
}

/// tok/s of an open loop is what was sent, whatever the engine.
LoopKind open_kind(const ServiceLevel& slo) {
  const std::string requests = slo.empty() ? "requests/s" : "good requests/s";
  return {.is_open = true,
          .heading = "Latency against requests of a device",
          .x_label = "median E2E latency, ms",
          .y_label = requests + " and device" + (slo.empty() ? "" : " (" + slo_text(slo) + ")"),
          .user = "ms median E2E",
          .device = requests + " per device"};
}

const std::vector<const CellSummary*>& frontier_of(const Report& report, const LoopKind& kind) {
  static const std::vector<const CellSummary*> kNone;
  const auto& all = report.view.frontiers();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Frontier& frontier) { return frontier.is_open == kind.is_open; });
  return found == all.end() ? kNone : found->cells;
}

std::string described(const Report& report, const CellSummary& s, const LoopKind& kind) {
  const auto [x, y] = *pareto_point(report.cell(s), s);
  return fmt::format("{}: {:.0f} {}, {} {}{}", report.label(report.cell(s).axes), x, kind.user,
                     kind.is_open ? fmt::format("{:.3g}", y) : fmt::format("{:.0f}", y), kind.device,
                     s.is_saturated() ? ", saturated" : "");
}

/// Empty with fewer than two points.
std::string pareto_chart(const Report& report, const LoopKind& kind) {
  const std::vector<const CellSummary*>& frontier = frontier_of(report, kind);
  ScatterChart chart{.title = "Pareto", .x_label = kind.x_label, .y_label = kind.y_label, .points = {}, .frontier = {}};
  std::string list;
  std::vector<std::string> drawn;
  for (const CellSummary& s : report.summary.cells) {
    const auto point = pareto_point(report.cell(s), s);
    if (!kind.holds(s) || !point || report.cell(s).forced) continue;
    drawn.push_back(report.proposer(s));
    const auto at = std::find(frontier.begin(), frontier.end(), &s);
    chart.points.push_back({.x = point->user,
                            .y = point->device,
                            .color = report.color(s),
                            .faded = !s.rankable || s.is_saturated(),
                            .text = at == frontier.end() ? "" : std::to_string(at - frontier.begin() + 1),
                            .tooltip = described(report, s, kind)});
  }
  if (chart.points.size() < 2) return "";
  for (const CellSummary* s : frontier) {
    const ParetoPoint point = *pareto_point(report.cell(*s), *s);
    chart.frontier.emplace_back(point.user, point.device);
    list += "<li>" + html_escaped(described(report, *s, kind)) + "</li>";
  }
  // The list and the legend name the shapes, so the chart can be read without colour.
  std::vector<LegendEntry> legend;
  const auto add = [&](const std::string& proposer) {
    if (std::find(drawn.begin(), drawn.end(), proposer) != drawn.end())
      legend.push_back({.name = proposer, .color = report.color(proposer)});
  };
  add(std::string(kNoProposer));
  for (const std::string& proposer : report.proposers()) add(proposer);
  const std::string axes =
      !kind.is_open ? "Horizontal axis: what one request sees once its tokens come. Vertical axis: what one device "
                      "gives, over all its requests, prefill included."
      : report.run.slo.empty()
          ? "Horizontal axis: what one request sees; the less, the better. Vertical axis: what was sent, for each "
            "device, where the engine keeps up; else what was finished."
          : "Horizontal axis: what one request sees; the less, the better. Vertical axis: finished requests that meet "
            "report.slo, for each device.";
  return chart_legend(legend) + "<div class=\"beside\">" + wide(kind.heading, svg_scatter_chart(chart)) +
         (list.empty() ? "" : "<div><p>No ranked cell is better in both than:</p><ol>" + list + "</ol></div>") +
         "</div>" +
         note("Each point is a cell. " + axes +
              " Dashed: from each of the numbered cells to the next. Faded: not ranked" +
              (kind.is_open ? ", or saturated." : "."));
}

}  // namespace

Section pareto_section(const Report& report) {
  Section section{"pareto", "", ""};
  std::vector<std::pair<std::string, std::string>> charts;
  for (const LoopKind& kind : {closed_kind(), open_kind(report.run.slo)}) {
    if (std::string chart = pareto_chart(report, kind); !chart.empty())
      charts.emplace_back(kind.heading, std::move(chart));
  }
  for (const auto& [heading, chart] : charts)
    section.body += (charts.size() > 1 ? "<h3>" + heading + "</h3>" : "") + chart;
  if (!charts.empty()) section.title = charts.front().first;
  return section;
}

}  // namespace paceline::html
