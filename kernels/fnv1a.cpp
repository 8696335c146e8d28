#include "kernels/fnv1a.h"

#include <fmt/format.h>

namespace paceline {

std::string Fnv1a::hex() const { return fmt::format("{:016x}", hash_); }

std::string fnv1a64_hex(std::string_view bytes) {
  Fnv1a hash;
  hash.add(bytes.data(), bytes.size());
  return hash.hex();
}

}  // namespace paceline
