#include "experiments/report/text_table.h"

#include <algorithm>

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
