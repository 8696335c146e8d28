#include "engine/comm/deadline_wait.h"

#include <algorithm>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "engine/util/clock.h"

namespace paceline {
namespace {

constexpr auto kWaitSpinTime = std::chrono::microseconds(50);
constexpr auto kWaitSleepSlice = std::chrono::milliseconds(20);

void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

long futex(std::atomic<uint32_t>* word, int op, uint32_t value, const timespec* timeout) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), op, value, timeout, nullptr, 0);
}

}  // namespace

void WaitCounter::advance_to(uint32_t value) noexcept {
  value_.store(value, std::memory_order_seq_cst);
  if (num_sleepers_.load(std::memory_order_seq_cst) > 0) futex(&value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
}

WaitResult WaitCounter::wait_for(uint32_t target, const WaitOptions& options,
                                 const std::atomic<bool>& cancelled) const {
  if (reached(target)) return WaitResult::reached;
  if (options.may_spin) {
    const auto spin_end = Clock::now() + kWaitSpinTime;
    do {
      for (int i = 0; i < 64; ++i) {
        if (reached(target)) return WaitResult::reached;
        cpu_relax();
      }
    } while (Clock::now() < spin_end);
  }
  for (;;) {
    if (reached(target)) return WaitResult::reached;
    if (cancelled.load(std::memory_order_acquire)) return WaitResult::cancelled;
    const auto left = options.deadline - Clock::now();
    if (left <= Clock::duration::zero()) return WaitResult::timed_out;
    const auto slice = std::min<Clock::duration>(left, kWaitSleepSlice);
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(slice).count();
    const timespec timeout{time_t(ns / 1'000'000'000), long(ns % 1'000'000'000)};
    num_sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = value_.load(std::memory_order_seq_cst);
    if (int32_t(seen - target) < 0) futex(&value_, FUTEX_WAIT_PRIVATE, seen, &timeout);
    num_sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

}  // namespace paceline
