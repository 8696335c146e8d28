#include "experiments/report/text/text_lines.h"

#include <algorithm>
#include <utility>

#include "experiments/report/text/text.h"

namespace paceline {

int width_of(const std::vector<std::string>& lines) {
  int widest = 0;
  for (const std::string& line : lines) widest = std::max(widest, display_width(line));
  return widest;
}

std::vector<std::string> wrapped_lines(const std::string& line, int columns, int hang) {
  if (columns == 0 || display_width(line) <= columns) return {line};
  std::vector<std::string> lines(1);
  auto put = [&, is_first = true](const std::string& gap, const std::string& word) mutable {
    const bool begins_line =
        !is_first && display_width(lines.back()) + display_width(gap) + display_width(word) > columns;
    if (begins_line) lines.emplace_back(size_t(hang), ' ');
    lines.back() += begins_line ? word : gap + word;
    is_first = false;
  };
  for (size_t at = 0; at < line.size();) {
    const size_t begin = std::min(line.find_first_not_of(' ', at), line.size());
    const size_t end = std::min(line.find(' ', begin), line.size());
    std::string gap = line.substr(at, begin - at), word = line.substr(begin, end - begin);
    at = end;
    while (display_width(word) > columns - hang) {
      const size_t comma = word.find(',');
      if (comma == std::string::npos || comma + 1 == word.size()) break;
      put(std::exchange(gap, ""), word.substr(0, comma + 1));
      word.erase(0, comma + 1);
    }
    if (!word.empty()) put(gap, word);
  }
  return lines;
}

std::string wrapped_text(const std::string& line, int columns, int hang) {
  std::string out;
  for (const std::string& each : wrapped_lines(line, columns, hang)) out += each + "\n";
  return out;
}

}  // namespace paceline
