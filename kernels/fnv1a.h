#pragma once
// FNV-1a, 64 bits: an identity check, not a safeguard against forgery (Fowler, Noll and Vo).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline {

/// Bytes one after another; integers as they lie in memory.
class Fnv1a {
 public:
  Fnv1a() = default;
  /// Goes on from a value().
  explicit Fnv1a(uint64_t hash) : hash_(hash) {}

  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < size; ++i) add_word(bytes[i]);
  }
  /// One step for all 64 bits: for keys that no file holds.
  void add_word(uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3ULL; }
  uint64_t value() const { return hash_; }
  /// 16 hex digits.
  std::string hex() const;

 private:
  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

std::string fnv1a64_hex(std::string_view bytes);

}  // namespace paceline
