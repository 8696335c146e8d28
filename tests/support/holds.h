#pragma once
// Whether a text has a part.

#include <string>

namespace paceline::test {

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace paceline::test
