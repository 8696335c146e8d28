#include "engine/util/printable.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/util/utf8_chars.h"

namespace paceline {

namespace {

/// The beginning and the end of a printable text, together with the mark between at most `max_bytes`.
std::string cut_to(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  constexpr std::string_view kMark = "…";
  const size_t most_head = (max_bytes - kMark.size()) * 2 / 3, head = utf8_begin(text, most_head);
  size_t tail = text.size() - (max_bytes - kMark.size() - most_head);
  while (tail < text.size() && is_utf8_continuation(text[tail])) ++tail;
  return std::string(text.substr(0, head)).append(kMark).append(text.substr(tail));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      out += fmt::format("\\u{:04x}", next);
      ++i;
    } else if (byte >= 0x20 && byte != 0x7f) {
      out += text[i];
    } else {
      out += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

std::string user_text(std::string_view text) {
  // What is cut away need not be escaped first: an escape is no shorter than what it stands for.
  constexpr size_t kEnough = 4 * kMaxShownBytes;
  return cut_to(printable(cut_to(text, kEnough)), kMaxShownBytes);
}

std::string message_text(std::string_view message) {
  std::string out;
  for (size_t at = 0; at < message.size();) {
    size_t end = at;
    if (message[at] == '"') {
      end = std::min(message.find('"', at + 1), message.size());
      if (end == message.size()) end = std::min(message.find(' ', at), message.size());
    } else {
      end = std::min(message.find_first_of(" \"", at), message.size());
    }
    out += user_text(message.substr(at, end - at));
    at = end;
    if (at < message.size()) out += printable(message.substr(at++, 1));
  }
  return cut_to(out, kMaxMessageBytes);
}

std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '|': out += "\\|"; break;
      case '`': out += "\\`"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace paceline
