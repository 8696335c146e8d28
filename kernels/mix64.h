#pragma once
// SplitMix64's finisher (Steele et al. 2014).

#include <cstdint>

namespace paceline {

/// A bijection of 64-bit words that takes neighbours far apart. Values are part of the contract: orders of prompts,
/// names of cached pages and drawn acceptances depend on them.
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace paceline
