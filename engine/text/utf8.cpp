#include "engine/text/utf8.h"

#include <cstdint>
#include <cstring>

namespace paceline {

Utf8Char utf8_decode(std::string_view text, size_t pos) {
  const auto byte_at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte_at(pos);
  if (lead < 0x80) return {.code = lead, .num_bytes = 1, .valid = true};
  int length = 0;
  // The second byte has a narrower range after four leads: no overlong forms, surrogates or codes above U+10FFFF.
  unsigned low = 0x80, high = 0xBF;
  char32_t code = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    code = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    code = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    code = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {};
  }
  for (int i = 1; i < length; ++i) {
    if (pos + static_cast<size_t>(i) >= text.size()) return {.num_bytes = i, .cut_off = true};
    const unsigned next = byte_at(pos + static_cast<size_t>(i));
    if (next < low || next > high) return {.num_bytes = i};
    low = 0x80;
    high = 0xBF;
    code = (code << 6) | (next & 0x3F);
  }
  return {.code = code, .num_bytes = length, .valid = true};
}

bool utf8_valid(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    if (uint64_t word = 0; pos + sizeof(word) <= text.size()) {  // ASCII, eight bytes at once
      std::memcpy(&word, text.data() + pos, sizeof(word));
      if ((word & 0x8080808080808080) == 0) {
        pos += sizeof(word);
        continue;
      }
    }
    const Utf8Char c = utf8_decode(text, pos);
    if (!c.valid) return false;
    pos += static_cast<size_t>(c.num_bytes);
  }
  return true;
}

std::string utf8_repair(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_decode(text, pos);
    if (c.valid) {
      out.append(text.substr(pos, static_cast<size_t>(c.num_bytes)));
    } else {
      utf8_append(out, kReplacementChar);
    }
    pos += static_cast<size_t>(c.num_bytes);
  }
  return out;
}

void utf8_append(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

}  // namespace paceline
