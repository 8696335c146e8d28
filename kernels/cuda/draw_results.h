#pragma once
// What draws have left in host memory, until somebody reads it: a draw's kernel need not be waited for when it is
// launched.

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "kernels/cuda/draw.h"
#include "kernels/cuda/staging.h"

namespace paceline::cuda {

/// A ring of results. Used on the thread of its backend, with the backend's device current.
class DrawResults {
 public:
  /// Takes the results of one call.
  using Reader = std::function<void(std::span<const DrawResult>)>;
  /// Where a call's rows go, and what it writes into each last.
  struct Call {
    DrawResult* result;
    uint32_t mark;
  };

  uint64_t num_calls() const { return num_calls_; }
  /// Else all are read before next().
  bool has_room(size_t count) const { return unread_.empty() || place_of(count).has_value(); }
  /// For `count` rows, which `reader` will get.
  Call next(size_t count, Reader reader) {
    if (unread_.empty() && count > capacity())
      memory_ = HostMemory(2 * std::max(count, kFewest) * sizeof(DrawResult));  // nobody writes the old one any more
    const size_t first = unread_.empty() ? 0 : *place_of(count);
    end_ = first + count;
    unread_.push_back({.call = ++num_calls_, .first = first, .count = count, .reader = std::move(reader)});
    return {memory_.as<DrawResult>() + first, mark_of(num_calls_)};
  }
  /// Reads those of the first `calls` that nobody has read, in their order. wait(done): until done(), or until all that
  /// was launched has ended, or throws; then that call's are dropped.
  template <class Wait>
  void read(uint64_t calls, Wait&& wait) {
    while (!unread_.empty() && unread_.front().call <= calls) {
      const Unread oldest = std::move(unread_.front());
      unread_.pop_front();
      DrawResult* const result = memory_.as<DrawResult>() + oldest.first;
      for (size_t row = 0; row < oldest.count; ++row)
        wait([&] { return std::atomic_ref(result[row].call).load(std::memory_order_acquire) == mark_of(oldest.call); });
      oldest.reader({result, oldest.count});
    }
  }

 private:
  static constexpr size_t kFewest = size_t{32} << 10;
  static uint32_t mark_of(uint64_t call) { return uint32_t(call); }
  struct Unread {
    uint64_t call;
    size_t first, count;
    Reader reader;
  };
  size_t capacity() const { return memory_.bytes() / sizeof(DrawResult); }
  /// REQUIRES unread calls, whose results lie from the oldest's to end_, round the ring's end if need be.
  std::optional<size_t> place_of(size_t count) const {
    const size_t oldest = unread_.front().first;
    if (end_ > oldest) {
      if (end_ + count <= capacity()) return end_;
      return count <= oldest ? std::optional(size_t{0}) : std::nullopt;
    }
    return end_ + count <= oldest ? std::optional(end_) : std::nullopt;
  }

  HostMemory memory_;
  size_t end_ = 0;
  uint64_t num_calls_ = 0;
  std::deque<Unread> unread_;
};

}  // namespace paceline::cuda
