#pragma once
// Rows of several sequences over pages, as an engine's batch has them.

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/op_args.h"

namespace paceline::test {

/// Sequences that have some positions in pages and bring new rows; their blocks are dealt from the last one down, and
/// each has at least one position to spare. The last `num_unused` rows of the first sequence are padding.
struct PagedBatch {
  int num_blocks = 1;
  std::vector<SeqSpan> seqs;
  std::vector<int32_t> block, kv_len, position, slot;
  std::vector<int32_t> old_slot;  // of the positions in pages

  PagedBatch(const std::vector<std::pair<int, int>>& cached_and_new, int block_size, int num_unused) {
    for (const auto& [cached, fresh] : cached_and_new) num_blocks += (cached + fresh) / block_size + 1;
    for (const auto& [cached, fresh] : cached_and_new) {
      const int32_t first_block = int32_t(block.size());
      seqs.push_back({.first_row = int32_t(slot.size()), .num_rows = fresh, .block_begin = first_block});
      for (int i = 0; i <= (cached + fresh) / block_size; ++i) block.push_back(num_blocks - 1 - int(block.size()));
      const int used = fresh - (first_block == 0 ? num_unused : 0);
      for (int p = 0; p < cached + fresh; ++p) {
        const bool unused = p >= cached + used;
        const int at = block[size_t(first_block + p / block_size)] * block_size + p % block_size;
        (p < cached ? old_slot : slot).push_back(unused ? -1 : at);
        if (p < cached) continue;
        position.push_back(unused ? -1 : p);
        kv_len.push_back(unused ? 0 : p + 1);
      }
    }
  }
  int num_rows() const { return int(slot.size()); }
};

/// inv_freq of the original rope: base 10,000.
inline std::vector<double> rope_frequencies(int rotary_dim) {
  std::vector<double> inv_freq;
  for (int i = 0; i < rotary_dim / 2; ++i) inv_freq.push_back(std::pow(10000.0, -2.0 * i / rotary_dim));
  return inv_freq;
}

}  // namespace paceline::test
