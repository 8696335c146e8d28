#pragma once
// Lanes of bars over one time axis, one lane a rank, as inline SVG.

#include <string>
#include <vector>

namespace paceline {

/// Low bars lie at the foot of the lane: work and waiting differ without colour.
enum class BarHeight : uint8_t { full, low };

struct LaneBar {
  double start = 0, end = 0;  // on the axis
  int color = 0;              // of the parts of bars: class .pN
  BarHeight height = BarHeight::full;
};

struct LaneRow {
  std::string label;
  std::vector<LaneBar> bars;  // by start, disjoint
};

struct LaneChart {
  std::string title, x_label;
  std::string finding;  // for a screen reader
  double x_min = 0, x_max = 1;
  std::vector<LaneRow> rows;
  double width = 860;
};

/// Drawn to the pixel: of the bars that share one, that which has most of it is seen.
std::string svg_lane_chart(const LaneChart& chart);
/// How many pieces that takes: about 16 bytes each.
size_t num_lane_pieces(const LaneChart& chart);

}  // namespace paceline
