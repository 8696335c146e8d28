#pragma once
// Counts and times in sentences.

#include <cmath>
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

/// "40 ms", "2.4 s", "14 s", "2 min 5 s", "1 h 15 min".
inline std::string time_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", 1e3 * seconds);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const int64_t whole = std::llround(seconds), minutes = std::llround(seconds / 60);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace paceline
