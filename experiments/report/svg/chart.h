#pragma once
// Charts as inline SVG text: no script, no network, colours by CSS class so that dark mode and print can change them.
// Coordinates are SVG user units; y grows downwards inside, upwards in data.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline {

/// Classes .k0 … .k7 of the page's style; the palette is safe for colour-blind readers, and series differ in marker and
/// dash as well.
inline constexpr int kNumChartColors = 8;
/// Classes .p0 … .p8, of the parts of bars and lanes.
inline constexpr int kNumPartColors = 9;

enum class LineStyle { solid, dashed, dash_dotted, dotted };

/// How a line goes from a point to the next: straight; at the value of the earlier one until it jumps (a state that
/// lasts); or at that of the later one (a mean over the time since the point before).
enum class LineCourse { straight, keeps, reaches };

struct LinePoint {
  double x = 0;
  double y = 0;                     // points that are not finite are left out and break the line
  std::optional<double> low, high;  // drawn as an error bar; an arrow head where it leaves the chart
  bool faded = false;               // measured but not to be ranked
  bool mark = true;                 // false: a vertex of the line only
  std::string tooltip;
};

struct LineSeries {
  std::string name;
  int color = 0;
  std::optional<int> shape;  // of the markers; none: that of the colour
  LineStyle style = LineStyle::solid;
  bool markers = true;
  std::vector<LinePoint> points;  // by rising x
  LineCourse course = LineCourse::straight;
  std::string end_text = {};  // behind the last point; short
};

/// Whether the outermost x ticks stand inside the frame, for few values, or on it, for a continuous range.
enum class XEdges { padded, tight };

struct LineChart {
  std::string title;
  std::string x_label, y_label;
  std::vector<double> x_ticks;            // the x range is theirs
  std::vector<std::string> x_tick_texts;  // [x_ticks]; empty: the numbers
  XEdges x_edges = XEdges::padded;
  std::optional<double> reference;  // horizontal line, e.g. 1 for "as fast as the baseline"
  double y_min = 0, y_max = 1;      // facets share them
  std::vector<LineSeries> series;
  double width = 330, height = 240;
};

struct BarRow {
  std::string group;  // a heading above the row where it differs from the row before; empty: none
  std::string label;
  double value = 0;
  std::optional<double> low, high;
  bool is_cut = false;  // the interval goes on beyond `high`: an arrow head tells it
  int color = 0;
  bool faded = false;
  std::string text;  // right of the bar
};

/// As wide as the page has room; labels and texts keep their size.
struct BarChart {
  std::string title, x_label;
  std::vector<BarRow> rows;
  std::optional<double> scale_to;   // the axis reaches so far at least
  std::optional<double> reference;  // vertical line, e.g. 1 for "as fast as the baseline"
  double label_width = 120;         // at least, for longer labels more
};

struct StackedRow {
  std::string group;  // as BarRow::group
  std::string label;
  std::vector<double> parts;  // [parts of the chart]
  bool faded = false;
  std::string text;
};

struct StackedBars {
  std::string title, x_label;
  std::string unit;                // of the parts, for tooltips
  std::vector<std::string> parts;  // names; part i has class .pi, a palette apart from that of the series
  std::vector<StackedRow> rows;
  double label_width = 120;  // as BarChart::label_width
};

struct ScatterPoint {
  double x = 0, y = 0;
  int color = 0;
  bool faded = false;
  std::string text;  // beside the point; short, empty: none
  std::string tooltip;
};
struct ScatterChart {
  std::string title, x_label, y_label;
  std::vector<ScatterPoint> points;
  std::vector<std::pair<double, double>> frontier;  // [x, y] by rising x, joined by a line
  double width = 860, height = 400;
};

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

/// Lanes of bars over one time axis, one lane a rank.
struct LaneChart {
  std::string title, x_label;
  std::string finding;  // for a screen reader
  double x_min = 0, x_max = 1;
  std::vector<LaneRow> rows;
  double width = 860;
};

/// Every chart names itself and tells its main finding to a screen reader.
std::string svg_line_chart(const LineChart& chart);
std::string svg_bar_chart(const BarChart& chart);
std::string svg_stacked_bars(const StackedBars& chart);
std::string svg_scatter_chart(const ScatterChart& chart);
/// Drawn to the pixel: of the bars that share one, that which has most of it is seen.
std::string svg_lane_chart(const LaneChart& chart);
/// How many pieces that takes: about 16 bytes each.
size_t num_lane_pieces(const LaneChart& chart);

struct LegendEntry {
  std::string name;
  int color = 0;
  LineStyle style = LineStyle::solid;
  bool swatch = false;  // a filled square in the colour of a part of StackedBars, instead of a line
  bool markers = true;
  std::optional<int> shape = {};  // as LineSeries::shape
};
/// Adds the series unless the legend has its name, or nothing of it is drawn: so a legend lists what its charts show.
void add_to_legend(std::vector<LegendEntry>& entries, const LineSeries& series);
/// Legend as HTML, to be shared by several charts.
std::string chart_legend(const std::vector<LegendEntry>& entries);

/// Round tick values (1, 2 or 5 times a power of ten) that cover [low, high] with about `count` steps; the first is
/// <= low, the last >= high. REQUIRES finite low <= high, count >= 1.
std::vector<double> nice_ticks(double low, double high, int count);

/// &, <, >, " and ' as entities; control characters other than newline and tab as U+FFFD.
std::string html_escaped(std::string_view text);

}  // namespace paceline
