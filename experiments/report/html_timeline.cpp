#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxPoints = 128;       // of a line, as the page shows it
constexpr size_t kMaxBubblePoints = 24;  // each is a mean, so few are clearer
constexpr size_t kMaxPlaces = 8;

using Timeline = std::vector<TimelinePoint>;

const Timeline& timeline_of(const Report& report, const CellSummary& s) {
  return report.cell(s).repetitions.front().timeline;
}

/// Every so-manieth point, the last one too.
std::vector<size_t> thinned(size_t size, size_t max_points) {
  std::vector<size_t> places;
  const size_t step = std::max<size_t>(1, (size + max_points - 1) / max_points);
  for (size_t i = 0; i < size; i += step) places.push_back(i);
  if (!places.empty() && places.back() + 1 != size) places.push_back(size - 1);
  return places;
}

/// Lines without markers differ by their dashes, too.
LineStyle style_of(int color) {
  if (color == kNumChartColors - 1) return LineStyle::dotted;
  return color % 2 == 0 ? LineStyle::solid : LineStyle::dashed;
}

/// value(line, i, before): of point i; `before` is the point shown before it.
using Value = std::function<double(const Timeline& line, size_t i, size_t before)>;

std::string chart(const Report& report, const std::string& title, const std::string& what,
                  const std::vector<const CellSummary*>& cells, size_t max_points, const Value& value) {
  LineChart out{.title = title,
                .x_label = "seconds of the first repetition",
                .y_label = what,
                .x_ticks = {},
                .x_tick_texts = {},
                .x_edges = XEdges::tight,
                .reference = {},
                .series = {},
                .width = 400,
                .height = 200};
  double x_high = 0, y_high = 0;
  for (const CellSummary* s : cells) {
    const Timeline& line = timeline_of(report, *s);
    const int color = report.color(report.cell(*s).axes.proposer);
    LineSeries series{
        .name = what, .color = color, .shape = {}, .style = style_of(color), .markers = false, .points = {}};
    size_t before = 0;
    for (size_t i : thinned(line.size(), max_points)) {
      const double y = value(line, i, before);
      before = i;
      series.points.push_back(
          {.x = line[i].time_ms / 1000, .y = y, .low = {}, .high = {}, .faded = !s->rankable, .tooltip = ""});
      y_high = std::max(y_high, y);
      x_high = std::max(x_high, line[i].time_ms / 1000);
    }
    out.series.push_back(std::move(series));
  }
  out.x_ticks = nice_ticks(0, x_high, 5);
  out.y_max = nice_ticks(0, y_high, 4).back();
  return svg_line_chart(out);
}

}  // namespace

Section timeline_section(const Report& report) {
  Section section{"timeline", "Batch, memory and bubbles over time", ""};
  // Of each placement the largest load: with less there is less to see.
  std::vector<std::pair<std::string, std::vector<const CellSummary*>>> places;
  for (const CellSummary* s : report.fastest()) {
    const CellResult& cell = report.cell(*s);
    if (cell.axes.concurrency != report.concurrencies().back() || cell.repetitions.front().timeline.size() < 2)
      continue;
    const std::string place = placement(cell.axes);
    auto known = std::find_if(places.begin(), places.end(), [&](const auto& p) { return p.first == place; });
    if (known == places.end()) known = places.insert(places.end(), {place, {}});
    const bool has_proposer = std::any_of(known->second.begin(), known->second.end(), [&](const CellSummary* other) {
      return report.cell(*other).axes.proposer == cell.axes.proposer;
    });
    if (!has_proposer) known->second.push_back(s);
  }
  if (places.empty()) return section;
  places.resize(std::min(places.size(), kMaxPlaces));
  const bool batches = report.concurrencies().back() != 1;
  std::string charts;
  for (const auto& [place, cells] : places) {
    if (batches)
      charts += chart(report, place + ": requests in the engine", "requests", cells, kMaxPoints,
                      [](const Timeline& line, size_t i, size_t) { return line[i].requests; });
    charts += chart(report, place + ": KV blocks in use", "blocks", cells, kMaxPoints,
                    [](const Timeline& line, size_t i, size_t) { return line[i].kv_blocks; });
    if (report.cell(*cells.front()).axes.pp > 1)
      charts += chart(report, place + ": bubble share", "share of the time", cells, kMaxBubblePoints,
                      [](const Timeline& line, size_t i, size_t before) {
                        const TimelinePoint start, &from = i > before ? line[before] : start;
                        const double time_ms = line[i].time_ms - from.time_ms;
                        return time_ms > 0 ? (line[i].bubble_ms - from.bubble_ms) / time_ms : 0.0;
                      });
  }
  std::vector<LegendEntry> legend = {
      {.name = "none", .color = kNumChartColors - 1, .style = style_of(kNumChartColors - 1), .markers = false}};
  for (const std::string& proposer : report.proposers()) {
    const int color = report.color(proposer);
    legend.push_back(
        {.name = proposer + " at its fastest k", .color = color, .style = style_of(color), .markers = false});
  }
  section.body = chart_legend(legend) + grid(charts) +
                 note((report.has_several_concurrencies()
                           ? fmt::format("At concurrency {}, the largest. ", report.concurrencies().back())
                           : std::string()) +
                      "First repetition, up to 256 steps of it, evenly thinned. KV blocks: of the target, not free. "
                      "Bubble share: of the time since the point before, what the deciding rank waited for another "
                      "stage; other ranks leave no time stamps.");
  return section;
}

}  // namespace paceline::html
