#include "experiments/report/svg/parts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace paceline::svg {

namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }

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
  TickMarks marks("end");
  for (double tick : ticks) {
    if (tick > plot.y_max * (1 + 1e-9)) continue;
    marks.lines += fmt::format("M{} {}H{}", coordinate(plot.left), coordinate(plot.y(tick)), coordinate(plot.right));
    marks.add_text(plot.left - 6, plot.y(tick) + 4, tick_text(tick));
  }
  return marks.svg();
}

void TickMarks::add_text(double x, double y, const std::string& text) {
  texts_ += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", coordinate(x), coordinate(y), html_escaped(text));
}

std::string TickMarks::svg() const {
  return fmt::format("<path class=\"g\" d=\"{}\"/><g class=\"t\" text-anchor=\"{}\">{}</g>", lines, anchor_, texts_);
}

std::string value_axis(const std::vector<double>& ticks, double left, double right, double top, double bottom,
                       const std::string& label) {
  TickMarks marks("middle");
  const double span = ticks.back() - ticks.front();
  for (double tick : ticks) {
    const double x = left + (tick - ticks.front()) / (span > 0 ? span : 1) * (right - left);
    marks.lines += fmt::format("M{} {}V{}", coordinate(x), coordinate(top), coordinate(bottom));
    marks.add_text(x, bottom + 14, tick_text(tick));
  }
  return marks.svg() + text_at("t", (left + right) / 2, bottom + 30, "middle", label);
}

double text_room(std::string_view text) {
  constexpr double kPixelsEach = 6.6;
  return kPixelsEach * static_cast<double>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string shortened(const std::string& text, size_t max_chars) {
  size_t chars = 0, cut = text.size();
  for (size_t i = 0; i < text.size(); ++i) {
    if (!begins_character(text[i])) continue;
    if (++chars == max_chars) cut = i;
  }
  return chars > max_chars ? text.substr(0, cut) + "…" : text;
}

}  // namespace paceline::svg
