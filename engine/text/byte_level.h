#pragma once
// The byte-level alphabet of GPT-2: each of the 256 byte values has one printable character, so that vocabularies can
// be stored as text. 188 printable Latin-1 characters stand for themselves; the other 68 bytes, in order, are
// U+0100, U+0101, … (space is U+0120 "Ġ"). Radford et al. 2019, encoder.py of the released code.

#include <optional>
#include <string>
#include <string_view>

namespace paceline {

/// The character that stands for `byte`.
char32_t byte_level_char(unsigned char byte);

/// Raw bytes -> visible text.
std::string byte_level_encode(std::string_view bytes);

/// Visible text -> raw bytes; nullopt when a character is not of the alphabet or the text is not UTF-8.
std::optional<std::string> byte_level_decode(std::string_view text);

}  // namespace paceline
