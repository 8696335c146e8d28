#pragma once
// Classes of characters that the patterns of tokenizers tell apart, from a table: a lookup instead of a search.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paceline {

/// Bits of a character. Unicode's general categories, White_Space, and the two that end lines.
enum CharClass : uint8_t {
  kUpperish = 1,     // \p{Lu} \p{Lt}
  kLower = 2,        // \p{Ll}
  kOtherLetter = 4,  // \p{Lm} \p{Lo}
  kMark = 8,         // \p{M}
  kNumber = 16,      // \p{N}
  kWhite = 32,       // \s
  kLineEnd = 64,     // \r \n (and kWhite)
  kLetter = kUpperish | kLower | kOtherLetter,
};

/// A character of well-formed text.
struct ClassedChar {
  uint8_t classes;  // bits of CharClass; 0: punctuation, symbols, controls, …
  uint8_t num_bytes;
};

/// Built at first use, 64 KiB; any thread.
class CharClasses {
 public:
  static const CharClasses& get();
  /// REQUIRES well-formed UTF-8, pos < text.size() on a character's boundary.
  ClassedChar at(std::string_view text, size_t pos) const {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[pos + i]); };
    const uint32_t lead = byte(0);
    if (lead < 0x80) return {table_[lead], 1};
    if (lead < 0xE0) return {table_[(lead & 0x1F) << 6 | (byte(1) & 0x3Fu)], 2};
    if (lead < 0xF0) return {table_[(lead & 0x0F) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu)], 3};
    return {beyond((lead & 0x07) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu)), 4};
  }

 private:
  CharClasses();
  static uint8_t beyond(char32_t code);  // above U+FFFF
  std::array<uint8_t, 0x10000> table_;
};

}  // namespace paceline
