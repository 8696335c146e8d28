#include "experiments/report/svg/chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "experiments/report/svg/parts.h"
#include "kernels/error.h"

namespace paceline {

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

void add_to_legend(std::vector<LegendEntry>& entries, const LineSeries& series) {
  const bool known =
      std::any_of(entries.begin(), entries.end(), [&](const LegendEntry& e) { return e.name == series.name; });
  if (known || std::none_of(series.points.begin(), series.points.end(), svg::is_drawn)) return;
  entries.push_back({.name = series.name,
                     .color = series.color,
                     .style = series.style,
                     .markers = series.markers,
                     .shape = series.shape});
}

std::string chart_legend(const std::vector<LegendEntry>& entries) {
  if (entries.empty()) return "";
  std::string out = "<div class=\"legend\">";
  for (const LegendEntry& e : entries) {
    const int color = svg::color_of(e.color);
    out += "<span><svg width=\"26\" height=\"14\" aria-hidden=\"true\">";
    if (e.swatch) {
      out += fmt::format("<rect class=\"b p{}\" x=\"8\" y=\"1\" width=\"12\" height=\"12\"/>",
                         svg::part_color_of(e.color));
    } else {
      out += fmt::format("<path class=\"l k{}{}\" d=\"M1 7H25\"/>", color, svg::style_class(e.style));
      if (e.markers && e.style != LineStyle::dotted)
        out += svg::marker(e.shape.value_or(e.color), 13, 7, fmt::format("m k{}", color), "");
    }
    out += fmt::format("</svg>{}</span>", html_escaped(e.name));
  }
  return out + "</div>";
}

}  // namespace paceline
