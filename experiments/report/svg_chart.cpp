#include "experiments/report/svg_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/error.h"

namespace paceline {

namespace {

constexpr double kRowHeight = 22, kBarHeight = 14, kAxisHeight = 38;

const char* style_class(LineStyle style) {
  switch (style) {
    case LineStyle::solid: return "";
    case LineStyle::dashed: return " dash";
    case LineStyle::dotted: return " dot";
  }
  return "";
}

int color_of(int color) { return ((color % kNumChartColors) + kNumChartColors) % kNumChartColors; }

/// A number without trailing zeros, short enough for a tick.
std::string tick_text(double value) {
  if (std::abs(value) < 1e-12) return "0";
  return fmt::format("{:.4g}", value);
}

std::string open_svg(const std::string& title, double width, double height) {
  return fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
      "aria-label=\"{2}\">",
      width, height, html_escaped(title));
}

/// Maps data to the plot's rectangle.
struct Plot {
  double left, top, right, bottom;
  double x_min, x_max, y_min, y_max;

  double x(double value) const {
    const double span = x_max > x_min ? x_max - x_min : 1;
    return left + (value - x_min) / span * (right - left);
  }
  double y(double value) const {
    const double span = y_max > y_min ? y_max - y_min : 1;
    return bottom - (std::clamp(value, y_min, y_max) - y_min) / span * (bottom - top);
  }
};

/// Marker `shape` of 0 circle, 1 square, 2 diamond, 3 triangle.
std::string marker(int shape, double x, double y, const LinePoint& point, int color) {
  const std::string attributes = fmt::format("class=\"m k{}{}\"", color, point.faded ? " faded" : "");
  const std::string title = point.tooltip.empty() ? "" : fmt::format("<title>{}</title>", html_escaped(point.tooltip));
  switch (shape % 4) {
    case 0: return fmt::format("<circle {} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\">{}</circle>", attributes, x, y, title);
    case 1:
      return fmt::format("<rect {} x=\"{:.1f}\" y=\"{:.1f}\" width=\"7.5\" height=\"7.5\">{}</rect>", attributes,
                         x - 3.75, y - 3.75, title);
    case 2: return fmt::format("<path {} d=\"M{:.1f} {:.1f}l5 5-5 5-5-5z\">{}</path>", attributes, x, y - 5, title);
    default: return fmt::format("<path {} d=\"M{:.1f} {:.1f}l5 8.5h-10z\">{}</path>", attributes, x, y - 5.5, title);
  }
}

std::string error_bar(const Plot& plot, const LinePoint& p, double x, int color) {
  if (!p.low || !p.high || !std::isfinite(*p.low) || !std::isfinite(*p.high)) return "";
  const double y1 = plot.y(*p.low), y2 = plot.y(*p.high);
  return fmt::format("<path class=\"e k{0}{1}\" d=\"M{2:.1f} {3:.1f}V{4:.1f}M{5:.1f} {3:.1f}h6M{5:.1f} {4:.1f}h6\"/>",
                     color, p.faded ? " faded" : "", x, y1, y2, x - 3);
}

std::string draw_series(const Plot& plot, const LineSeries& series, double shift) {
  const int color = color_of(series.color);
  std::string path, marks, bars;
  bool pen_down = false, any_solid = false;
  for (const LinePoint& p : series.points) {
    if (!std::isfinite(p.x) || !std::isfinite(p.y)) {
      pen_down = false;
      continue;
    }
    const double x = plot.x(p.x) + shift, y = plot.y(p.y);
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x, y);
    pen_down = true;
    any_solid = any_solid || !p.faded;
    bars += error_bar(plot, p, x, color);
    if (series.markers) marks += marker(series.color, x, y, p, color);
  }
  if (path.empty()) return "";
  return fmt::format("<path class=\"l k{}{}{}\" d=\"{}\"/>", color, style_class(series.style),
                     any_solid ? "" : " faded", path) +
         bars + marks;
}

/// Vertical grid with tick texts below, for charts of horizontal bars.
std::string value_axis(const std::vector<double>& ticks, double left, double right, double top, double bottom,
                       const std::string& label) {
  std::string out;
  const double span = ticks.back() - ticks.front();
  for (double tick : ticks) {
    const double x = left + (tick - ticks.front()) / (span > 0 ? span : 1) * (right - left);
    out += fmt::format("<path class=\"g\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>", x, top, bottom);
    out += fmt::format("<text class=\"t\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", x, bottom + 14,
                       tick_text(tick));
  }
  return out + fmt::format("<text class=\"t\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                           (left + right) / 2, bottom + 30, html_escaped(label));
}

std::string row_label(const std::string& label, double right, double y, bool faded) {
  return fmt::format("<text class=\"rl{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                     faded ? " faded" : "", right - 8, y + kBarHeight - 3, html_escaped(label));
}

/// Room in pixels for a row's text of the value class; a little generous, since fonts differ.
double text_room(std::string_view text) {
  constexpr double kPixelsEach = 6.6;
  const auto is_first_byte = [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; };
  return kPixelsEach * static_cast<double>(std::count_if(text.begin(), text.end(), is_first_byte));
}

/// Of the longest label, but no more than half of the chart.
template <class Chart>
double label_room(const Chart& chart) {
  double room = chart.label_width;
  for (const auto& row : chart.rows) room = std::max(room, text_room(row.label) + 8);
  return std::min(room, chart.width / 2);
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
          out += "\xEF\xBF\xBD";
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::vector<double> nice_ticks(double low, double high, int count) {
  PACELINE_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high && count >= 1, "low {} high {} count {}", low,
                 high, count);
  if (high - low <= std::abs(high) * 1e-9) high = low + (low != 0 ? std::abs(low) : 1);
  const double raw = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * 0.999) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9);
  for (double i = first;; ++i) {
    ticks.push_back(i * step);
    if (i * step >= high - step * 1e-9) break;
  }
  return ticks;
}

std::string svg_line_chart(const LineChart& chart) {
  constexpr double kLeft = 46, kRight = 14, kTop = 30, kBottom = 40;
  PACELINE_CHECK(!chart.x_ticks.empty(), "line chart \"{}\" has no x ticks", chart.title);
  const auto [x_low, x_high] = std::minmax_element(chart.x_ticks.begin(), chart.x_ticks.end());
  const double margin = std::max(0.25, (*x_high - *x_low) * 0.06);
  const Plot plot{.left = kLeft,
                  .top = kTop,
                  .right = chart.width - kRight,
                  .bottom = chart.height - kBottom,
                  .x_min = *x_low - margin,
                  .x_max = *x_high + margin,
                  .y_min = chart.y_min,
                  .y_max = chart.y_max};
  std::string out = open_svg(chart.title + ": " + chart.y_label + " over " + chart.x_label, chart.width, chart.height);
  out += fmt::format("<text class=\"h\" x=\"{:.1f}\" y=\"16\">{}</text>", kLeft, html_escaped(chart.title));
  for (double tick : nice_ticks(chart.y_min, chart.y_max, 5)) {
    if (tick > chart.y_max * (1 + 1e-9)) continue;
    out += fmt::format("<path class=\"g\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", plot.left, plot.y(tick), plot.right);
    out += fmt::format("<text class=\"t\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", plot.left - 6,
                       plot.y(tick) + 4, tick_text(tick));
  }
  for (double tick : chart.x_ticks) {
    out += fmt::format("<text class=\"t\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", plot.x(tick),
                       plot.bottom + 16, tick_text(tick));
  }
  out += fmt::format("<text class=\"t\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                     (plot.left + plot.right) / 2, plot.bottom + 32, html_escaped(chart.x_label));
  if (chart.reference && *chart.reference >= chart.y_min && *chart.reference <= chart.y_max) {
    out += fmt::format("<path class=\"ref\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", plot.left, plot.y(*chart.reference),
                       plot.right);
  }
  const double center = (static_cast<double>(chart.series.size()) - 1) / 2;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    // Neighbouring series are drawn a little apart, so that equal values stay visible.
    out += draw_series(plot, chart.series[i], (static_cast<double>(i) - center) * 3);
  }
  return out + "</svg>";
}

std::string svg_bar_chart(const BarChart& chart) {
  constexpr double kTop = 6, kGap = 6;
  double high = 0, text_width = 0;
  for (const BarRow& row : chart.rows) {
    if (!std::isfinite(row.value)) continue;
    high = std::max({high, row.value, row.high.value_or(0)});
    text_width = std::max(text_width, text_room(row.text));
  }
  const std::vector<double> ticks = nice_ticks(0, high, 6);
  const double left = label_room(chart), right = chart.width - kGap - text_width;
  const double bottom = kTop + static_cast<double>(chart.rows.size()) * kRowHeight;
  const auto x_of = [&](double v) { return left + std::max(0.0, v) / ticks.back() * (right - left); };
  std::string out = open_svg(chart.title, chart.width, bottom + kAxisHeight);
  out += value_axis(ticks, left, right, kTop, bottom, chart.x_label);
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const BarRow& row = chart.rows[i];
    if (!std::isfinite(row.value)) continue;
    const double y = kTop + static_cast<double>(i) * kRowHeight + (kRowHeight - kBarHeight) / 2;
    const char* faded = row.faded ? " faded" : "";
    out += row_label(row.label, left, y, row.faded);
    out += fmt::format(
        "<rect class=\"b k{}{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\"><title>{}: "
        "{}</title></rect>",
        color_of(row.color), faded, left, y, x_of(row.value) - left, kBarHeight, html_escaped(row.label),
        html_escaped(row.text));
    double text_x = x_of(row.value);
    if (row.low && row.high && std::isfinite(*row.low) && std::isfinite(*row.high)) {
      const double middle = y + kBarHeight / 2;
      out += fmt::format("<path class=\"w\" d=\"M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}v6M{1:.1f} {3:.1f}v6\"/>",
                         x_of(*row.low), x_of(*row.high), middle, middle - 3);
      text_x = std::max(text_x, x_of(*row.high));
    }
    out += fmt::format("<text class=\"v{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", faded, text_x + kGap,
                       y + kBarHeight - 3, html_escaped(row.text));
  }
  return out + "</svg>";
}

std::string svg_stacked_bars(const StackedBars& chart) {
  constexpr double kTextWidth = 80, kTop = 6;
  double high = 0;
  for (const StackedRow& row : chart.rows) {
    double sum = 0;
    for (double part : row.parts) sum += std::isfinite(part) ? std::max(0.0, part) : 0;
    high = std::max(high, sum);
  }
  const std::vector<double> ticks = nice_ticks(0, high, 8);
  const double left = label_room(chart), right = chart.width - kTextWidth;
  const double bottom = kTop + static_cast<double>(chart.rows.size()) * kRowHeight;
  std::string out = open_svg(chart.title, chart.width, bottom + kAxisHeight);
  out += value_axis(ticks, left, right, kTop, bottom, chart.x_label);
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const StackedRow& row = chart.rows[i];
    PACELINE_CHECK(row.parts.size() == chart.parts.size(), "row {} has {} parts of {}", row.label, row.parts.size(),
                   chart.parts.size());
    const double y = kTop + static_cast<double>(i) * kRowHeight + (kRowHeight - kBarHeight) / 2;
    out += row_label(row.label, left, y, row.faded);
    double x = left;
    for (size_t p = 0; p < row.parts.size(); ++p) {
      if (!std::isfinite(row.parts[p]) || row.parts[p] <= 0) continue;
      const double width = row.parts[p] / ticks.back() * (right - left);
      out += fmt::format(
          "<rect class=\"b k{}{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\"><title>{}: {} {:.3f} "
          "{}</title></rect>",
          color_of(static_cast<int>(p)), row.faded ? " faded" : "", x, y, width, kBarHeight, html_escaped(row.label),
          html_escaped(chart.parts[p]), row.parts[p], html_escaped(chart.unit));
      x += width;
    }
    out += fmt::format("<text class=\"v{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", row.faded ? " faded" : "", x + 6,
                       y + kBarHeight - 3, html_escaped(row.text));
  }
  return out + "</svg>";
}

std::string chart_legend(const std::vector<LegendEntry>& entries) {
  std::string out = "<div class=\"legend\">";
  for (const LegendEntry& e : entries) {
    const int color = color_of(e.color);
    out += "<span><svg width=\"26\" height=\"14\" aria-hidden=\"true\">";
    if (e.swatch) {
      out += fmt::format("<rect class=\"b k{}\" x=\"8\" y=\"1\" width=\"12\" height=\"12\"/>", color);
    } else {
      out += fmt::format("<path class=\"l k{}{}\" d=\"M1 7H25\"/>", color, style_class(e.style));
      if (e.style == LineStyle::solid) out += marker(e.color, 13, 7, {}, color);
    }
    out += fmt::format("</svg>{}</span>", html_escaped(e.name));
  }
  return out + "</div>";
}

}  // namespace paceline
