#pragma once
// Substring search in linear time; std::string::find takes quadratic time for a long part that almost fits everywhere.

#include <cstring>
#include <string_view>

namespace paceline {

/// Where `part` is found first from `begin` on, or npos.
inline size_t find_text(std::string_view text, std::string_view part, size_t begin = 0) {
  if (begin > text.size()) return std::string_view::npos;
  const void* const hit = ::memmem(text.data() + begin, text.size() - begin, part.data(), part.size());
  if (hit == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(hit) - text.data());
}

}  // namespace paceline
