#pragma once
// Waiting for a counter of another thread, with a deadline: spin shortly, then sleep in the kernel.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace paceline {

struct WaitOptions {
  std::chrono::steady_clock::time_point deadline;
  bool may_spin = true;
};

enum class WaitResult : uint8_t { reached, timed_out, cancelled };

/// A counter that only grows. One thread advances it, any thread waits for a value.
class WaitCounter {
 public:
  uint32_t value() const noexcept { return value_.load(std::memory_order_acquire); }
  /// value() >= target, wrap-around safe.
  bool reached(uint32_t target) const noexcept { return int32_t(value() - target) >= 0; }

  /// Publishes everything written before; wakes the waiters.
  void advance_to(uint32_t value) noexcept;

  /// Returns when reached(target), the deadline has passed, or `cancelled` is set; a
  /// sleeping waiter looks at `cancelled` at least every 20 ms.
  WaitResult wait_for(uint32_t target, const WaitOptions& options, const std::atomic<bool>& cancelled) const;

 private:
  alignas(64) mutable std::atomic<uint32_t> value_{0};
  mutable std::atomic<uint32_t> num_sleepers_{0};
};

}  // namespace paceline
