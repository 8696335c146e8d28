#pragma once
// Tables of short texts: in columns for a terminal, as pipes for Markdown.

#include <functional>
#include <string>
#include <vector>

namespace paceline {

using TextRow = std::vector<std::string>;

/// Lines without ends: columns as wide as their widest text, the first `text_columns` and the last one set left, the
/// others right. The first row is the head. REQUIRES rows of one length.
std::vector<std::string> table_lines(const std::vector<TextRow>& rows, size_t text_columns);

/// The same with the columns set left for which `is_text` says so.
std::vector<std::string> table_lines(const std::vector<TextRow>& rows, const std::function<bool(size_t)>& is_text);

/// A text as it stands in a cell of a pipe table: | escaped, in one line.
std::string markdown_cell(const std::string& text);

/// A pipe table, each line with its end; | and newlines inside texts are escaped. The same columns are set left.
std::string markdown_table(const std::vector<TextRow>& rows, size_t text_columns);

}  // namespace paceline
