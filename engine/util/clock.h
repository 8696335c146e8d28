#pragma once
// The clock of all host times, and the one on the wall for stamps that people read.

#include <chrono>
#include <string>

namespace paceline {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}
inline double seconds_since(Clock::time_point start) { return seconds_between(start, Clock::now()); }

/// CPU seconds of the calling thread: what it has taken, however many others were waiting for the same cores.
double thread_cpu_seconds();

/// Now in UTC, "2026-11-21T09:30:12Z".
std::string utc_now();

}  // namespace paceline
