#include "experiments/report/svg/parts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/util/utf8_chars.h"

namespace paceline::svg {

namespace {

/// One path and one group of texts for the ticks of an axis: a page has hundreds of axes.
std::string tick_marks(const std::string& lines, const std::string& texts, const char* anchor) {
  return fmt::format("<path class=\"g\" d=\"{}\"/><g class=\"t\" text-anchor=\"{}\">{}</g>", lines, anchor, texts);
}

std::string tick_label(double x, double y, const std::string& text) {
  return fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", coordinate(x), coordinate(y), html_escaped(text));
}

}  // namespace

int color_of(int color) { return ((color % kNumChartColors) + kNumChartColors) % kNumChartColors; }

int part_color_of(int color) { return ((color % kNumPartColors) + kNumPartColors) % kNumPartColors; }

const char* style_class(LineStyle style) {
  switch (style) {
    case LineStyle::solid: return "";
    case LineStyle::dashed: return " dash";
    case LineStyle::dash_dotted: return " dashdot";
    case LineStyle::dotted: return " dot";
  }
  return "";
}

std::string tick_text(double value) {
  if (std::abs(value) < 1e-12) return "0";
  const double size = std::abs(value);
  if (size >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
  const std::string digits = fmt::format("{:.0f}", size);
  if (digits.size() < 4) return fmt::format("{:.4g}", value);
  return (value < 0 ? "-" : "") + digits.substr(0, digits.size() - 3) + "," + digits.substr(digits.size() - 3);
}

std::string open_svg(const std::string& title, const std::string& finding, double width, double height) {
  return fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
      "aria-label=\"{2}\"><desc>{3}</desc>",
      width, height, html_escaped(title), html_escaped(finding));
}

bool is_drawn(const LinePoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string text_at(const char* css, double x, double y, const char* anchor, const std::string& text) {
  const std::string anchored =
      std::string_view(anchor) == "start" ? "" : fmt::format(" text-anchor=\"{}\"", anchor);  // start is the default
  return fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\"{}>{}</text>", css, coordinate(x), coordinate(y), anchored,
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
  std::string lines, texts;
  for (double tick : ticks) {
    if (tick > plot.y_max * (1 + 1e-9)) continue;
    lines += fmt::format("M{} {}H{}", coordinate(plot.left), coordinate(plot.y(tick)), coordinate(plot.right));
    texts += tick_label(plot.left - 6, plot.y(tick) + 4, tick_text(tick));
  }
  return tick_marks(lines, texts, "end");
}

std::string x_axis(const Plot& plot, const std::vector<double>& ticks, const std::string& label,
                   const std::vector<std::string>& tick_texts) {
  std::string lines, texts;
  double free_from = 0;
  for (size_t i = 0; i < ticks.size(); ++i) {
    if (ticks[i] > plot.x_max) continue;
    const std::string text = tick_texts.empty() ? tick_text(ticks[i]) : tick_texts[i];
    const double x = plot.x(ticks[i]), half = text_room(text) / 2;
    lines += fmt::format("M{} {}V{}", coordinate(x), coordinate(plot.top), coordinate(plot.bottom));
    if (x - half < free_from) continue;
    free_from = x + half + 3;
    texts += tick_label(x, plot.bottom + 15, text);
  }
  return tick_marks(lines, texts, "middle") +
         text_at("t", (plot.left + plot.right) / 2, plot.bottom + 31, "middle", label);
}

double text_room(std::string_view text) {
  constexpr double kPixelsEach = 7.3;  // of DejaVu Sans, which is wide, at the charts' size
  return kPixelsEach * static_cast<double>(utf8_length(text));
}

}  // namespace paceline::svg
