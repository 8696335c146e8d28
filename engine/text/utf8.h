#pragma once
// UTF-8: decoding, checking and repairing (Unicode 15, chapter 3, table 3-7 and "maximal subpart" replacement).

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline {

inline constexpr char32_t kReplacementChar = 0xFFFD;

/// What starts at one position of a byte string.
struct Utf8Char {
  char32_t code = kReplacementChar;
  int num_bytes = 1;     // valid: length of the character; invalid: length of the maximal ill-formed subpart, >= 1
  bool valid = false;    // a whole, well-formed character
  bool cut_off = false;  // invalid only because the text ends: more bytes could complete it
};

/// REQUIRES pos < text.size().
Utf8Char utf8_decode(std::string_view text, size_t pos);

bool utf8_valid(std::string_view text);

/// Every maximal ill-formed subpart becomes one U+FFFD; well-formed text is returned unchanged.
std::string utf8_repair(std::string_view text);

/// REQUIRES a Unicode scalar value.
void utf8_append(std::string& out, char32_t code);

/// True for the characters that Python's str.isspace() and Rust's char::is_whitespace() agree to be white space.
bool is_white_space(char32_t code);

}  // namespace paceline
