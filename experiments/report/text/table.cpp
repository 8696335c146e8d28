#include "experiments/report/text/table.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "engine/util/printable.h"
#include "engine/util/utf8_chars.h"
#include "experiments/report/svg/chart.h"
#include "experiments/report/text/text.h"
#include "experiments/report/text/text_lines.h"

namespace paceline {
namespace {

constexpr int kLeastText = 8;  // columns of a text that is cut
constexpr int kHang = 6;

/// The head first; without columns that only HTML has.
struct Texts {
  std::vector<Table::Column> columns;
  std::vector<std::vector<std::string>> rows;

  explicit Texts(const Table& table) : rows(table.rows.size() + 1) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (table.columns[c].html_only) continue;
      columns.push_back(table.columns[c]);
      rows[0].push_back(user_text(table.columns[c].name));
      for (size_t r = 0; r < table.rows.size(); ++r) rows[r + 1].push_back(user_text(table.rows[r].cells[c].whole()));
    }
  }

  int width(size_t column) const {
    int widest = 0;
    for (const auto& row : rows) widest = std::max(widest, display_width(row[column]));
    return widest;
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> out(rows.size());
    for (size_t c = 0; c < columns.size(); ++c) {
      const int wide = width(c);
      for (size_t r = 0; r < rows.size(); ++r) {
        const std::string padding(size_t(wide - display_width(rows[r][c])), ' ');
        out[r] += "  " + (columns[c].is_text ? rows[r][c] + padding : padding + rows[r][c]);
      }
    }
    for (std::string& line : out) line.erase(line.find_last_not_of(' ') + 1);
    return out;
  }
  bool fits(int most) const { return most == 0 || width_of(lines()) <= most; }

  void erase(size_t column) {
    columns.erase(columns.begin() + long(column));
    for (auto& row : rows) row.erase(row.begin() + long(column));
  }

  /// Until it fits, those that go before `until`.
  void drop(int until, int most, std::vector<std::string>& left_out) {
    while (!fits(most)) {
      size_t first = columns.size();
      for (size_t c = 0; c < columns.size(); ++c)
        if (columns[c].goes > 0 && columns[c].goes < until &&
            (first == columns.size() || columns[c].goes < columns[first].goes))
          first = c;
      if (first == columns.size()) return;
      left_out.push_back(columns[first].name);
      erase(first);
    }
  }

  void cut_widest_text(int most) {
    const int too_wide = width_of(lines()) - most;
    size_t widest = columns.size();
    for (size_t c = 0; c < columns.size(); ++c)
      if (columns[c].is_text && (widest == columns.size() || width(c) > width(widest))) widest = c;
    if (too_wide <= 0 || widest == columns.size()) return;
    const int room = std::max(kLeastText, width(widest) - too_wide);
    for (auto& row : rows) row[widest] = utf8_shortened(row[widest], size_t(room));
  }
};

TerminalTable as_lines(const Texts& texts) {
  TerminalTable out;
  for (std::string& line : texts.lines()) out.lines.push_back({std::move(line)});
  return out;
}

}  // namespace

TerminalTable fitted_table(const Table& table, int columns) {
  Texts texts(table);
  TerminalTable out;
  texts.drop(kAfterLast, columns, out.left_out);
  std::vector<std::string> below;
  if (!texts.fits(columns)) {
    for (auto& row : texts.rows) below.push_back(row.back());
    texts.erase(texts.columns.size() - 1);
    texts.drop(std::numeric_limits<int>::max(), columns, out.left_out);
    if (!texts.fits(columns)) texts.cut_widest_text(columns);
  }
  out.lines = as_lines(texts).lines;
  for (size_t r = 1; r < below.size(); ++r)
    if (!below[r].empty())
      for (std::string& line : wrapped_lines("      " + below[r], columns, kHang))
        out.lines[r].push_back(std::move(line));
  return out;
}

TerminalTable stacked_table(const Table& table, int columns) {
  const Texts texts(table);
  if (texts.fits(columns)) return as_lines(texts);
  TerminalTable out;
  out.lines.resize(texts.rows.size());
  for (size_t r = 1; r < texts.rows.size(); ++r) {
    std::string name, facts;
    for (size_t c = 0; c < texts.columns.size(); ++c) {
      const std::string &text = texts.rows[r][c], &head = texts.rows[0][c];
      if (texts.columns[c].is_text && c + 1 < texts.columns.size())
        name += "  " + text;
      else if (!text.empty())
        facts += fmt::format("{}{}{}{}", facts.empty() ? "" : "; ", head, head.empty() ? "" : " ", text);
    }
    for (const std::string& text : {name, facts.empty() ? "" : "    " + facts})
      for (std::string& line : wrapped_lines(text, columns, kHang))
        if (!line.empty()) out.lines[r].push_back(std::move(line));
  }
  return out;
}

std::string markdown_table(const Table& table) {
  std::string head = "|", rule = "|", body;
  for (const Table::Column& column : table.columns) {
    if (column.html_only) continue;
    head += fmt::format(" {} |", markdown_text(column.name));
    rule += column.is_text ? "---|" : "---:|";
  }
  for (const Table::Row& row : table.rows) {
    body += "|";
    for (size_t c = 0; c < table.columns.size(); ++c)
      if (!table.columns[c].html_only) body += fmt::format(" {} |", markdown_text(row.cells[c].whole()));
    body += "\n";
  }
  return head + "\n" + rule + "\n" + body;
}

std::string legend_text(const Table& table) {
  std::string text;
  for (const Table::Column& column : table.columns)
    if (!column.html_only && !column.help.empty())
      text += fmt::format("{}{}: {}.", text.empty() ? "" : " ", column.name, column.help);
  return text;
}

std::string html_table(const Table& table, const char* css) {
  std::string out = fmt::format("<table class=\"{}\"><caption>{}</caption><thead><tr>", css, html_escaped(table.title));
  const auto attribute = [](const char* name, const std::string& value) {
    return value.empty() ? std::string() : fmt::format(" {}=\"{}\"", name, html_escaped(value));
  };
  for (const Table::Column& column : table.columns)
    out += fmt::format("<th scope=\"col\"{}{}>{}</th>", column.is_text ? " class=\"s\"" : "",
                       attribute("title", column.help), html_escaped(column.name));
  out += "</tr></thead><tbody>\n";
  for (const Table::Row& row : table.rows) {
    out += fmt::format("<tr{}{}>", attribute("data-label", row.filter), attribute("class", row.css));
    for (size_t c = 0; c < row.cells.size(); ++c) {
      const Table::Cell& cell = row.cells[c];
      const std::string css =
          table.columns[c].is_text && cell.css.find("why") == std::string::npos ? "s " + cell.css : cell.css;
      out +=
          fmt::format("<td{}{}>{}{}</td>", attribute("class", css.ends_with(' ') ? css.substr(0, css.size() - 1) : css),
                      attribute("title", cell.tooltip), html_escaped(cell.text),
                      cell.more.empty() ? "" : fmt::format(" <span class=\"ci\">{}</span>", html_escaped(cell.more)));
    }
    out += "</tr>\n";
  }
  return fmt::format("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</tbody></table></div>\n",
                     html_escaped(table.title), out);
}

}  // namespace paceline
