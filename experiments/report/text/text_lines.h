#pragma once
// Lines of a terminal.

#include <string>
#include <vector>

namespace paceline {

/// Columns of the widest of `lines`.
int width_of(const std::vector<std::string>& lines);

/// `line`, broken between words such that no line is wider than `columns`; those after the first begin with `hang`
/// spaces. A word without room for itself stays whole, as a path is there to be copied, unless it has commas: it is
/// broken behind these. columns 0: the line as it is.
std::vector<std::string> wrapped_lines(const std::string& line, int columns, int hang);
/// The same as text, each line with its end.
std::string wrapped_text(const std::string& line, int columns, int hang);

}  // namespace paceline
