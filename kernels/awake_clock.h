#pragma once
// A clock that stands still while the whole process does: stopped by a signal, frozen with its container, or with its
// virtual machine. Who waits for another thread by it does not take such a pause for the other's silence.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace paceline {

/// It is looked at all the time by whoever waits, so time between two looks that are more than kMostBetweenLooks apart
/// was nobody's, and is left out: all of it, also where nobody waited. Any thread.
class AwakeClock {
 public:
  using Steady = std::chrono::steady_clock;
  using Time = Steady::time_point;  // never later than the steady clock's

  static constexpr std::chrono::milliseconds kMostBetweenLooks{1000};

  Time now() noexcept { return at(Steady::now()); }

  /// What it shows at `time` of the steady clock, which is now.
  Time at(Time time) noexcept {
    const int64_t ticks = time.time_since_epoch().count();
    int64_t last = last_look_.load(std::memory_order_acquire);
    if (last == 0 || is_between(ticks - last, kLeastNoted, kMostBetweenLooks))
      last_look_.compare_exchange_strong(last, ticks, std::memory_order_acq_rel);
    else if (ticks - last >= in_ticks(kMostBetweenLooks))
      leave_out(ticks);
    return Time(Steady::duration(ticks - left_out_.load(std::memory_order_relaxed)));
  }

 private:
  static constexpr std::chrono::milliseconds kLeastNoted{1};  // so that looks rarely write

  template <class Duration>
  static constexpr int64_t in_ticks(Duration duration) {
    return std::chrono::duration_cast<Steady::duration>(duration).count();
  }
  template <class Duration>
  static constexpr bool is_between(int64_t ticks, Duration least, Duration most) {
    return ticks >= in_ticks(least) && ticks < in_ticks(most);
  }

  /// Once for all who find the same gap: whoever sees its end in last_look_ also sees it in left_out_.
  void leave_out(int64_t ticks) noexcept {
    const std::lock_guard lock(mutex_);
    const int64_t gap = ticks - last_look_.load(std::memory_order_relaxed);
    if (gap < in_ticks(kMostBetweenLooks)) return;
    left_out_.fetch_add(gap, std::memory_order_relaxed);
    last_look_.store(ticks, std::memory_order_release);
  }

  std::atomic<int64_t> last_look_{0}, left_out_{0};  // ticks of the steady clock
  std::mutex mutex_;
};

}  // namespace paceline
