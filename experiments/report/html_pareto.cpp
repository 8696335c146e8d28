#include <algorithm>

#include <fmt/format.h>

#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"
#include "speculative/proposer_entry.h"

namespace paceline::html {

namespace {

/// Rankable cells that no other one beats in both; by rising pace of a user.
std::vector<const CellSummary*> frontier_of(const Report& report) {
  std::vector<const CellSummary*> cells;
  for (const CellSummary& s : report.summary.cells)
    if (s.rankable && s.tok_s_per_user && s.tok_s_per_device) cells.push_back(&s);
  std::stable_sort(cells.begin(), cells.end(), [](const CellSummary* a, const CellSummary* b) {
    return std::pair(*a->tok_s_per_user, *a->tok_s_per_device) > std::pair(*b->tok_s_per_user, *b->tok_s_per_device);
  });
  std::vector<const CellSummary*> frontier;
  double best = 0;
  for (const CellSummary* s : cells) {
    if (*s->tok_s_per_device <= best) continue;
    best = *s->tok_s_per_device;
    frontier.push_back(s);
  }
  std::reverse(frontier.begin(), frontier.end());
  return frontier;
}

std::string described(const Report& report, const CellSummary& s) {
  return fmt::format("{}: {:.0f} tok/s per user, {:.0f} tok/s per device", report.label(report.cell(s).axes),
                     *s.tok_s_per_user, *s.tok_s_per_device);
}

}  // namespace

Section pareto_section(const Report& report) {
  Section section{"pareto", "Pace of a user against yield of a device", ""};
  const std::vector<const CellSummary*> frontier = frontier_of(report);
  ScatterChart chart{.title = "Pareto",
                     .x_label = "tokens per second of a user (1000 / median TPOT in ms)",
                     .y_label = "tokens per second and device",
                     .points = {},
                     .frontier = {}};
  std::string list;
  std::vector<std::string> drawn;
  for (const CellSummary& s : report.summary.cells) {
    if (!s.tok_s_per_user || !s.tok_s_per_device || report.cell(s).forced) continue;
    drawn.push_back(report.proposer(s));
    const auto at = std::find(frontier.begin(), frontier.end(), &s);
    chart.points.push_back({.x = *s.tok_s_per_user,
                            .y = *s.tok_s_per_device,
                            .color = report.color(s),
                            .faded = !s.rankable,
                            .text = at == frontier.end() ? "" : std::to_string(at - frontier.begin() + 1),
                            .tooltip = described(report, s)});
  }
  if (chart.points.size() < 2) return section;
  for (const CellSummary* s : frontier) {
    chart.frontier.emplace_back(*s->tok_s_per_user, *s->tok_s_per_device);
    list += "<li>" + html_escaped(described(report, *s)) + "</li>";
  }
  // The list and the legend name the shapes, so the chart can be read without colour.
  std::vector<LegendEntry> legend;
  const auto add = [&](const std::string& proposer) {
    if (std::find(drawn.begin(), drawn.end(), proposer) != drawn.end())
      legend.push_back({.name = proposer, .color = report.color(proposer)});
  };
  add(std::string(kNoProposer));
  for (const std::string& proposer : report.proposers()) add(proposer);
  section.body =
      chart_legend(legend) + "<div class=\"beside\">" + wide(section.title, svg_scatter_chart(chart)) +
      (list.empty() ? "" : "<div><p>No ranked cell is better in both than:</p><ol>" + list + "</ol></div>") + "</div>" +
      note(
          "Each point is a cell. Horizontal axis: what one request sees once its tokens come. Vertical axis: what one "
          "device gives, over all its requests, prefill included. Dashed: from each of the numbered cells to the next. "
          "Faded: not "
          "ranked.");
  return section;
}

}  // namespace paceline::html
