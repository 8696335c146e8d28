#pragma once
// Places at which a test makes something fail that seldom does: a system call, an allocation on another thread's
// behalf, a step. In a program nobody has failpoints, and a passage is one comparison with null.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace paceline {

/// What fails there:
enum class Failpoint : uint8_t {
  accept,    // taking a connection (EMFILE, ECONNABORTED)
  read,      // reading from one (ECONNRESET)
  write,     // writing to one (EPIPE)
  wake,      // the memory for telling the HTTP thread that events have come
  tokenize,  // the memory for a request's text
  compile,   // the memory for a request's grammar
  step,      // the engine's step
};
inline constexpr std::array kFailpoints = {Failpoint::accept,   Failpoint::read,    Failpoint::write, Failpoint::wake,
                                           Failpoint::tokenize, Failpoint::compile, Failpoint::step};

/// Threads: any.
class Failpoints {
 public:
  /// The place fails once, at the passage behind `skipped` more.
  void arm(Failpoint at, int skipped = 0) { left_[size_t(at)].store(skipped + 1); }
  /// Asked at each passage.
  bool fires(Failpoint at) {
    std::atomic<int>& left = left_[size_t(at)];
    if (left.load(std::memory_order_relaxed) <= 0 || left.fetch_sub(1) != 1) return false;
    num_fired_[size_t(at)].fetch_add(1);
    return true;
  }
  int num_fired(Failpoint at) const { return num_fired_[size_t(at)].load(); }

 private:
  std::array<std::atomic<int>, kFailpoints.size()> left_{}, num_fired_{};
};

inline bool fails_at(const std::shared_ptr<Failpoints>& failpoints, Failpoint at) {
  return failpoints && failpoints->fires(at);
}

}  // namespace paceline
