#pragma once
// Remembers the ids of short pieces: text repeats its words, and a look-up costs a tenth of joining.

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace paceline {

/// One slot a hash value; a new piece takes the place of the old. Used by one thread at a time. Never changes a result:
/// joining is a function of the piece.
class PieceCache {
 public:
  static constexpr size_t kMaxBytes = 30, kMaxIds = 8;

  PieceCache() : slots_(kNumSlots) {}

  /// A slot that holds `piece`, or that may be given it. REQUIRES 1 to kMaxBytes bytes.
  class Slot {
   public:
    bool holds(std::string_view piece) const {
      return num_bytes_ == piece.size() && std::memcmp(bytes_, piece.data(), piece.size()) == 0;
    }
    std::span<const int32_t> ids() const { return {ids_, num_ids_}; }
    /// Does nothing for more than kMaxIds ids.
    void keep(std::string_view piece, std::span<const int32_t> ids) {
      if (ids.size() > kMaxIds) return;
      num_bytes_ = static_cast<uint8_t>(piece.size());
      num_ids_ = static_cast<uint8_t>(ids.size());
      std::memcpy(bytes_, piece.data(), piece.size());
      if (!ids.empty()) std::memcpy(ids_, ids.data(), ids.size_bytes());
    }

   private:
    uint8_t num_bytes_ = 0, num_ids_ = 0;  // 0 bytes: empty
    char bytes_[kMaxBytes];
    int32_t ids_[kMaxIds];
  };
  Slot& slot(std::string_view piece) { return slots_[hash(piece) >> (64 - kSlotBits)]; }

 private:
  static constexpr int kSlotBits = 14;  // 1 MiB: stays near the core
  static constexpr size_t kNumSlots = size_t{1} << kSlotBits;

  template <class Word>
  static uint64_t word_at(const char* data) {
    Word word;
    std::memcpy(&word, data, sizeof(word));
    return word;
  }
  /// Every byte counts: words from both ends, which overlap.
  static uint64_t hash(std::string_view piece) {
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ull, kOther = 0xD6E8FEB86659FD93ull;
    const char* const data = piece.data();
    const size_t size = piece.size();
    uint64_t hash = size * kOther;
    const auto mix = [&](uint64_t word) {
      hash = (hash ^ word) * kOdd;
      hash ^= hash >> 29;
    };
    if (size >= 8) {
      mix(word_at<uint64_t>(data));
      if (size > 16) {
        mix(word_at<uint64_t>(data + 8));
        mix(word_at<uint64_t>(data + size - 16));
      }
      mix(word_at<uint64_t>(data + size - 8));
    } else if (size >= 4) {
      mix(word_at<uint32_t>(data) << 32 | word_at<uint32_t>(data + size - 4));
    } else {
      mix(word_at<uint8_t>(data) << 16 | word_at<uint8_t>(data + size / 2) << 8 | word_at<uint8_t>(data + size - 1));
    }
    return hash * kOther;
  }

  std::vector<Slot> slots_;
};

}  // namespace paceline
