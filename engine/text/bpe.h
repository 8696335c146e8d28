#pragma once
// Byte-pair encoding of one piece: repeatedly join the adjacent pair of lowest rank, leftmost first, until no pair has
// a rank (Sennrich et al. 2016, §3.2). A heap over a linked list makes it O(n log n) for any piece.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace paceline {

/// Open-addressing map from a pair of token ids to the rank of its merge.
class PairRanks {
 public:
  explicit PairRanks(size_t num_pairs);
  /// A later rank of the same pair replaces the earlier one.
  void set(int32_t left, int32_t right, int32_t rank);
  /// −1 when the pair never merges.
  int32_t find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t key;
    int32_t rank;
  };
  size_t slot_of(uint64_t key) const;
  std::vector<Slot> slots_;  // power of two, at most half full
};

/// Reused between pieces of one encode call.
struct BpeScratch {
  struct Symbol {
    int32_t id, previous, next;  // id −1: merged into its left neighbour
  };
  struct Candidate {
    int32_t rank, position, left, right;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

/// Immutable after construction.
class Bpe {
 public:
  struct Merge {
    int32_t left, right, merged;  // ids
  };
  struct Options {
    std::array<int32_t, 256> byte_ids;  // id of each single byte, −1: absent
    std::optional<int32_t> unknown_id;  // stands for an absent byte; without it the byte is dropped
    bool fuse_unknown = false;          // one unknown_id for a run of absent bytes
    /// ignore_merges: a piece that is a token is that token, whatever the merges say. Empty: off.
    std::unordered_map<std::string, int32_t> whole_pieces;
  };

  /// Rank of a merge = its index.
  Bpe(const std::vector<Merge>& merges, Options options);

  /// Appends the ids of `piece` (raw bytes, fewer than 2^31).
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  PairRanks ranks_;
  std::vector<int32_t> merged_ids_;  // [rank]
  Options options_;
};

}  // namespace paceline
