#pragma once
// A table of short texts, put together once, for a terminal, as Markdown, HTML or CSV.

#include <string>
#include <vector>

namespace paceline {

struct Table {
  struct Column {
    std::string name;
    bool is_text = false;    // set left
    std::string help = {};   // HTML: a tooltip; legend_text()
    int goes = 0;            // where a terminal is too narrow the column with the lowest goes first; 0: never
    bool html_only = false;  // for what has no room elsewhere
  };
  struct Cell {
    std::string text;
    std::string more = {};  // behind it, paler on a page
    std::string css = {}, tooltip = {};

    Cell(std::string text_, std::string more_ = {}, std::string css_ = {}, std::string tooltip_ = {})
        : text(std::move(text_)), more(std::move(more_)), css(std::move(css_)), tooltip(std::move(tooltip_)) {}
    Cell(const char* text_) : text(text_) {}
    std::string whole() const { return more.empty() ? text : text + " " + more; }
  };
  struct Row {
    std::vector<Cell> cells;  // [columns]
    std::string css = {};     // of the whole
    std::string filter = {};  // what a filter reads beside the row's own text; empty: nothing
  };
  std::string title;
  std::vector<Column> columns;
  std::vector<Row> rows;
};

/// What a terminal of so many columns shows; 0: all stays as it is. Texts are shown as user_text() has them.
struct TerminalTable {
  std::vector<std::vector<std::string>> lines;  // of the head and of each row, without ends
  std::vector<std::string> left_out;            // names of columns
};

/// Where the table is too wide, columns go in their order (`goes` below kAfterLast); then the last one stands below its
/// row, further columns go, and at last the widest column of text is cut.
inline constexpr int kAfterLast = 100;
TerminalTable fitted_table(const Table& table, int columns);

/// Where the table is too wide each row is stacked: the texts that are set left on a line, but for the last column;
/// below them each other one behind its head, "tok/s A 99.1; tok/s B 120.4", broken between words.
TerminalTable stacked_table(const Table& table, int columns);

/// Pipes, each line with its end; texts as markdown_text() has them.
std::string markdown_table(const Table& table);

/// "pp: pipeline stages. k: …": what the columns' help says, but for those that only HTML has.
std::string legend_text(const Table& table);

/// In a box that scrolls; the caption also names the box.
std::string html_table(const Table& table, const char* css = "");

}  // namespace paceline
