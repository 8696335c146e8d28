#pragma once
// The one way to show text that a user or a file wrote: on a terminal, in a message, a table or Markdown.

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline {

inline constexpr size_t kMaxShownBytes = 200;     // of one name, path or value
inline constexpr size_t kMaxMessageBytes = 4000;  // of a message of one line that holds several

/// `text` with every control character (C0, DEL, C1 in UTF-8) as an escape sequence of ASCII: it stays one line and can
/// move no cursor.
std::string printable(std::string_view text);

/// The same of one name, path or value, cut to kMaxShownBytes: its beginning, "…", its end. Characters stay whole.
std::string user_text(std::string_view text);

/// A message with such texts in it: printable, what stands in quotes or is one word is cut as user_text() cuts it, and
/// the whole to kMaxMessageBytes.
std::string message_text(std::string_view message);

/// For Markdown: printable, and nothing of it is HTML, a table's bar or code.
std::string markdown_text(std::string_view text);

}  // namespace paceline
