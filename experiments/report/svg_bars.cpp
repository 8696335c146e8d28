// Charts of bars.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "experiments/report/svg_parts.h"
#include "kernels/error.h"

namespace paceline {

using namespace svg;

namespace {

constexpr double kRowHeight = 22, kBarHeight = 14, kGroupHeight = 24, kAxisHeight = 38, kTop = 6, kGap = 6;

std::string row_label(const std::string& label, double right, double y, bool faded) {
  return text_at(faded ? "rl faded" : "rl", right - 8, y + kBarHeight - 3, "end", label);
}

/// Of the longest label, but no more than half of the chart.
template <class Chart>
double label_room(const Chart& chart) {
  double room = chart.label_width;
  for (const auto& row : chart.rows) room = std::max(room, text_room(row.label) + 8);
  return std::min(room, chart.width / 2);
}

/// Upper edges of the bars, the headings between them, and the lower edge of all.
struct Rows {
  std::vector<double> y;  // [rows]
  std::string headings;
  double bottom = kTop;
};

template <class Chart>
Rows place_rows(const Chart& chart) {
  Rows rows;
  const std::string* last = nullptr;
  for (const auto& row : chart.rows) {
    if (!row.group.empty() && (last == nullptr || *last != row.group)) {
      rows.headings += text_at("h", 0, rows.bottom + kGroupHeight - 8, "start", row.group);
      rows.bottom += kGroupHeight;
    }
    last = &row.group;
    rows.y.push_back(rows.bottom + (kRowHeight - kBarHeight) / 2);
    rows.bottom += kRowHeight;
  }
  return rows;
}

/// A bar of positive length from `x`.
std::string bar(int color, bool faded, double x, double y, double width, const std::string& tip) {
  return fmt::format("<rect class=\"b k{}{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\">{}</rect>",
                     color_of(color), faded ? " faded" : "", x, y, width, kBarHeight, tooltip(tip));
}

std::string value_text(const std::string& text, bool faded, double x, double y) {
  return fmt::format("<text class=\"v{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", faded ? " faded" : "", x + kGap,
                     y + kBarHeight - 3, html_escaped(text));
}

}  // namespace

std::string svg_bar_chart(const BarChart& chart) {
  double high = chart.scale_to.value_or(0), text_width = 0;
  for (const BarRow& row : chart.rows) {
    if (!std::isfinite(row.value)) continue;
    high = std::max({high, row.value, row.high.value_or(0)});
    text_width = std::max(text_width, text_room(row.text));
  }
  const std::vector<double> ticks = nice_ticks(0, high, 6);
  const double left = label_room(chart), right = chart.width - kGap - text_width;
  const Rows rows = place_rows(chart);
  const auto x_of = [&](double v) { return left + std::max(0.0, v) / ticks.back() * (right - left); };
  std::string out = open_svg(chart.title, chart.width, rows.bottom + kAxisHeight);
  out += value_axis(ticks, left, right, kTop, rows.bottom, chart.x_label) + rows.headings;
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const BarRow& row = chart.rows[i];
    if (!std::isfinite(row.value)) continue;
    const double y = rows.y[i];
    const std::string group = row.group.empty() ? "" : row.group + ", ";
    out += row_label(row.label, left, y, row.faded);
    out +=
        bar(row.color, row.faded, left, y, x_of(row.value) - left, fmt::format("{}{}: {}", group, row.label, row.text));
    double text_x = x_of(row.value);
    if (row.low && row.high && std::isfinite(*row.low) && std::isfinite(*row.high)) {
      const double middle = y + kBarHeight / 2;
      out += fmt::format("<path class=\"w\" d=\"M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}v6M{1:.1f} {3:.1f}v6\"/>",
                         x_of(*row.low), x_of(*row.high), middle, middle - 3);
      text_x = std::max(text_x, x_of(*row.high));
    }
    out += value_text(row.text, row.faded, text_x, y);
  }
  return out + "</svg>";
}

std::string svg_stacked_bars(const StackedBars& chart) {
  double high = 0, text_width = 0;
  for (const StackedRow& row : chart.rows) {
    double sum = 0;
    for (double part : row.parts) sum += std::isfinite(part) ? std::max(0.0, part) : 0;
    high = std::max(high, sum);
    text_width = std::max(text_width, text_room(row.text));
  }
  const std::vector<double> ticks = nice_ticks(0, high, 8);
  const double left = label_room(chart), right = chart.width - kGap - text_width;
  const Rows rows = place_rows(chart);
  std::string out = open_svg(chart.title, chart.width, rows.bottom + kAxisHeight);
  out += value_axis(ticks, left, right, kTop, rows.bottom, chart.x_label) + rows.headings;
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const StackedRow& row = chart.rows[i];
    PACELINE_CHECK(row.parts.size() == chart.parts.size(), "row {} has {} parts of {}", row.label, row.parts.size(),
                   chart.parts.size());
    out += row_label(row.label, left, rows.y[i], row.faded);
    double x = left;
    for (size_t p = 0; p < row.parts.size(); ++p) {
      if (!std::isfinite(row.parts[p]) || row.parts[p] <= 0) continue;
      const double width = row.parts[p] / ticks.back() * (right - left);
      if (width >= 0.05)
        out += bar(static_cast<int>(p), row.faded, x, rows.y[i], width,
                   fmt::format("{}: {} {:.3f} {}", row.label, chart.parts[p], row.parts[p], chart.unit));
      x += width;
    }
    out += value_text(row.text, row.faded, x, rows.y[i]);
  }
  return out + "</svg>";
}

std::string svg_column_chart(const ColumnChart& chart) {
  constexpr double kLeft = 8, kRight = 8, kHead = 40, kBottom = 36;
  const double bottom = chart.height - kBottom;
  double high = 0;
  for (const Column& column : chart.columns) high = std::max(high, std::isfinite(column.share) ? column.share : 0);
  std::string out = open_svg(chart.title + ": share over " + chart.x_label, chart.width, chart.height);
  out += text_at("h", kLeft, 16, "start", chart.title);
  const double step = (chart.width - kLeft - kRight) / std::max<double>(1, static_cast<double>(chart.columns.size()));
  for (size_t i = 0; i < chart.columns.size(); ++i) {
    const Column& column = chart.columns[i];
    if (!std::isfinite(column.share)) continue;
    const double height = high > 0 ? std::max(0.0, column.share) / high * (bottom - kHead) : 0;
    const double middle = kLeft + (static_cast<double>(i) + 0.5) * step, width = std::min(step * 0.72, 40.0);
    out +=
        fmt::format("<rect class=\"b k{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">{}</rect>",
                    color_of(chart.color), middle - width / 2, bottom - height, width, height, tooltip(column.tooltip));
    // Under 22 pixels a column has no room for "12 %".
    const double percent = 100 * column.share;
    if (step >= 22)
      out += text_at("t", middle, bottom - height - 4, "middle",
                     percent > 0 && percent < 0.5 ? "<1" : fmt::format("{:.0f}", percent));
    out += text_at("t", middle, bottom + 15, "middle", column.label);
  }
  out += fmt::format("<path class=\"g\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", kLeft, bottom, chart.width - kRight);
  out += text_at("t", chart.width / 2, bottom + 31, "middle", chart.x_label);
  return out + "</svg>";
}

}  // namespace paceline
