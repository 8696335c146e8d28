#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "experiments/analysis/claims/view.h"
#include "experiments/report/html/axes.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxLinesOfProposer = 3;  // in one chart; more split the charts
constexpr std::array<LineStyle, kMaxLinesOfProposer> kStyles = {LineStyle::solid, LineStyle::dashed,
                                                                LineStyle::dash_dotted};
constexpr double kOrdinalFrom = 12;  // largest over smallest x from which values stand at equal distances

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
    add(axis.with(value.value_or("–")));
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

constexpr const char* kHowMeasured =
    "Ratio of output tokens per second of whole requests, prefill included, to plain decoding (the line at 1) with the "
    "same placement and load, or to what "
    "sweep.baseline names; bars: 95 % interval over repetitions, ";
/// Of the cells that the charts compare: how their intervals were made.
std::string pairing_text(const RunSummary& summary) {
  PairingsTold told;
  for (const CellSummary& s : summary.cells)
    if (s.speedup) told.add(s.pairing, s.baseline_apart_s, s.baseline_far);
  return told.text();
}

constexpr const char* kCutBars = " An arrow head: the interval goes on beyond the chart.";

/// Where x has one value, lines would be single points: a bar for each cell instead.
std::string single_bars(const Report& report) {
  BarChart chart{.title = "Speedup", .x_label = "speedup", .rows = {}, .scale_to = {}, .reference = 1.0};
  std::vector<const CellSummary*> cells;
  for (const CellSummary& s : report.summary.cells)
    if (has_point(s) && report.cell(s).baseline_id != report.cell(s).id) cells.push_back(&s);
  std::stable_sort(cells.begin(), cells.end(), [&](const CellSummary* a, const CellSummary* b) {
    const CellAxes &x = report.cell(*a).axes, &y = report.cell(*b).axes;
    return std::tie(x.tp, x.pp, x.concurrency) < std::tie(y.tp, y.pp, y.concurrency);
  });
  for (const CellSummary* at : cells) {
    const CellSummary& s = *at;
    const CellResult& cell = report.cell(s);
    BarRow row{.group = report.place(cell.axes),
               .label = report.method(cell.axes),
               .value = s.speedup->ratio,
               .low = s.speedup->low,
               .high = s.speedup->high,
               .color = report.color(s),
               .faded = !s.rankable,
               .text = speedup_text(s.speedup)};
    cut_whisker(row);
    if (!s.rankable) row.text += fmt::format(" ({})", s.not_rankable);
    chart.rows.push_back(std::move(row));
  }
  return wide(chart.title, svg_bar_chart(chart)) +
         note(kHowMeasured + pairing_text(report.summary) +
              " An arrow head: the interval goes on, its whisker is cut at 1.5 times the bar. Faded: not ranked.");
}

}  // namespace

Section speedup_section(const Report& report) {
  const ChartLayout layout = chart_layout(report.run);
  Section section{"speedup", "Speedup by " + layout.x.name(), ""};
  std::vector<Point> points;
  std::vector<const CellResult*> cells;
  bool any_forced = false;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    const auto x = layout.x.value(cell);
    if (!cell.axes.drafts() || !x) continue;
    points.push_back({&s, *x, facet_title(report, layout, cell), ""});
    cells.push_back(&cell);
    any_forced = any_forced || cell.forced;
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
  if (x_texts.size() == 1) {
    section.title = "Speedup";
    section.body = single_bars(report);
    return section;
  }
  const XScale scale = x_scale(x_texts);
  const double y_max = nice_ticks(0, top, 5).back();
  std::vector<LegendEntry> legend;
  bool any_bound = false;
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
                    .width = width_of_each(facets.size(), lines.size() > 1 ? 400.0 : 294.0)};
    for (const std::string& proposer : report.proposers()) {
      for (size_t line = 0; line < lines.size(); ++line) {
        LineSeries measured{.name = lines[line].empty() ? proposer : proposer + " " + lines[line],
                            .color = report.color(proposer),
                            .shape = {},
                            .style = kStyles[line],
                            .points = {}};
        LineSeries bound = bound_of(measured);
        for (const Point& point : points) {
          if (point.facet != facet || point.leftover != lines[line] || report.proposer(*point.summary) != proposer ||
              std::find(scale.texts.begin(), scale.texts.end(), point.x) == scale.texts.end())
            continue;
          add_point(report, point, scale.place(point.x), measured, bound);
        }
        for (LineSeries* series : {&measured, &bound}) {
          std::stable_sort(series->points.begin(), series->points.end(),
                           [](const LinePoint& a, const LinePoint& b) { return a.x < b.x; });
        }
        add_to_legend(legend, measured);
        any_bound = any_bound || std::any_of(bound.points.begin(), bound.points.end(),
                                             [](const LinePoint& p) { return std::isfinite(p.y); });
        for (LineSeries* series : {&measured, &bound})
          if (!series->points.empty()) chart.series.push_back(std::move(*series));
      }
    }
    charts += svg_line_chart(chart);
  }
  if (any_bound)
    legend.push_back(
        {.name = "upper bound, in the proposer's colour", .color = kNumChartColors - 1, .style = LineStyle::dotted});
  section.body =
      chart_legend(legend) + grid(charts) +
      note(kHowMeasured + pairing_text(report.summary) + kCutBars +
           " Dotted: upper bound, at which a decode pass costs what the baseline's does, and drafting; prefill is as "
           "measured. The gap to it is what verifying k + 1 rows costs. Faded: not ranked." +
           (any_forced
                ? " Stated acceptance: drafts are taken from the text, the cost is real; where a line crosses 1 lies "
                  "the acceptance length that a draft must reach."
                : " Outputs are the same at every k: k changes the cost, not the text."));
  return section;
}

}  // namespace paceline::html
