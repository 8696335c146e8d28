#pragma once
// Units of memory, for messages: GiB in every text, so that sizes can be compared.

namespace paceline {

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

}  // namespace paceline
