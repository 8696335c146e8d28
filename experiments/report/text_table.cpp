#include "experiments/report/text_table.h"

#include <algorithm>
#include <utility>

#include "engine/util/printable.h"
#include "experiments/report/text.h"

namespace paceline {
std::vector<std::string> table_lines(const std::vector<TextRow>& texts, const std::function<bool(size_t)>& is_text) {
  std::vector<TextRow> rows = texts;
  for (TextRow& row : rows) std::transform(row.begin(), row.end(), row.begin(), user_text);
  std::vector<int> width(rows.empty() ? 0 : rows[0].size(), 0);
  for (const TextRow& row : rows)
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], display_width(row[c]));
  std::vector<std::string> lines;
  for (const TextRow& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(size_t(width[c] - display_width(row[c])), ' ');
      line += "  " + (is_text(c) ? row[c] + padding : padding + row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> table_lines(const std::vector<TextRow>& rows, size_t text_columns) {
  const size_t last = rows.empty() ? 0 : rows[0].size() - 1;
  return table_lines(rows, [&](size_t column) { return column < text_columns || column == last; });
}

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

std::vector<std::string> fitted_lines(const std::vector<TextRow>& rows, size_t text_columns, int columns) {
  std::vector<std::string> lines = table_lines(rows, text_columns);
  if (columns == 0 || width_of(lines) <= columns) return lines;
  constexpr int kHang = 6;
  lines.clear();
  for (size_t r = 1; r < rows.size(); ++r) {
    std::string name, facts;
    for (size_t c = 0; c < rows[r].size(); ++c) {
      const std::string text = user_text(rows[r][c]), head = user_text(rows[0][c]);
      if (c < text_columns)
        name += "  " + text;
      else if (!text.empty())
        facts += fmt::format("{}{}{}{}", facts.empty() ? "" : "; ", head, head.empty() ? "" : " ", text);
    }
    for (const std::string& text : {name, "    " + facts})
      for (std::string& line : wrapped_lines(text, columns, kHang)) lines.push_back(std::move(line));
  }
  return lines;
}

std::string wrapped_text(const std::string& line, int columns, int hang) {
  std::string out;
  for (const std::string& each : wrapped_lines(line, columns, hang)) out += each + "\n";
  return out;
}

std::string markdown_table(const std::vector<TextRow>& rows, size_t text_columns) {
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    out += "|";
    for (const std::string& text : rows[r]) out += fmt::format(" {} |", markdown_text(text));
    out += "\n";
    if (r > 0) continue;
    out += "|";
    for (size_t c = 0; c < rows[r].size(); ++c) out += c < text_columns || c + 1 == rows[r].size() ? "---|" : "---:|";
    out += "\n";
  }
  return out;
}

}  // namespace paceline
