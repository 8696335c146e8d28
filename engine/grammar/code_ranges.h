#pragma once
// Sets of code points.

#include <array>
#include <span>
#include <vector>

namespace paceline {

using CodeRange = std::array<char32_t, 2>;  // both are members

inline constexpr char32_t kLastCode = 0x10FFFF;

/// Sorted, without overlaps and borders that touch; surrogates are left out, and what is beyond kLastCode.
std::vector<CodeRange> tidy_ranges(std::span<const CodeRange> ranges);
/// All code points but these, tidy.
std::vector<CodeRange> other_codes(std::span<const CodeRange> ranges);

}  // namespace paceline
