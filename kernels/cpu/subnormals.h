#pragma once
// Subnormal numbers as zeros, in and out, as bfloat16 dot products of the hardware have it.

#include <cstdint>

#include "kernels/math/elementary.h"

namespace paceline {

/// The thread's arithmetic takes and leaves zeros for subnormals while this lives. The compiler does not know: pin
/// what must be computed inside.
class FlushSubnormals {
 public:
#if defined(__x86_64__)
  PACELINE_MATH FlushSubnormals() {
    asm volatile("stmxcsr %0" : "=m"(before_));
    const uint32_t flushing = before_ | 0x8040u;  // FTZ, DAZ
    asm volatile("ldmxcsr %0" : : "m"(flushing));
  }
  PACELINE_MATH ~FlushSubnormals() { asm volatile("ldmxcsr %0" : : "m"(before_)); }

 private:
  uint32_t before_ = 0;
#elif defined(__aarch64__)
  PACELINE_MATH FlushSubnormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" : : "r"(before_ | uint64_t{1} << 24));  // FZ
  }
  PACELINE_MATH ~FlushSubnormals() { asm volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  uint64_t before_ = 0;
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
};

}  // namespace paceline
