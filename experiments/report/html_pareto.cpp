#include <algorithm>

#include <fmt/format.h>

#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"
#include "speculative/proposer_entry.h"

namespace paceline::html {

namespace {

/// What a chart sets against what, for loops of one kind.
struct LoopKind {
  bool is_open = false;
  bool less_x = false;  // the less, the better
  std::string heading, x_label, y_label, user, device;

  bool holds(const CellSummary& s) const { return s.open_loop.has_value() == is_open; }
};

LoopKind closed_kind() {
  return {.heading = "Pace of a user against yield of a device",
          .x_label = "tokens per second of a user (1000 / median TPOT in ms)",
          .y_label = "tokens per second and device",
          .user = "tok/s per user",
          .device = "tok/s per device"};
}

/// tok/s of an open loop is what was sent, whatever the engine.
LoopKind open_kind(const ServiceLevel& slo) {
  const std::string requests = slo.empty() ? "requests/s" : "good requests/s";
  return {.is_open = true,
          .less_x = true,
          .heading = "Latency against requests of a device",
          .x_label = "median E2E latency, ms",
          .y_label = requests + " and device" + (slo.empty() ? "" : " (" + slo_text(slo) + ")"),
          .user = "ms median E2E",
          .device = requests + " per device"};
}

bool keeps_up(const CellSummary& s) { return !s.open_loop || !s.open_loop->saturated.value_or(false); }

/// Of a cell in the chart; none where it lacks either. Cells of one open loop that keep up are level: at what was sent.
std::optional<std::pair<double, double>> point_of(const Report& report, const CellSummary& s) {
  std::optional<double> x = s.tok_s_per_user, y = s.tok_s_per_device;
  if (s.open_loop) {
    x = s.e2e_ms.p50;
    y = s.goodput     ? s.goodput->rate_per_s
        : keeps_up(s) ? s.open_loop->offered_rate_per_s
                      : s.open_loop->achieved_rate_per_s;
    const CellAxes& axes = report.cell(s).axes;
    if (y) *y /= axes.tp * axes.pp;
  }
  if (!x || !y) return std::nullopt;
  return std::pair(*x, *y);
}

/// Rankable cells that no other one beats in both; by rising x.
std::vector<const CellSummary*> frontier_of(const Report& report, const LoopKind& kind) {
  struct Candidate {
    const CellSummary* s;
    double x, y;  // the more, the better
  };
  std::vector<Candidate> cells;
  for (const CellSummary& s : report.summary.cells) {
    const auto point = point_of(report, s);
    if (kind.holds(s) && s.rankable && keeps_up(s) && point)
      cells.push_back({&s, kind.less_x ? -point->first : point->first, point->second});
  }
  std::stable_sort(cells.begin(), cells.end(),
                   [](const Candidate& a, const Candidate& b) { return std::pair(a.x, a.y) > std::pair(b.x, b.y); });
  std::vector<const CellSummary*> frontier;
  double best = 0;
  for (const Candidate& each : cells) {
    if (each.y <= best) continue;
    best = each.y;
    frontier.push_back(each.s);
  }
  if (!kind.less_x) std::reverse(frontier.begin(), frontier.end());
  return frontier;
}

std::string described(const Report& report, const CellSummary& s, const LoopKind& kind) {
  const auto [x, y] = *point_of(report, s);
  return fmt::format("{}: {:.0f} {}, {} {}{}", report.label(report.cell(s).axes), x, kind.user,
                     kind.is_open ? fmt::format("{:.3g}", y) : fmt::format("{:.0f}", y), kind.device,
                     keeps_up(s) ? "" : ", saturated");
}

/// Empty with fewer than two points.
std::string pareto_chart(const Report& report, const LoopKind& kind) {
  const std::vector<const CellSummary*> frontier = frontier_of(report, kind);
  ScatterChart chart{.title = "Pareto", .x_label = kind.x_label, .y_label = kind.y_label, .points = {}, .frontier = {}};
  std::string list;
  std::vector<std::string> drawn;
  for (const CellSummary& s : report.summary.cells) {
    const auto point = point_of(report, s);
    if (!kind.holds(s) || !point || report.cell(s).forced) continue;
    drawn.push_back(report.proposer(s));
    const auto at = std::find(frontier.begin(), frontier.end(), &s);
    chart.points.push_back({.x = point->first,
                            .y = point->second,
                            .color = report.color(s),
                            .faded = !s.rankable || !keeps_up(s),
                            .text = at == frontier.end() ? "" : std::to_string(at - frontier.begin() + 1),
                            .tooltip = described(report, s, kind)});
  }
  if (chart.points.size() < 2) return "";
  for (const CellSummary* s : frontier) {
    chart.frontier.push_back(*point_of(report, *s));
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
