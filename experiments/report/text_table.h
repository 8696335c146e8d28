#pragma once
// Tables of short texts: in columns for a terminal, as pipes for Markdown.

#include <string>
#include <vector>

namespace paceline {

using TextRow = std::vector<std::string>;

/// Lines without ends: columns as wide as their widest text, the first `text_columns` and the last one set left, the
/// others right. The first row is the head. REQUIRES rows of one length.
std::vector<std::string> table_lines(const std::vector<TextRow>& rows, size_t text_columns);

/// A pipe table, each line with its end; | and newlines inside texts are escaped. The same columns are set left.
std::string markdown_table(const std::vector<TextRow>& rows, size_t text_columns);

}  // namespace paceline
