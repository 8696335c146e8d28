#pragma once
// Whether a text has a part, or is another one, in few words where it is long.

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace paceline::test {

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// "", or the first line in which they differ.
inline std::string first_difference(const std::string& found, const std::string& wanted) {
  if (found == wanted) return "";
  const size_t at =
      size_t(std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end()).first - found.begin());
  const auto line_of = [&](const std::string& text) {
    const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    return text.substr(begin, text.find('\n', at) - begin);
  };
  return fmt::format("line {} is \"{}\", wanted \"{}\"", 1 + std::count(found.begin(), found.begin() + long(at), '\n'),
                     line_of(found), line_of(wanted));
}

}  // namespace paceline::test
