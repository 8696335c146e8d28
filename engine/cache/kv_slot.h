#pragma once
// Where a position's keys and values lie.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "engine/util/checked_math.h"

namespace paceline {

/// Blocks of block_size slots that hold so many positions of one sequence.
template <std::integral T>
constexpr T kv_blocks(T positions, std::type_identity_t<T> block_size) {
  return T(ceil_div(positions, block_size));
}

/// Slot of a position of a sequence whose KV lies in `pages`, blocks of block_size slots. REQUIRES a page for it.
inline int32_t kv_slot(std::span<const int32_t> pages, int block_size, int position) {
  return pages[size_t(position / block_size)] * block_size + position % block_size;
}

}  // namespace paceline
