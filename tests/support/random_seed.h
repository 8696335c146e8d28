#pragma once
// Seeds of tests that draw something new each time.

#include <cstdint>

namespace paceline::test {

/// Repeats what a test drew: PACELINE_SEED=N.
inline constexpr const char* kSeedVariable = "PACELINE_SEED";

/// PACELINE_SEED where it is set, else a new seed, which is printed: a failure can be repeated.
uint32_t random_seed();

}  // namespace paceline::test
