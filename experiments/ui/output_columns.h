#pragma once
// How wide a table on standard output may be, and lines that are no wider.

#include <string>
#include <utility>

#include <fmt/format.h>

namespace paceline {

/// Columns of the terminal that standard output is; where the terminal does not say, what COLUMNS says. 0: it is a pipe
/// or a file, or nobody says.
int output_columns();

/// Prints a line on standard output, with its end, broken between words where the terminal is narrower (wrapped_lines);
/// further lines are indented by two more than the first.
void print_wrapped(const std::string& line);

/// Each line of `text`, whose lines have their ends.
void print_wrapped_lines(const std::string& text);

/// print_wrapped of a formatted text.
template <class... Args>
void print_line(fmt::format_string<Args...> format, Args&&... args) {
  print_wrapped(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace paceline
