#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "experiments/report/html_axes.h"
#include "experiments/report/html_parts.h"
#include "experiments/report/svg_chart.h"
#include "experiments/report/text.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxLinesOfProposer = 3;  // in one chart; more split the charts
constexpr double kOrdinalFrom = 12;        // largest over smallest x from which values stand at equal distances

template <class T>
size_t place_in(std::vector<T>& list, const T& value) {
  const auto found = std::find(list.begin(), list.end(), value);
  if (found != list.end()) return static_cast<size_t>(found - list.begin());
  list.push_back(value);
  return list.size() - 1;
}

/// Where an x value stands.
struct XScale {
  std::vector<std::string> texts;
  std::vector<double> places;

  double place(const std::string& text) const {
    return places[static_cast<size_t>(std::find(texts.begin(), texts.end(), text) - texts.begin())];
  }
};

XScale x_scale(std::vector<std::string> texts) {
  XScale scale;
  std::vector<double> numbers;
  for (const std::string& text : texts)
    if (const auto number = as_number(text)) numbers.push_back(*number);
  const bool numeric = numbers.size() == texts.size();
  if (numeric) {
    std::sort(texts.begin(), texts.end(), [](const auto& a, const auto& b) { return *as_number(a) < *as_number(b); });
    std::sort(numbers.begin(), numbers.end());
  }
  const bool even = !numeric || (numbers.front() > 0 && numbers.back() / numbers.front() > kOrdinalFrom);
  for (size_t i = 0; i < texts.size(); ++i) scale.places.push_back(even ? static_cast<double>(i) : numbers[i]);
  scale.texts = std::move(texts);
  return scale;
}

/// One cell of the charts.
struct Point {
  const CellSummary* summary;
  std::string x, facet, leftover;
};

bool has_point(const CellSummary& s) { return s.speedup.has_value(); }

std::string facet_title(const Report& report, const ChartLayout& layout, const CellResult& cell) {
  std::string title;
  const auto add = [&](const std::string& text) { title += (title.empty() ? "" : " × ") + text; };
  for (const ChartAxis& axis : layout.facets) {
    const auto value = axis.value(cell);
    add(fmt::format("{} {}", axis.name(), value.value_or("–")));
  }
  return title.empty() ? report.run.info.name : title;
}

LineSeries bound_of(const LineSeries& measured) {
  return {.name = measured.name + " bound",
          .color = measured.color,
          .shape = {},
          .style = LineStyle::dotted,
          .markers = false,
          .points = {}};
}

void add_point(const Report& report, const Point& point, double x, LineSeries& measured, LineSeries& bound) {
  const CellSummary& s = *point.summary;
  LinePoint at{.x = x,
               .y = std::numeric_limits<double>::quiet_NaN(),  // failed or skipped: the line must not run through
               .low = {},
               .high = {},
               .faded = !s.rankable,
               .tooltip = ""};
  LinePoint above = at;
  if (has_point(s)) {
    at.y = s.speedup->ratio;
    at.low = s.speedup->low;
    at.high = s.speedup->high;
    at.tooltip = fmt::format("{}: {} {}", report.label(report.cell(s).axes), speedup_text(s.speedup), s.not_rankable);
    if (s.speedup_bound) above.y = *s.speedup_bound;
  }
  measured.points.push_back(at);
  bound.points.push_back(above);
}

}  // namespace

Section speedup_section(const Report& report) {
  const ChartLayout layout = chart_layout(report.run);
  Section section{"speedup", "Speedup over " + layout.x.name(), ""};
  std::vector<Point> points;
  std::vector<const CellResult*> cells;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    const auto x = layout.x.value(cell);
    if (cell.axes.proposer == "none" || !x) continue;
    points.push_back({&s, *x, facet_title(report, layout, cell), ""});
    cells.push_back(&cell);
  }
  if (std::none_of(points.begin(), points.end(), [](const Point& p) { return has_point(*p.summary); })) return section;
  const Leftovers leftovers(layout, cells);
  std::vector<std::string> lines;
  for (Point& point : points) {
    point.leftover = leftovers.text(report.cell(*point.summary));
    place_in(lines, point.leftover);
  }
  if (lines.size() > kMaxLinesOfProposer) {
    for (Point& point : points) point.facet += ", " + std::exchange(point.leftover, "");
    lines = {""};
  }
  std::vector<std::string> facets, x_texts;
  double top = 1.2;
  for (const Point& point : points) {
    const CellSummary& s = *point.summary;
    if (!has_point(s)) continue;
    place_in(facets, point.facet);
    place_in(x_texts, point.x);
    // A wide interval of few repetitions may leave the chart; the points and bounds may not.
    top = std::max({top, s.speedup->ratio * 1.1, std::min(s.speedup->high.value_or(0), s.speedup->ratio * 1.5),
                    s.speedup_bound.value_or(0)});
  }
  const XScale scale = x_scale(x_texts);
  const double y_max = nice_ticks(0, top, 5).back();
  const auto style_of = [](size_t line) { return line == 0 ? LineStyle::solid : LineStyle::dashed; };
  const auto shape_of = [&](const std::string& proposer, size_t line) {
    return report.color(proposer) + static_cast<int>(line) * 2;
  };
  std::vector<LegendEntry> legend;
  for (const std::string& proposer : report.proposers()) {
    for (size_t line = 0; line < lines.size(); ++line) {
      legend.push_back({.name = lines[line].empty() ? proposer : proposer + " " + lines[line],
                        .color = report.color(proposer),
                        .style = style_of(line),
                        .shape = shape_of(proposer, line)});
    }
  }
  legend.push_back(
      {.name = "upper bound, in the proposer's colour", .color = kNumChartColors - 1, .style = LineStyle::dotted});
  std::string charts;
  for (const std::string& facet : facets) {
    LineChart chart{.title = facet,
                    .x_label = layout.x.name(),
                    .y_label = "speedup",
                    .x_ticks = scale.places,
                    .x_tick_texts = scale.texts,
                    .reference = 1.0,
                    .y_min = 0,
                    .y_max = y_max,
                    .series = {},
                    .width = lines.size() > 1 ? 400.0 : 294.0};
    for (const std::string& proposer : report.proposers()) {
      for (size_t line = 0; line < lines.size(); ++line) {
        LineSeries measured{.name = proposer,
                            .color = report.color(proposer),
                            .shape = shape_of(proposer, line),
                            .style = style_of(line),
                            .points = {}};
        LineSeries bound = bound_of(measured);
        for (const Point& point : points) {
          if (point.facet != facet || point.leftover != lines[line] ||
              report.cell(*point.summary).axes.proposer != proposer ||
              std::find(scale.texts.begin(), scale.texts.end(), point.x) == scale.texts.end())
            continue;
          add_point(report, point, scale.place(point.x), measured, bound);
        }
        for (LineSeries* series : {&measured, &bound}) {
          std::stable_sort(series->points.begin(), series->points.end(),
                           [](const LinePoint& a, const LinePoint& b) { return a.x < b.x; });
          if (!series->points.empty()) chart.series.push_back(std::move(*series));
        }
      }
    }
    charts += svg_line_chart(chart);
  }
  section.body =
      chart_legend(legend) + grid(charts) +
      note(
          "Ratio of output tokens per second to plain decoding (the line at 1) with the same placement and load; bars: "
          "95 % interval (Student t over repetitions, logs, paired). Dotted: upper bound, tokens per target pass / (1 "
          "+ "
          "draft time / plain step time); the gap to it is what verifying k + 1 rows, prefill and overhead cost. "
          "Outputs are the same at every k: k changes the cost, not the text. Faded: not ranked.");
  return section;
}

}  // namespace paceline::html
