#include "engine/grammar/code_ranges.h"

#include <algorithm>

namespace paceline {

std::vector<CodeRange> tidy_ranges(std::span<const CodeRange> ranges) {
  std::vector<CodeRange> cut;
  const auto add = [&](char32_t first, char32_t last) {
    if (first <= last) cut.push_back({first, last});
  };
  for (const auto& [first, last] : ranges) {
    add(first, std::min<char32_t>(last, 0xD7FF));
    add(std::max<char32_t>(first, 0xE000), std::min(last, kLastCode));
  }
  std::sort(cut.begin(), cut.end());
  std::vector<CodeRange> tidy;
  for (const CodeRange& range : cut) {
    if (!tidy.empty() && range[0] <= tidy.back()[1] + 1) {
      tidy.back()[1] = std::max(tidy.back()[1], range[1]);
    } else {
      tidy.push_back(range);
    }
  }
  return tidy;
}

std::vector<CodeRange> other_codes(std::span<const CodeRange> ranges) {
  std::vector<CodeRange> others;
  char32_t next = 0;
  for (const auto& [first, last] : tidy_ranges(ranges)) {
    if (first > next) others.push_back({next, first - 1});
    next = last + 1;
  }
  if (next <= kLastCode) others.push_back({next, kLastCode});
  return tidy_ranges(others);
}

}  // namespace paceline
