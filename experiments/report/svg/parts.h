#pragma once
// What the charts share: frame, scales, markers, axes. Only files of this folder include it.

#include <string>
#include <string_view>
#include <vector>

#include "experiments/report/svg/chart.h"

namespace paceline::svg {

/// The class of a colour's number, for any number.
int color_of(int color);
int part_color_of(int color);
const char* style_class(LineStyle style);

/// A number without trailing zeros or exponent, short enough for a tick: "0.25", "10,000", "1.2M".
std::string tick_text(double value);

/// The opening tag; `title` and `finding` are what a screen reader says.
std::string open_svg(const std::string& title, const std::string& finding, double width, double height);

/// Whether a point is part of its line.
bool is_drawn(const LinePoint& point);

/// A number of pixels, with one digit behind the point where it is not 0.
std::string coordinate(double value);

/// Text at a place; `anchor` is start, middle or end. Escapes.
std::string text_at(const char* css, double x, double y, const char* anchor, const std::string& text);

/// " <title>…</title>" of an element, "" without text. Escapes.
std::string tooltip(const std::string& text);

/// Maps data to the plot's rectangle.
struct Plot {
  double left, top, right, bottom;
  double x_min = 0, x_max = 1, y_min = 0, y_max = 1;

  double x(double value) const;
  double y(double value) const;  // values outside [y_min, y_max] stand on the edge
};

/// Marker `shape` of 0 circle, 1 square, 2 diamond, 3 triangle, around (x, y).
std::string marker(int shape, double x, double y, const std::string& css, const std::string& tip);

/// Horizontal grid lines with tick texts at the left.
std::string y_axis(const Plot& plot, const std::vector<double>& ticks);

/// Vertical grid lines with texts below, but for one that would touch the text before, and a label. `tick_texts`:
/// [ticks]; empty: the numbers. What lies beyond the plot is left out.
std::string x_axis(const Plot& plot, const std::vector<double>& ticks, const std::string& label,
                   const std::vector<std::string>& tick_texts = {});

/// Room in pixels for a text of the value class; a little generous, since fonts differ.
double text_room(std::string_view text);

}  // namespace paceline::svg
