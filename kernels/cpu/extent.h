#pragma once
// Memory checks of the innermost loops. AddressSanitizer looks at every load, which makes a register tile twenty times
// slower; such a loop leaves the checks to its caller, who asks once for all that the loop will read.
// Includable from instruction-set-specific files.

#include <cstddef>

#include "kernels/math/elementary.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" void* __asan_region_is_poisoned(void* begin, size_t size);
#define PACELINE_CHECKED_BY_CALLER __attribute__((no_sanitize("address")))
#else
#define PACELINE_CHECKED_BY_CALLER
#endif

namespace paceline {

/// Under AddressSanitizer: stops with its report when a byte of [data, data + bytes) may not be read. Else nothing.
PACELINE_MATH void check_extent([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  if (const void* bad = __asan_region_is_poisoned(const_cast<void*>(data), bytes))
    static_cast<void>(*static_cast<const volatile char*>(bad));
#endif
}

}  // namespace paceline
