#pragma once
// What this process may use and what it uses.

#include <cstddef>

namespace paceline {

/// The smallest of the cgroup's memory limits (v2 and v1) and physical memory.
size_t memory_limit_bytes();

/// What programs can still take of physical memory (MemAvailable), at most the limit; the limit where the kernel does
/// not say.
size_t available_memory_bytes();

struct ProcessMemory {
  size_t resident_bytes = 0;       // VmRSS
  size_t peak_resident_bytes = 0;  // VmHWM
};
/// Of this process, or of that with the number `pid`; zeros once it has ended.
ProcessMemory process_memory(int pid = 0);

/// CPU seconds that all threads of this process have used so far, in user and kernel mode.
double process_cpu_seconds();

/// Asks the kernel to run the calling thread as soon as it wakes, for a short time, beside threads that compute: a
/// slice of 0.1 ms of Linux's EEVDF scheduler (6.12). Needs no privilege; kernels without it go on as before.
void ask_for_short_slices();

}  // namespace paceline
