#include "tests/support/random_seed.h"

#include <cstdlib>
#include <random>

#include <fmt/format.h>

namespace paceline::test {

uint32_t random_seed() {
  const char* const given = std::getenv(kSeedVariable);
  const uint32_t seed = given ? uint32_t(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  fmt::print("drawn with {}={}\n", kSeedVariable, seed);
  return seed;
}

}  // namespace paceline::test
