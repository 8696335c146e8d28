#pragma once
// What draws have left in host memory, until somebody reads it: a draw's kernel need not be waited for when it is
// launched.

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/cuda/draw.h"
#include "kernels/cuda/staging.h"

namespace paceline::cuda {

/// Used on the thread of its backend, with the backend's device current.
class DrawResults {
 public:
  /// Takes the results of one call.
  using Reader = std::function<void(std::span<const DrawResult>)>;
  /// Where a call's rows go, and what it writes into each last.
  struct Call {
    DrawResult* result;
    uint32_t number;
  };

  /// Else read_all() comes before next().
  bool has_room(size_t count) const {
    return pending_.empty() || (used_ + count) * sizeof(DrawResult) <= memory_.bytes();
  }
  /// For `count` rows, which `reader` will get.
  Call next(size_t count, Reader reader) {
    if ((used_ + count) * sizeof(DrawResult) > memory_.bytes())
      memory_ = HostMemory(2 * std::max(count, kFewest) * sizeof(DrawResult));
    const Call call{memory_.as<DrawResult>() + used_, ++number_};
    pending_.push_back({call, count, std::move(reader)});
    used_ += count;
    return call;
  }
  /// Reads all calls, in their order. wait(done): until done(), or until all that was launched has ended, or throws;
  /// then those that are left are dropped.
  template <class Wait>
  void read_all(Wait&& wait) {
    used_ = 0;
    for (const Pending& pending : std::exchange(pending_, {})) {
      for (size_t row = 0; row < pending.count; ++row)
        wait([&] {
          return std::atomic_ref(pending.call.result[row].call).load(std::memory_order_acquire) == pending.call.number;
        });
      pending.reader({pending.call.result, pending.count});
    }
  }

 private:
  static constexpr size_t kFewest = size_t{32} << 10;
  struct Pending {
    Call call;
    size_t count;
    Reader reader;
  };

  HostMemory memory_;  // nobody writes it any more when it is replaced
  size_t used_ = 0;    // rows, of calls not read
  uint32_t number_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace paceline::cuda
