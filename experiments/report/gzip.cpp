#include "experiments/report/gzip.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {
namespace {

constexpr size_t kWindow = 32768, kShortest = 3, kLongest = 258;
constexpr int kEndOfBlock = 256, kFirstLength = 257;

/// RFC 1951, 3.2.5: the smallest value of each code, and how many bits behind it say how far above that it lies.
constexpr std::array<uint16_t, 29> kLengthBase = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                  31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<uint8_t, 29> kLengthBits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<uint16_t, 30> kDistanceBase = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                                    33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                                    1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<uint8_t, 30> kDistanceBits = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                                   6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

/// Numbers from their lowest bit on, Huffman codes from their highest (RFC 1951, 3.1.1).
class BitWriter {
 public:
  explicit BitWriter(std::string& out) : out_(out) {}

  void number(uint32_t value, int bits) {
    for (int i = 0; i < bits; ++i) bit(value >> i & 1);
  }
  void code(uint32_t value, int bits) {
    for (int i = bits; i-- > 0;) bit(value >> i & 1);
  }
  void fill_byte() {
    while (count_ != 0) bit(0);
  }

 private:
  void bit(uint32_t value) {
    byte_ |= value << count_;
    if (++count_ < 8) return;
    out_ += static_cast<char>(byte_);
    byte_ = 0;
    count_ = 0;
  }

  std::string& out_;
  uint32_t byte_ = 0;
  int count_ = 0;
};

/// A literal, the end of the block or the code of a length, in the fixed code (RFC 1951, 3.2.6).
void put_symbol(BitWriter& out, int symbol) {
  const auto value = static_cast<uint32_t>(symbol);
  if (symbol < 144)
    out.code(0x30 + value, 8);
  else if (symbol < 256)
    out.code(0x190 + value - 144, 9);
  else if (symbol < 280)
    out.code(value - 256, 7);
  else
    out.code(0xC0 + value - 280, 8);
}

template <size_t n>
size_t code_of(const std::array<uint16_t, n>& base, size_t value) {
  return static_cast<size_t>(std::upper_bound(base.begin(), base.end(), value) - base.begin()) - 1;
}

void put_match(BitWriter& out, size_t length, size_t distance) {
  const size_t l = code_of(kLengthBase, length), d = code_of(kDistanceBase, distance);
  put_symbol(out, kFirstLength + static_cast<int>(l));
  out.number(static_cast<uint32_t>(length - kLengthBase[l]), kLengthBits[l]);
  out.code(static_cast<uint32_t>(d), 5);
  out.number(static_cast<uint32_t>(distance - kDistanceBase[d]), kDistanceBits[d]);
}

/// Where three bytes stood before, the latest place first.
class Places {
 public:
  explicit Places(std::string_view bytes) : bytes_(bytes), latest_(kSlots, kNone), before_(bytes.size(), kNone) {}

  struct Match {
    size_t length = 0, distance = 0;
  };
  Match longest(size_t at) const {
    constexpr int kMostTries = 64;
    Match best;
    if (at + kShortest > bytes_.size()) return best;
    const size_t most = std::min(kLongest, bytes_.size() - at);
    size_t from = latest_[slot(at)];
    for (int tries = 0; from != kNone && at - from <= kWindow && tries < kMostTries; ++tries, from = before_[from]) {
      size_t length = 0;
      while (length < most && bytes_[from + length] == bytes_[at + length]) ++length;
      if (length > best.length) best = {.length = length, .distance = at - from};
    }
    return best.length >= kShortest ? best : Match{};
  }
  void add(size_t at) {
    if (at + kShortest > bytes_.size()) return;
    size_t& latest = latest_[slot(at)];
    before_[at] = latest;
    latest = at;
  }

 private:
  static constexpr size_t kSlots = 1 << 15, kNone = static_cast<size_t>(-1);

  size_t slot(size_t at) const {
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(bytes_[at + i])); };
    return (byte(0) << 10 ^ byte(1) << 5 ^ byte(2)) % kSlots;
  }

  std::string_view bytes_;
  std::vector<size_t> latest_, before_;
};

/// RFC 1952, 8; not the journal's CRC.
uint32_t crc32(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

}  // namespace

std::string gzip(std::string_view bytes) {
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);  // deflate, no name, no time, unknown system
  BitWriter bits(out);
  bits.number(1, 1);  // the last block
  bits.number(1, 2);  // of fixed codes
  Places places(bytes);
  for (size_t at = 0; at < bytes.size();) {
    const auto [length, distance] = places.longest(at);
    if (length == 0)
      put_symbol(bits, static_cast<unsigned char>(bytes[at]));
    else
      put_match(bits, length, distance);
    for (const size_t end = at + std::max<size_t>(1, length); at < end; ++at) places.add(at);
  }
  put_symbol(bits, kEndOfBlock);
  bits.fill_byte();
  bits.number(crc32(bytes), 32);
  bits.number(static_cast<uint32_t>(bytes.size()), 32);
  return out;
}

}  // namespace paceline
