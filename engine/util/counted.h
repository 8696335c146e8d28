#pragma once
// Counts in sentences.

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace paceline {

/// "1 cell", "3 cells"; `many` where it takes more than an s at the end: counted(n, "cell uses", "cells use").
inline std::string counted(int64_t n, std::string_view one, std::string_view many = {}) {
  if (n == 1) return fmt::format("{} {}", n, one);
  return many.empty() ? fmt::format("{} {}s", n, one) : fmt::format("{} {}", n, many);
}

}  // namespace paceline
