#pragma once
// What AddressSanitizer is told about memory of our own making; without it, nothing here does anything.
// It looks at every load, which makes a register tile twenty times slower: such a loop leaves the checks to its caller,
// who asks once for all that the loop will read and write. And it knows nothing of mappings: they mark their ends.
// Includable from instruction-set-specific files.

#include <cstddef>

#include "kernels/math/elementary.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" void* __asan_region_is_poisoned(void* begin, size_t size);
extern "C" void __asan_poison_memory_region(const volatile void* begin, size_t size);
extern "C" void __asan_unpoison_memory_region(const volatile void* begin, size_t size);
#define PACELINE_CHECKED_BY_CALLER __attribute__((no_sanitize("address")))
#else
#define PACELINE_CHECKED_BY_CALLER
#endif

namespace paceline {

/// Stops with a report when a byte of [data, data + bytes) may not be touched.
PACELINE_MATH void check_extent([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  if (const void* bad = __asan_region_is_poisoned(const_cast<void*>(data), bytes))
    static_cast<void>(*static_cast<const volatile char*>(bad));
#endif
}

/// Nobody may touch [data, data + bytes) until permit_extent.
PACELINE_MATH void forbid_extent([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(data, bytes);
#endif
}
PACELINE_MATH void permit_extent([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(data, bytes);
#endif
}

}  // namespace paceline
