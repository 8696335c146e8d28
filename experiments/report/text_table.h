#pragma once
// Tables of short texts: in columns for a terminal, as pipes for Markdown.

#include <functional>
#include <string>
#include <vector>

namespace paceline {

using TextRow = std::vector<std::string>;

/// Lines without ends: columns as wide as their widest text, the first `text_columns` and the last one set left, the
/// others right. The first row is the head. Texts are shown as user_text() has them. REQUIRES rows of one length.
std::vector<std::string> table_lines(const std::vector<TextRow>& rows, size_t text_columns);

/// The same with the columns set left for which `is_text` says so.
std::vector<std::string> table_lines(const std::vector<TextRow>& rows, const std::function<bool(size_t)>& is_text);

/// table_lines() where they are no wider than `columns`, or that is 0; else each row stacked: the first `text_columns`
/// on a line, below them each other text behind its head, "tok/s A 99.1; tok/s B 120.4", broken between words.
std::vector<std::string> fitted_lines(const std::vector<TextRow>& rows, size_t text_columns, int columns);

/// Columns of the widest of `lines`.
int width_of(const std::vector<std::string>& lines);

/// `line`, broken between words such that no line is wider than `columns`; those after the first begin with `hang`
/// spaces. A word without room for itself stays whole, as a path is there to be copied, unless it has commas: it is
/// broken behind these. columns 0: the line as it is.
std::vector<std::string> wrapped_lines(const std::string& line, int columns, int hang);
/// The same as text, each line with its end.
std::string wrapped_text(const std::string& line, int columns, int hang);

/// A pipe table, each line with its end, of markdown_text(). The same columns are set left.
std::string markdown_table(const std::vector<TextRow>& rows, size_t text_columns);

}  // namespace paceline
