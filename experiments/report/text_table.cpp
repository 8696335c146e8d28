#include "experiments/report/text_table.h"

#include <algorithm>

#include "experiments/report/text.h"

namespace paceline {
namespace {

std::string in_pipes(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

std::vector<std::string> table_lines(const std::vector<TextRow>& rows, size_t text_columns) {
  std::vector<int> width(rows.empty() ? 0 : rows[0].size(), 0);
  for (const TextRow& row : rows)
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], display_width(row[c]));
  std::vector<std::string> lines;
  for (const TextRow& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(size_t(width[c] - display_width(row[c])), ' ');
      const bool left = c < text_columns || c + 1 == row.size();
      line += "  " + (left ? row[c] + padding : padding + row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string markdown_table(const std::vector<TextRow>& rows, size_t text_columns) {
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    out += "|";
    for (const std::string& text : rows[r]) out += " " + in_pipes(text) + " |";
    out += "\n";
    if (r > 0) continue;
    out += "|";
    for (size_t c = 0; c < rows[r].size(); ++c) out += c < text_columns || c + 1 == rows[r].size() ? "---|" : "---:|";
    out += "\n";
  }
  return out;
}

}  // namespace paceline
