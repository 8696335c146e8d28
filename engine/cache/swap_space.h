#pragma once
// Which KV blocks of preempted sequences lie in host memory. Deals in block ids only; the bytes lie with the ranks.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/cache/block_pool.h"

namespace paceline {

/// One thread. A sequence is here from its preemption until it runs again or ends.
class SwapSpace {
 public:
  explicit SwapSpace(int num_blocks);

  struct Place {
    int cached = 0;              // positions whose KV lies here: [0, cached)
    std::vector<int32_t> block;  // of positions [0, block_size), …
  };
  /// Room for `cached` positions in `count` blocks, all of them, shared ones too; null and no change when free blocks
  /// do not suffice, or cached is 0. REQUIRES: seq is not here.
  const Place* put(SeqId seq, int cached, int count);
  /// Null when it is not here.
  const Place* find(SeqId seq) const;
  /// Its blocks become free. Unknown ids are ignored.
  void drop(SeqId seq);

  int num_blocks() const { return num_blocks_; }
  int num_free() const { return int(free_.size()); }

 private:
  const int num_blocks_;
  std::vector<int32_t> free_;
  std::unordered_map<SeqId, Place> places_;
};

}  // namespace paceline
