#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "experiments/report/svg/parts.h"

namespace paceline {

using namespace svg;

namespace {

constexpr int kLane = 30, kFull = 20, kLow = 6, kLanesTop = 10, kAxis = 40;

int left_of(const LaneChart& chart) {
  double room = 0;
  for (const LaneRow& row : chart.rows) room = std::max(room, text_room(row.label));
  return int(room) + 12;
}

/// What one looks like: colour and height.
using Look = std::pair<int, BarHeight>;
struct Run {
  Look look;
  int begin = 0, end = 0;  // pixels [begin, end) from the axis' start
};

/// The row in whole pixels.
std::vector<Run> runs_of(const LaneChart& chart, const LaneRow& row) {
  const int pixels = int(chart.width) - left_of(chart) - 10;
  const double each = (chart.x_max - chart.x_min) / pixels;
  std::vector<Run> runs;
  size_t first = 0;
  for (int pixel = 0; pixel < pixels; ++pixel) {
    const double begin = chart.x_min + pixel * each, end = begin + each;
    while (first < row.bars.size() && row.bars[first].end <= begin) ++first;
    std::map<Look, double> held;
    for (size_t i = first; i < row.bars.size() && row.bars[i].start < end; ++i) {
      const LaneBar& bar = row.bars[i];
      held[{part_color_of(bar.color), bar.height}] += std::min(bar.end, end) - std::max(bar.start, begin);
    }
    const auto most =
        std::max_element(held.begin(), held.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == held.end()) continue;
    if (!runs.empty() && runs.back().end == pixel && runs.back().look == most->first)
      ++runs.back().end;
    else
      runs.push_back({.look = most->first, .begin = pixel, .end = pixel + 1});
  }
  return runs;
}

}  // namespace

size_t num_lane_pieces(const LaneChart& chart) {
  size_t count = 0;
  for (const LaneRow& row : chart.rows) count += runs_of(chart, row).size();
  return count;
}

std::string svg_lane_chart(const LaneChart& chart) {
  const int left = left_of(chart), right = int(chart.width) - 10;
  const int bottom = kLanesTop + kLane * int(chart.rows.size());
  std::string out = open_svg(chart.title, chart.finding, chart.width, bottom + kAxis);
  const double span = chart.x_max - chart.x_min;
  const Plot plot{
      .left = double(left), .top = kLanesTop, .right = double(right), .bottom = double(bottom), .x_max = span};
  out += x_axis(plot, nice_ticks(0, span, 8), chart.x_label);
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const int foot = kLanesTop + kLane * int(i) + kFull + 5;
    out += text_at("t", left - 6, foot - kFull / 2.0 + 4, "end", chart.rows[i].label);
    std::map<Look, std::string> paths;
    for (const Run& run : runs_of(chart, chart.rows[i])) {
      const int height = run.look.second == BarHeight::full ? kFull : kLow;
      paths[run.look] +=
          fmt::format("M{} {}h{}v-{}H{}z", left + run.begin, foot, run.end - run.begin, height, left + run.begin);
    }
    for (const auto& [look, path] : paths)
      out += fmt::format("<path class=\"b p{}\" style=\"stroke:none\" d=\"{}\"/>", look.first, path);
  }
  return out + "</svg>";
}

}  // namespace paceline
