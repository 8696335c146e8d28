#pragma once
// Which sequence owns which KV block. Deals in block ids only; the bytes lie with the ranks.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/cache/kv_slot.h"

namespace paceline {

using SeqId = int64_t;

/// Of a full block's tokens and all before it.
struct BlockHash {
  uint64_t low = 0, high = 0;
  bool operator==(const BlockHash&) const = default;
};

enum class PrefixCaching : uint8_t { off, on };

struct BlockPoolOptions {
  int num_blocks = 0;
  int block_size = 16;
  PrefixCaching prefix_caching = PrefixCaching::off;
  uint64_t hash_key = 0;           // keys the prefix hash: collisions cannot be prepared from outside
  bool next_token_counts = false;  // what a block holds depends on the token behind it, too
};

/// Paged KV bookkeeping of one model. One thread. Position p of a sequence lies in pages(seq)[p / block_size].
///
/// Per sequence:   [0 ……… committed) verified KV   [committed ……… reserved) may be written by steps in flight
/// Blocks wholly below `committed` may be shared (prefix caching) and are never written again; rollback is
/// committing a smaller length than the step wrote.
class BlockPool {
 public:
  explicit BlockPool(const BlockPoolOptions& options);

  /// Registers a sequence; with prefix caching, shares the longest run of cached full blocks that is a proper
  /// prefix of `tokens` (at least one token is left to compute). With next_token_counts the run loses its last block
  /// where another token stood behind it. Returns the committed length, a multiple of block_size. REQUIRES: seq is
  /// unknown.
  int attach(SeqId seq, std::span<const int32_t> tokens) {
    std::vector<BlockHash> hashes;
    return attach(seq, tokens, hashes);
  }
  /// The same for one that comes again and again: `hashes` are those of the leading blocks of `tokens`, as far as
  /// earlier calls have needed them; appended to.
  int attach(SeqId seq, std::span<const int32_t> tokens, std::vector<BlockHash>& hashes);
  /// Registers a sequence that shares the full blocks of `from` within [0, len), whose tokens are its own, too. Returns
  /// the committed length. REQUIRES: no prefix caching, with which attach finds them; seq is unknown; len <=
  /// cached(from).
  int attach_to(SeqId seq, SeqId from, int len);

  /// Makes pages for positions [0, len). False and no change when the free blocks do not suffice.
  bool reserve(SeqId seq, int len);

  /// Gives back the pages behind positions [0, len), to be taken again before others: they hold nothing that is worth
  /// keeping. REQUIRES: len >= cached(seq); no step in flight writes there.
  void trim(SeqId seq, int len);

  /// Positions [0, len) hold verified KV of `tokens` (tokens.size() >= len). len only grows: rollback
  /// is committing less than was written. Full blocks become shareable; with next_token_counts, once the token behind
  /// them is known.
  void commit(SeqId seq, int len, std::span<const int32_t> tokens);

  int cached(SeqId seq) const;
  int32_t slot(SeqId seq, int position) const;
  std::span<const int32_t> pages(SeqId seq) const;
  bool knows(SeqId seq) const { return owners_.contains(seq); }

  /// Forgets the sequence. Its blocks become free when `last_step`, the last step that may write them, retires;
  /// at once when that step is <= the last retired one.
  void release(SeqId seq, uint64_t last_step);

  /// Every step <= `step` has completed.
  void retire(uint64_t step);

  int num_blocks() const { return int(blocks_.size()); }
  int num_free() const { return int(num_free_); }
  int block_size() const { return options_.block_size; }
  bool caches_prefixes() const { return options_.prefix_caching == PrefixCaching::on; }
  int blocks_for(int len) const { return kv_blocks(len, options_.block_size); }
  int peak_used() const { return peak_used_; }
  /// Tokens that sequences found cached and went on from, and those that they looked for.
  int64_t prefix_hit_tokens() const { return prefix_hit_tokens_; }
  int64_t prefix_query_tokens() const { return prefix_query_tokens_; }

  /// Forgets all shareable blocks (between repetitions of a benchmark).
  void reset_prefix_cache();

  /// Throws Error when an invariant is broken: reference counts equal the page tables, free + used + pending =
  /// total, no unshared block has two owners, shared blocks lie below every owner's committed length.
  void check() const;

 private:
  using Hash = BlockHash;
  struct HashOfHash {
    size_t operator()(const Hash& hash) const { return size_t(hash.low); }
  };
  struct Block {
    int32_t num_refs = 0;
    bool shareable = false;  // in table_; content below is valid
    Hash hash;
    Hash parent;
    std::vector<int32_t> tokens;
    int32_t next_token = -1;               // with next_token_counts: the one behind them
    int32_t lru_prev = -1, lru_next = -1;  // free list, least recently freed first
    bool in_free_list = false;
  };
  struct Owner {
    std::vector<int32_t> pages;
    int committed = 0;
    int hit_tokens = 0;    // found cached at attach, counted at the first commit: an attach may come to nothing
    int query_tokens = 0;  // looked for then
    int num_hashed = 0;    // leading blocks whose chain hash is known
    Hash chain;            // hash of blocks [0, num_hashed)
  };
  struct Pending {
    uint64_t step;
    std::vector<int32_t> blocks;
  };

  Hash chain_hash(const Hash& parent, std::span<const int32_t> tokens) const;
  int32_t take_free_block();
  void unref(int32_t block);
  void push_free_first(int32_t block);
  void push_free_last(int32_t block);
  void remove_from_free(int32_t block);
  void forget_content(Block& block);
  Owner& owner(SeqId seq);
  const Owner& owner(SeqId seq) const;

  BlockPoolOptions options_;
  std::vector<Block> blocks_;
  std::unordered_map<SeqId, Owner> owners_;
  std::unordered_map<Hash, int32_t, HashOfHash> table_;
  std::vector<Pending> pending_;
  int32_t free_head_ = -1, free_tail_ = -1;
  int num_free_ = 0;
  int peak_used_ = 0;
  uint64_t retired_ = 0;
  int64_t prefix_hit_tokens_ = 0, prefix_query_tokens_ = 0;
};

}  // namespace paceline
