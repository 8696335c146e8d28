// Charts of lines and of points.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "experiments/report/svg/parts.h"
#include "kernels/error.h"

namespace paceline {

using namespace svg;

namespace {

/// With a cap at both ends, or an arrow head where it leaves the plot.
std::string error_bar(const Plot& plot, const LinePoint& p, double x, int color) {
  if (!p.low || !p.high || !std::isfinite(*p.low) || !std::isfinite(*p.high)) return "";
  const double y1 = plot.y(*p.low), y2 = plot.y(*p.high);
  const std::string low_end = *p.low < plot.y_min ? fmt::format("M{:.1f} {:.1f}l4 6 4 -6", x - 4, y1 - 6)
                                                  : fmt::format("M{:.1f} {:.1f}h6", x - 3, y1);
  const std::string high_end = *p.high > plot.y_max ? fmt::format("M{:.1f} {:.1f}l4 -6 4 6", x - 4, y2 + 6)
                                                    : fmt::format("M{:.1f} {:.1f}h6", x - 3, y2);
  return fmt::format("<path class=\"e k{}{}\" d=\"M{:.1f} {:.1f}V{:.1f}{}{}\"/>", color, p.faded ? " faded" : "", x, y1,
                     y2, low_end, high_end);
}

/// From the point before, which the pen stands on.
std::string stroke_to(LineCourse course, double x, double y) {
  switch (course) {
    case LineCourse::straight: break;
    case LineCourse::keeps: return fmt::format("H{}V{}", coordinate(x), coordinate(y));
    case LineCourse::reaches: return fmt::format("V{}H{}", coordinate(y), coordinate(x));
  }
  return fmt::format("L{} {}", coordinate(x), coordinate(y));
}

struct Drawn {
  std::string marks, end_text;  // texts belong above the lines of all series
};

Drawn draw_series(const Plot& plot, const LineSeries& series, double shift) {
  const int color = color_of(series.color);
  std::string path, marks, bars, end;
  bool pen_down = false, any_solid = false;
  for (const LinePoint& p : series.points) {
    if (!is_drawn(p)) {
      pen_down = false;
      continue;
    }
    const double x = plot.x(p.x) + shift, y = plot.y(p.y);
    path += pen_down ? stroke_to(series.course, x, y) : fmt::format("M{} {}", coordinate(x), coordinate(y));
    pen_down = true;
    any_solid = any_solid || !p.faded;
    bars += error_bar(plot, p, x, color);
    if (series.markers && p.mark)
      marks += marker(series.shape.value_or(series.color), x, y, fmt::format("m k{}{}", color, p.faded ? " faded" : ""),
                      p.tooltip);
    if (!series.end_text.empty()) end = text_at("v", x + 7, y + 4, "start", series.end_text);
  }
  if (path.empty()) return {};
  return {fmt::format("<path class=\"l k{}{}{}\" d=\"{}\"/>", color, style_class(series.style),
                      any_solid ? "" : " faded", path) +
              bars + marks,
          end};
}

/// Three digits, or all of a whole number.
std::string short_text(double value) {
  return std::abs(value) >= 1000 ? tick_text(std::round(value)) : fmt::format("{:.3g}", value);
}

/// "ngram: 1.2 at 1, 1.5 at 5; max 1.6 at 3. draft: …", of the first series.
std::string finding_of(const LineChart& chart) {
  constexpr size_t kMaxSeries = 6;
  const auto value_at = [&](const LinePoint& p) {
    const auto tick = std::find(chart.x_ticks.begin(), chart.x_ticks.end(), p.x);
    const size_t place = static_cast<size_t>(tick - chart.x_ticks.begin());
    return fmt::format("{} at {}", short_text(p.y),
                       place < chart.x_tick_texts.size() ? chart.x_tick_texts[place] : short_text(p.x));
  };
  std::string out;
  size_t told = 0;
  for (const LineSeries& series : chart.series) {
    const LinePoint *first = nullptr, *last = nullptr, *most = nullptr;
    for (const LinePoint& p : series.points) {
      if (!is_drawn(p)) continue;
      if (first == nullptr) first = &p;
      if (most == nullptr || p.y > most->y) most = &p;
      last = &p;
    }
    if (first == nullptr || ++told > kMaxSeries) continue;
    out += fmt::format("{}{}: {}", out.empty() ? "" : ". ", series.name, value_at(*first));
    if (last != first) out += ", " + value_at(*last);
    if (most != first && most != last) out += "; max " + value_at(*most);
  }
  return told > kMaxSeries ? fmt::format("{}. {} more.", out, told - kMaxSeries) : out;
}

}  // namespace

std::string svg_line_chart(const LineChart& chart) {
  constexpr double kLeft = 46, kRight = 14, kTop = 30, kBottom = 40;
  double end_room = 0;
  for (const LineSeries& series : chart.series) end_room = std::max(end_room, text_room(series.end_text));
  PACELINE_CHECK(!chart.x_ticks.empty(), "line chart \"{}\" has no x ticks", chart.title);
  PACELINE_CHECK(chart.x_tick_texts.empty() || chart.x_tick_texts.size() == chart.x_ticks.size(),
                 "line chart \"{}\" has {} x ticks and {} texts", chart.title, chart.x_ticks.size(),
                 chart.x_tick_texts.size());
  const auto [x_low, x_high] = std::minmax_element(chart.x_ticks.begin(), chart.x_ticks.end());
  const double margin = chart.x_edges == XEdges::tight ? 0 : *x_high > *x_low ? (*x_high - *x_low) * 0.06 : 0.25;
  const Plot plot{.left = kLeft,
                  .top = kTop,
                  .right = chart.width - kRight - end_room,
                  .bottom = chart.height - kBottom,
                  .x_min = *x_low - margin,
                  .x_max = *x_high + margin,
                  .y_min = chart.y_min,
                  .y_max = chart.y_max};
  std::string out = open_svg(chart.title + ": " + chart.y_label + " over " + chart.x_label, finding_of(chart),
                             chart.width, chart.height);
  out += text_at("h", kLeft, 12, "start", chart.title) + text_at("t", kLeft, 25, "start", chart.y_label);
  out += y_axis(plot, nice_ticks(chart.y_min, chart.y_max, 5));
  out += x_axis(plot, chart.x_ticks, chart.x_label, chart.x_tick_texts);
  if (chart.reference && *chart.reference >= chart.y_min && *chart.reference <= chart.y_max) {
    out += fmt::format("<path class=\"ref\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", plot.left, plot.y(*chart.reference),
                       plot.right);
  }
  // Neighbouring series of few values are drawn a little apart, so that equal ones stay visible.
  const double apart = chart.x_edges == XEdges::tight ? 0 : 3;
  const double center = (static_cast<double>(chart.series.size()) - 1) / 2;
  std::string end_texts;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Drawn drawn = draw_series(plot, chart.series[i], (static_cast<double>(i) - center) * apart);
    out += drawn.marks;
    end_texts += drawn.end_text;
  }
  return out + end_texts + "</svg>";
}

std::string svg_scatter_chart(const ScatterChart& chart) {
  constexpr double kLeft = 56, kRight = 30, kTop = 30, kBottom = 40;
  double x_high = 0, y_high = 0;
  for (const ScatterPoint& p : chart.points) {
    if (!std::isfinite(p.x) || !std::isfinite(p.y)) continue;
    x_high = std::max(x_high, p.x);
    y_high = std::max(y_high, p.y);
  }
  const std::vector<double> x_ticks = nice_ticks(0, x_high, 8), y_ticks = nice_ticks(0, y_high, 6);
  const Plot plot{.left = kLeft,
                  .top = kTop,
                  .right = chart.width - kRight,
                  .bottom = chart.height - kBottom,
                  .x_max = x_ticks.back(),
                  .y_max = y_ticks.back()};
  const std::string finding =
      fmt::format("{} points, {} of them on the frontier", chart.points.size(), chart.frontier.size());
  std::string out =
      open_svg(chart.title + ": " + chart.y_label + " over " + chart.x_label, finding, chart.width, chart.height);
  out += text_at("h", kLeft, 16, "start", chart.y_label) + y_axis(plot, y_ticks);
  out += x_axis(plot, x_ticks, chart.x_label);
  std::string line;
  for (const auto& [x, y] : chart.frontier)
    line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", plot.x(x), plot.y(y));
  if (chart.frontier.size() > 1) out += fmt::format("<path class=\"ref\" d=\"{}\"/>", line);
  struct Taken {
    double left, right, base;
  };
  std::vector<Taken> taken;
  std::string texts;
  for (const ScatterPoint& p : chart.points) {
    if (!std::isfinite(p.x) || !std::isfinite(p.y)) continue;
    out += marker(p.color, plot.x(p.x), plot.y(p.y), fmt::format("m k{}{}", color_of(p.color), p.faded ? " faded" : ""),
                  p.tooltip);
    if (p.text.empty()) continue;
    double x = plot.x(p.x) + 7;
    const double y = plot.y(p.y) - 6, room = text_room(p.text) + 6;
    // To the right of the texts that it would cover.
    for (const auto& [left, right, base] : taken)
      if (std::abs(base - y) < 14 && x < right && x + room > left) x = right;
    taken.push_back({x, x + room, y});
    texts += text_at("h", x, y, "start", p.text);
  }
  return out + texts + "</svg>";
}

}  // namespace paceline
