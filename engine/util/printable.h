#pragma once
// Text from files and people on a terminal or in a message of one line.

#include <string>
#include <string_view>

namespace paceline {

/// `text` with every control character (C0, DEL, C1 in UTF-8) as an escape sequence of ASCII: it stays one line and can
/// move no cursor.
std::string printable(std::string_view text);

}  // namespace paceline
