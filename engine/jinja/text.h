#pragma once
// Python's str methods on well-formed UTF-8. Pure functions without limits: callers charge for the sizes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::jinja {

enum class Side { both, left, right };

/// str.strip/lstrip/rstrip; without `chars` white space.
std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars = std::nullopt);

/// Case by Unicode's simple mappings, and "ß".upper() == "SS".
std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// str.title(): a letter is upper case unless a cased letter stands before it.
std::string title(std::string_view text);
/// str.capitalize()
std::string capitalize(std::string_view text);
/// Jinja's filter `title`: words are cut at blanks, "-", "(", "{", "[" and "<".
std::string title_words(std::string_view text);
/// All cased characters, of which there is at least one, are upper (lower) case.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

/// Occurrences of `from`, the first `limit` of them (-1: all). An empty `from` matches between characters.
/// nullopt when the result would exceed `max_bytes`.
std::optional<std::string> replace(std::string_view text, std::string_view from, std::string_view to, int64_t limit,
                                   size_t max_bytes);

/// str.splitlines(): "\r\n" is one end of a line, and so are the rarer ones of Python. Nothing stands behind the last.
std::vector<std::string_view> split_lines(std::string_view text);

/// str.split(), `limit` times at most (-1: at all); without `separator` at runs of white space. REQUIRES a separator
/// that is not empty.
std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit);

}  // namespace paceline::jinja
