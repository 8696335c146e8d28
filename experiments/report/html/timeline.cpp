#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxPoints = 128;       // of a line, as the page shows it
constexpr size_t kMaxBubblePoints = 24;  // each is a mean, so few are clearer
constexpr size_t kMostTimelinePlaces = 8;

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

struct Quantity {
  std::string what;   // beside the axis
  LineCourse course;  // a state lasts until the next step, a mean is one since the point before
  size_t max_points;
  Value value;
};

std::string chart(const Report& report, const std::string& title, const std::vector<const CellSummary*>& cells,
                  double width, const Quantity& quantity, std::vector<LegendEntry>& legend) {
  LineChart out{.title = title,
                .x_label = "seconds of the first repetition",
                .y_label = quantity.what,
                .x_ticks = {},
                .x_tick_texts = {},
                .x_edges = XEdges::tight,
                .reference = {},
                .series = {},
                .width = width,
                .height = 200};
  double x_high = 0, y_high = 0;
  for (const CellSummary* s : cells) {
    const Timeline& line = timeline_of(report, *s);
    const std::string proposer = report.proposer(*s);
    const int color = report.color(proposer);
    LineSeries series{.name = !report.cell(*s).axes.drafts() ? proposer : proposer + " at its fastest k",
                      .color = color,
                      .shape = {},
                      .style = style_of(color),
                      .markers = false,
                      .points = {},
                      .course = quantity.course};
    size_t before = 0;
    for (size_t i : thinned(line.size(), quantity.max_points)) {
      const double y = quantity.value(line, i, before);
      before = i;
      series.points.push_back(
          {.x = line[i].time_ms / 1000, .y = y, .low = {}, .high = {}, .faded = !s->rankable, .tooltip = ""});
      y_high = std::max(y_high, y);
      x_high = std::max(x_high, line[i].time_ms / 1000);
    }
    add_to_legend(legend, series);
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
      return report.proposer(*other) == report.proposer(cell);
    });
    if (!has_proposer) known->second.push_back(s);
  }
  if (places.empty()) return section;
  places.resize(std::min(places.size(), kMostTimelinePlaces));
  const bool batches = report.concurrencies().back() != 1;
  const std::vector<std::pair<std::string, Quantity>> quantities = {
      {"requests in the engine",
       {"requests", LineCourse::keeps, kMaxPoints,
        [](const Timeline& line, size_t i, size_t) { return line[i].requests; }}},
      {"KV blocks in use",
       {"blocks", LineCourse::keeps, kMaxPoints,
        [](const Timeline& line, size_t i, size_t) { return line[i].kv_blocks; }}},
      {"bubble share",
       {"share of the time", LineCourse::reaches, kMaxBubblePoints, [](const Timeline& line, size_t i, size_t before) {
          const TimelinePoint start, &from = i > before ? line[before] : start;
          const double time_ms = line[i].time_ms - from.time_ms;
          return time_ms > 0 ? (line[i].bubble_ms - from.bubble_ms) / time_ms : 0.0;
        }}}};
  const auto is_shown = [&](size_t quantity, const CellAxes& axes) {
    return quantity == 0 ? batches : quantity == 1 || axes.pp > 1;
  };
  size_t num_charts = 0;
  for (const auto& [place, cells] : places)
    for (size_t q = 0; q < quantities.size(); ++q) num_charts += is_shown(q, report.cell(*cells.front()).axes) ? 1 : 0;
  std::string charts;
  std::vector<LegendEntry> legend;
  for (const auto& [place, cells] : places)
    for (size_t q = 0; q < quantities.size(); ++q)
      if (is_shown(q, report.cell(*cells.front()).axes))
        charts += chart(report, place + ": " + quantities[q].first, cells, width_of_each(num_charts, 400),
                        quantities[q].second, legend);
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
