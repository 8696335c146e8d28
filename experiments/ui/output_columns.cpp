#include "experiments/ui/output_columns.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <sys/ioctl.h>
#include <unistd.h>

#include "experiments/report/text/text_lines.h"

namespace paceline {

int output_columns() {
  if (::isatty(STDOUT_FILENO) != 1) return 0;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* const columns = std::getenv("COLUMNS");
  return columns ? std::max(0, std::atoi(columns)) : 0;
}

void print_wrapped(const std::string& line) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  fmt::print("{}", wrapped_text(line, output_columns(), int(indent) + 2));
}

void print_wrapped_lines(const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) print_wrapped(line);
}

}  // namespace paceline
