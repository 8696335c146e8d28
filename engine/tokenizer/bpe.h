#pragma once
// Byte-pair encoding of one piece: repeatedly join the adjacent pair of lowest rank, leftmost first, until no pair has
// a rank (Sennrich et al. 2016, §3.2). A heap over a linked list makes it O(n log n) for any piece; short pieces,
// nearly all, are searched from left to right.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace paceline {

/// Open-addressing map from a pair of token ids to the rank of its merge and what it makes.
class PairRanks {
 public:
  struct Merged {
    int32_t rank = -1;  // −1: the pair never merges
    int32_t id = -1;
  };
  explicit PairRanks(size_t num_pairs);
  /// A later entry of the same pair replaces the earlier one.
  void set(int32_t left, int32_t right, Merged merged);
  Merged find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t key;
    Merged merged;
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
    int32_t rank, position, left, right, merged;
  };
  std::vector<int32_t> ids;              // of the symbols at first, then of what they became
  std::vector<PairRanks::Merged> pairs;  // of a short piece: [i] joins ids[i] and ids[i + 1]
  std::vector<Symbol> symbols;           // of a long piece
  std::vector<Candidate> heap;
};

/// Immutable after construction.
class Bpe {
 public:
  struct Merge {
    int32_t left, right, merged;  // ids
    int32_t rank;                 // the lowest joins first, leftmost of equals; not negative
  };
  struct Options {
    std::array<int32_t, 256> byte_ids;  // id of each single byte, −1: absent
    /// What is joined at first: bytes, or characters where there are any here. A character that is absent is its bytes.
    std::unordered_map<char32_t, int32_t> char_ids;
    std::optional<int32_t> unknown_id;  // stands for a byte, or a character, without an id; else it is dropped
    bool fuse_unknown = false;          // one unknown_id for a run of them
    /// ignore_merges: a piece that is a token is that token, whatever the merges say. Empty: off.
    std::unordered_map<std::string, int32_t> whole_pieces;
  };

  Bpe(const std::vector<Merge>& merges, Options options);

  /// Appends the ids of `piece`, fewer than 2^31 bytes: any where bytes are joined, else well-formed UTF-8.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  void read_symbols(std::string_view piece, std::vector<int32_t>& symbols) const;
  void join_few(std::vector<int32_t>& symbols, std::vector<PairRanks::Merged>& pairs) const;
  void join_many(BpeScratch& scratch) const;

  PairRanks ranks_;
  Options options_;
};

}  // namespace paceline
