#pragma once
// Where characters begin in UTF-8 text, by its bytes alone: of ill-formed text a byte that could be within a character
// counts as one. Decoding and checking: engine/text/utf8.h.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace paceline {

/// A byte within a character, not its first one.
constexpr bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Number of characters.
constexpr size_t utf8_length(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), is_utf8_continuation));
}

/// Where the character begins that the byte at `pos` belongs to. REQUIRES pos < text.size().
constexpr size_t utf8_begin(std::string_view text, size_t pos) {
  while (pos > 0 && is_utf8_continuation(text[pos])) --pos;
  return pos;
}

/// The first `count` characters, or all of them.
constexpr std::string_view utf8_first(std::string_view text, size_t count) {
  const auto behind = std::find_if(text.begin(), text.end(), [left = count](char byte) mutable {
    return !is_utf8_continuation(byte) && left-- == 0;
  });
  return text.substr(0, static_cast<size_t>(behind - text.begin()));
}

/// Text of at most `most` characters: what is longer ends in an ellipsis. REQUIRES most > 0.
inline std::string utf8_shortened(std::string_view text, size_t most) {
  return utf8_length(text) <= most ? std::string(text) : std::string(utf8_first(text, most - 1)) + "…";
}

}  // namespace paceline
