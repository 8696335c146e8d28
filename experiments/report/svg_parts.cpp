#include "experiments/report/svg_parts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace paceline::svg {

int color_of(int color) { return ((color % kNumChartColors) + kNumChartColors) % kNumChartColors; }

const char* style_class(LineStyle style) {
  switch (style) {
    case LineStyle::solid: return "";
    case LineStyle::dashed: return " dash";
    case LineStyle::dotted: return " dot";
  }
  return "";
}

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

std::string text_at(const char* css, double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", css, x, y, anchor,
                     html_escaped(text));
}

std::string tooltip(const std::string& text) {
  return text.empty() ? "" : fmt::format("<title>{}</title>", html_escaped(text));
}

double Plot::x(double value) const {
  const double span = x_max > x_min ? x_max - x_min : 1;
  return left + (value - x_min) / span * (right - left);
}

double Plot::y(double value) const {
  const double span = y_max > y_min ? y_max - y_min : 1;
  return bottom - (std::clamp(value, y_min, y_max) - y_min) / span * (bottom - top);
}

std::string marker(int shape, double x, double y, const std::string& css, const std::string& tip) {
  const std::string title = tooltip(tip);
  switch (shape % 4) {
    case 0:
      return fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\">{}</circle>", css, x, y, title);
    case 1:
      return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"7.5\" height=\"7.5\">{}</rect>", css,
                         x - 3.75, y - 3.75, title);
    case 2: return fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}l5 5-5 5-5-5z\">{}</path>", css, x, y - 5, title);
    default: return fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}l5 8.5h-10z\">{}</path>", css, x, y - 5.5, title);
  }
}

std::string y_axis(const Plot& plot, const std::vector<double>& ticks) {
  std::string out;
  for (double tick : ticks) {
    if (tick > plot.y_max * (1 + 1e-9)) continue;
    out += fmt::format("<path class=\"g\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", plot.left, plot.y(tick), plot.right);
    out += text_at("t", plot.left - 6, plot.y(tick) + 4, "end", tick_text(tick));
  }
  return out;
}

std::string value_axis(const std::vector<double>& ticks, double left, double right, double top, double bottom,
                       const std::string& label) {
  std::string out;
  const double span = ticks.back() - ticks.front();
  for (double tick : ticks) {
    const double x = left + (tick - ticks.front()) / (span > 0 ? span : 1) * (right - left);
    out += fmt::format("<path class=\"g\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>", x, top, bottom);
    out += text_at("t", x, bottom + 14, "middle", tick_text(tick));
  }
  return out + text_at("t", (left + right) / 2, bottom + 30, "middle", label);
}

double text_room(std::string_view text) {
  constexpr double kPixelsEach = 6.6;
  const auto is_first_byte = [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; };
  return kPixelsEach * static_cast<double>(std::count_if(text.begin(), text.end(), is_first_byte));
}

}  // namespace paceline::svg
