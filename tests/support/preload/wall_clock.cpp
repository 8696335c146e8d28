// Preloaded into a program by tests: its wall clock is wrong, its monotonic clock is not. PACELINE_WALL_CLOCK is a
// number of seconds to add, or "jumping": an hour ahead and an hour behind by turns, changing with every look.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

long shift_s() {
  static std::atomic<long> looks{0};
  const char* const asked = std::getenv("PACELINE_WALL_CLOCK");
  if (!asked) return 0;
  if (std::strcmp(asked, "jumping") == 0) return looks++ % 2 == 0 ? 3600 : -3600;
  return std::atol(asked);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, out);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) out->tv_sec += shift_s();
  return int(result);
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* out, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *out = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}
}
