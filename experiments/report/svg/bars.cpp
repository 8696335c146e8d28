// Charts of bars.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/util/utf8_chars.h"
#include "experiments/report/svg/parts.h"
#include "kernels/error.h"

namespace paceline {

using namespace svg;

namespace {

constexpr double kRowHeight = 22, kBarHeight = 14, kGroupHeight = 24, kAxisHeight = 38, kBarsTop = 6, kBarsGap = 6;
constexpr size_t kMaxLabel = 50;  // characters; what is longer ends in an ellipsis and tells itself in a tooltip

// Charts of rows grow with the page while their texts keep their size: along a row places are percentages of the svg
// element, whose margins hold the labels and the texts behind the bars.

/// Of the longest label.
template <class Chart>
double label_room(const Chart& chart) {
  double room = chart.label_width;
  for (const auto& row : chart.rows) room = std::max(room, text_room(utf8_shortened(row.label, kMaxLabel)) + 8);
  return room;
}

template <class Chart>
double behind_room(const Chart& chart) {
  double room = 0;
  for (const auto& row : chart.rows) room = std::max(room, text_room(row.text));
  return room + kBarsGap;
}

/// What the rows of a chart share: scale, margins, where each stands.
struct RowFrame {
  std::vector<double> ticks;  // from 0
  double left = 0, right = 0;
  std::vector<double> y;  // [rows] upper edge of the bar
  std::string headings;
  double bottom = kBarsTop;

  template <class Chart>
  RowFrame(const Chart& chart, double high)
      : ticks(nice_ticks(0, high, 5)), left(label_room(chart)), right(behind_room(chart)) {
    const std::string* last = nullptr;
    for (const auto& row : chart.rows) {
      if (!row.group.empty() && (last == nullptr || *last != row.group)) {
        headings += text_at("h", -left, bottom + kGroupHeight - 8, "start", row.group);
        bottom += kGroupHeight;
      }
      last = &row.group;
      y.push_back(bottom + (kRowHeight - kBarHeight) / 2);
      bottom += kRowHeight;
    }
  }

  double percent(double value) const { return 100 * std::max(0.0, value) / ticks.back(); }

  std::string open(const std::string& title, const std::string& finding, const std::string& x_label) const {
    std::string out = fmt::format(
        "<svg class=\"chart rows\" style=\"margin:0 {1:.0f}px 0 {0:.0f}px;width:calc(100% - "
        "{2:.0f}px);height:{3:.0f}px\" "
        "role=\"img\" aria-label=\"{4}\"><desc>{5}</desc>",
        left, right, left + right, bottom + kAxisHeight, html_escaped(title), html_escaped(finding));
    for (size_t i = 0; i < ticks.size(); ++i) {
      out += upright("g", percent(ticks[i]), kBarsTop, bottom);
      out += fmt::format("<text class=\"t{}\" x=\"{:.2f}%\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                         i % 2 == 0 ? "" : " odd", percent(ticks[i]), bottom + 14, tick_text(ticks[i]));
    }
    return out +
           fmt::format("<text class=\"t\" x=\"50%\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", bottom + 30,
                       html_escaped(x_label)) +
           headings;
  }

  static std::string upright(const char* css, double percent, double top, double bottom) {
    return fmt::format("<line class=\"{0}\" x1=\"{1:.2f}%\" x2=\"{1:.2f}%\" y1=\"{2:.1f}\" y2=\"{3:.1f}\"/>", css,
                       percent, top, bottom);
  }

  static std::string label(const std::string& text, double top, bool faded) {
    const std::string shown = utf8_shortened(text, kMaxLabel);
    return fmt::format("<text class=\"rl{}\" x=\"-8\" y=\"{:.1f}\" text-anchor=\"end\">{}{}</text>",
                       faded ? " faded" : "", top + kBarHeight - 3, html_escaped(shown),
                       shown == text ? "" : tooltip(text));
  }

  std::string bar(const std::string& color, bool faded, double top, double from, double to,
                  const std::string& tip) const {
    return fmt::format(
        "<rect class=\"b {}{}\" x=\"{:.2f}%\" y=\"{:.1f}\" width=\"{:.2f}%\" height=\"{:.0f}\">{}</rect>", color,
        faded ? " faded" : "", percent(from), top, percent(to) - percent(from), kBarHeight, tooltip(tip));
  }

  /// A line along the row with a cap at both ends; where it is cut, the upper one is an arrow head.
  std::string whisker(double top, double low, double high, bool is_cut) const {
    const double middle = top + kBarHeight / 2;
    const std::string head = fmt::format(
        "<svg class=\"cut\" x=\"{:.2f}%\" y=\"{:.1f}\" overflow=\"visible\"><path d=\"M-6 -4L0 0L-6 4\"/></svg>",
        percent(high), middle);
    return fmt::format("<g class=\"w\"><line x1=\"{:.2f}%\" x2=\"{:.2f}%\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", percent(low),
                       percent(high), middle, middle) +
           upright("", percent(low), middle - 3, middle + 3) +
           (is_cut ? head : upright("", percent(high), middle - 3, middle + 3)) + "</g>";
  }

  std::string behind(const std::string& text, bool faded, double top, double value) const {
    return fmt::format("<text class=\"v{}\" x=\"{:.2f}%\" dx=\"{:.0f}\" y=\"{:.1f}\">{}</text>", faded ? " faded" : "",
                       percent(value), kBarsGap, top + kBarHeight - 3, html_escaped(text));
  }
};

std::string series_class(int color) { return fmt::format("k{}", color_of(color)); }

template <class Row>
std::string told(const Row& row) {
  return fmt::format("{}{}{}: {}", row.group, row.group.empty() ? "" : ", ", row.label, row.text);
}

/// "Longest of 12: …. Shortest: …"; `length` of a row, NaN where it has none.
template <class Row, class Length>
std::string finding_of(const std::vector<Row>& rows, Length&& length) {
  const Row *longest = nullptr, *shortest = nullptr;
  size_t count = 0;
  for (const Row& row : rows) {
    if (!std::isfinite(length(row))) continue;
    ++count;
    if (longest == nullptr || length(row) > length(*longest)) longest = &row;
    if (shortest == nullptr || length(row) < length(*shortest)) shortest = &row;
  }
  if (count == 0) return "";
  if (count == 1) return told(*longest);
  return fmt::format("Longest of {}: {}. Shortest: {}", count, told(*longest), told(*shortest));
}

bool has_interval(const BarRow& row) {
  return row.low && row.high && std::isfinite(*row.low) && std::isfinite(*row.high);
}

double sum_of(const StackedRow& row) {
  double sum = 0;
  for (double part : row.parts) sum += std::isfinite(part) ? std::max(0.0, part) : 0;
  return sum;
}

}  // namespace

std::string svg_bar_chart(const BarChart& chart) {
  double high = std::max(chart.scale_to.value_or(0), chart.reference.value_or(0));
  for (const BarRow& row : chart.rows)
    if (std::isfinite(row.value)) high = std::max({high, row.value, has_interval(row) ? *row.high : 0});
  const RowFrame frame(chart, high);
  std::string out =
      frame.open(chart.title, finding_of(chart.rows, [](const BarRow& row) { return row.value; }), chart.x_label);
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const BarRow& row = chart.rows[i];
    if (!std::isfinite(row.value)) continue;
    const double y = frame.y[i];
    out += frame.label(row.label, y, row.faded) +
           frame.bar(series_class(row.color), row.faded, y, 0, row.value, told(row));
    if (has_interval(row)) out += frame.whisker(y, *row.low, *row.high, row.is_cut);
    out += frame.behind(row.text, row.faded, y, has_interval(row) ? std::max(row.value, *row.high) : row.value);
  }
  if (chart.reference) out += frame.upright("ref", frame.percent(*chart.reference), kBarsTop, frame.bottom);
  return out + "</svg>";
}

std::string svg_stacked_bars(const StackedBars& chart) {
  double high = 0;
  for (const StackedRow& row : chart.rows) high = std::max(high, sum_of(row));
  const RowFrame frame(chart, high);
  std::string out = frame.open(chart.title, finding_of(chart.rows, sum_of), chart.x_label);
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const StackedRow& row = chart.rows[i];
    PACELINE_CHECK(row.parts.size() == chart.parts.size(), "row {} has {} parts of {}", row.label, row.parts.size(),
                   chart.parts.size());
    out += frame.label(row.label, frame.y[i], row.faded);
    double from = 0;
    for (size_t p = 0; p < row.parts.size(); ++p) {
      if (!std::isfinite(row.parts[p]) || row.parts[p] <= 0) continue;
      const double to = from + row.parts[p];
      if (frame.percent(row.parts[p]) >= 0.01)
        out += frame.bar(fmt::format("p{}", part_color_of(static_cast<int>(p))), row.faded, frame.y[i], from, to,
                         fmt::format("{}: {} {:.3f} {}", row.label, chart.parts[p], row.parts[p], chart.unit));
      from = to;
    }
    out += frame.behind(row.text, row.faded, frame.y[i], from);
  }
  return out + "</svg>";
}

}  // namespace paceline
