#pragma once
// Where a position's keys and values lie.

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline {

/// Slot of a position of a sequence whose KV lies in `pages`, blocks of block_size slots. REQUIRES a page for it.
inline int32_t kv_slot(std::span<const int32_t> pages, int block_size, int position) {
  return pages[size_t(position / block_size)] * block_size + position % block_size;
}

}  // namespace paceline
