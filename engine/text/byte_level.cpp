#include "engine/text/byte_level.h"

#include <array>
#include <cstdint>

#include "engine/text/utf8.h"

namespace paceline {

namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr int kAlphabetEnd = 0x100 + 68;

constexpr auto kByteToChar = [] {
  std::array<uint16_t, 256> table{};
  uint16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte)
    table[byte] = stands_for_itself(byte) ? static_cast<uint16_t>(byte) : next++;
  return table;
}();

constexpr auto kCharToByte = [] {
  std::array<int16_t, kAlphabetEnd> table{};
  for (auto& entry : table) entry = -1;
  for (int byte = 0; byte < 256; ++byte) table[kByteToChar[static_cast<size_t>(byte)]] = static_cast<int16_t>(byte);
  return table;
}();

}  // namespace

char32_t byte_level_char(unsigned char byte) { return kByteToChar[byte]; }

std::string byte_level_encode(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) utf8_append(out, byte_level_char(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::string> byte_level_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_decode(text, pos);
    if (!c.valid || c.code >= kCharToByte.size() || kCharToByte[c.code] < 0) return std::nullopt;
    out.push_back(static_cast<char>(static_cast<unsigned char>(kCharToByte[c.code])));
    pos += static_cast<size_t>(c.num_bytes);
  }
  return out;
}

}  // namespace paceline
