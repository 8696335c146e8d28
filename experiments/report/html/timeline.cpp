#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"

namespace paceline::html {

namespace {

constexpr size_t kMostTimelinePlaces = 8;

using Timeline = std::vector<TimelinePoint>;
using Cells = std::vector<const CellSummary*>;

struct Quantity {
  const char* what;
  const char* unit;
  LineCourse course;  // a state lasts until the next step, a mean is one since the point before
  size_t max_points;  // of a line; of means few are clearer
  double (*value)(const TimelinePoint& point, const TimelinePoint& before);
};
using At = const TimelinePoint&;
constexpr std::array<Quantity, 3> kQuantities = {
    {{"requests in the engine", "requests", LineCourse::keeps, 128, [](At at, At) { return double(at.requests); }},
     {"KV blocks in use", "blocks", LineCourse::keeps, 128, [](At at, At) { return double(at.kv_blocks); }},
     {"bubble share", "share of the time", LineCourse::reaches, 24, [](At at, At before) {
        return ratio(at.bubble_ms - before.bubble_ms, at.time_ms - before.time_ms).value_or(0);
      }}}};

/// Every so-manieth point, the last one too.
Timeline thinned(const Timeline& line, size_t max_points) {
  Timeline points;
  const size_t step = std::max<size_t>(1, (line.size() + max_points - 1) / max_points);
  for (size_t i = 0; i < line.size(); i += step) points.push_back(line[i]);
  if ((line.size() - 1) % step != 0) points.push_back(line.back());
  return points;
}

/// Lines without markers differ by their dashes, too.
LineStyle style_of(int color) {
  if (color == kNumChartColors - 1) return LineStyle::dotted;
  return color % 2 == 0 ? LineStyle::solid : LineStyle::dashed;
}

LineChart chart_over_time(const Report& report, const std::string& place, const Cells& cells,
                          const Quantity& quantity) {
  LineChart chart{.title = place + ": " + quantity.what,
                  .x_label = "seconds of the first repetition",
                  .y_label = quantity.unit,
                  .x_edges = XEdges::tight,
                  .height = 200};
  double x_high = 0, y_high = 0;
  for (const CellSummary* s : cells) {
    const std::string proposer = report.proposer(*s);
    const int color = report.color(proposer);
    LineSeries series{.name = report.cell(*s).axes.drafts() ? proposer + " at its fastest k" : proposer,
                      .color = color,
                      .style = style_of(color),
                      .markers = false,
                      .course = quantity.course};
    TimelinePoint before;
    for (const TimelinePoint& at : thinned(report.cell(*s).repetitions.front().timeline, quantity.max_points)) {
      series.points.push_back({.x = at.time_ms / 1000, .y = quantity.value(at, before), .faded = !s->rankable});
      y_high = std::max(y_high, series.points.back().y);
      x_high = std::max(x_high, series.points.back().x);
      before = at;
    }
    chart.series.push_back(std::move(series));
  }
  chart.x_ticks = nice_ticks(0, x_high, 5);
  chart.y_max = nice_ticks(0, y_high, 4).back();
  return chart;
}

}  // namespace

Section timeline_section(const Report& report) {
  Section section{"timeline", ""};
  // Of each placement the largest load: with less there is less to see.
  const int load = report.concurrencies().empty() ? 0 : report.concurrencies().back();
  std::vector<std::pair<std::string, Cells>> places;
  for (const CellSummary* s : report.fastest()) {
    const CellResult& cell = report.cell(*s);
    if (cell.axes.concurrency != load || cell.repetitions.front().timeline.size() < 2) continue;
    Cells& cells = group_of(places, placement(cell.axes));
    const auto is_alike = [&](const CellSummary* other) { return report.proposer(*other) == report.proposer(cell); };
    if (std::none_of(cells.begin(), cells.end(), is_alike)) cells.push_back(s);
  }
  if (places.empty()) return section;
  places.resize(std::min(places.size(), kMostTimelinePlaces));
  std::vector<LineChart> charts;
  bool has_bubbles = false;
  for (const auto& [place, cells] : places) {
    if (load != 1) charts.push_back(chart_over_time(report, place, cells, kQuantities[0]));
    charts.push_back(chart_over_time(report, place, cells, kQuantities[1]));
    if (report.cell(*cells.front()).axes.pp == 1) continue;
    charts.push_back(chart_over_time(report, place, cells, kQuantities[2]));
    has_bubbles = true;
  }
  section.title = load == 1     ? has_bubbles ? "Memory and bubbles over time" : "Memory over time"
                  : has_bubbles ? "Batch, memory and bubbles over time"
                                : "Batch and memory over time";
  std::string drawn;
  std::vector<LegendEntry> legend;
  for (LineChart& chart : charts) {
    for (const LineSeries& series : chart.series) add_to_legend(legend, series);
    chart.width = width_of_each(charts.size(), 400);
    drawn += svg_line_chart(chart);
  }
  section.body =
      chart_legend(legend) + grid(drawn) +
      note((report.has_several_concurrencies() ? fmt::format("At concurrency {}, the largest. ", load) : "") +
           "First repetition, up to 256 points of it. KV blocks: of the target." +
           (has_bubbles ? " Bubble share: the sampling rank's wait for the previous stage, over the time since the "
                          "previous point."
                        : ""));
  return section;
}

}  // namespace paceline::html
