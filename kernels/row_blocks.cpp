#include "kernels/row_blocks.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/cpu/cores.h"

namespace paceline {
namespace {

constexpr int64_t kElementsPerThread = int64_t{1} << 18;  // below, starting a thread costs more than it gives
constexpr int64_t kElementsOfPool = int64_t{1} << 14;     // likewise, handing some to a thread that is there

/// A body that keeps the first error for the caller.
class Guarded {
 public:
  explicit Guarded(const std::function<void(int64_t, int64_t)>& body) : body_(body) {}

  void operator()(int64_t begin, int64_t end) {
    try {
      body_(begin, end);
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const std::function<void(int64_t, int64_t)>& body_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

void for_row_blocks(int64_t num_rows, int64_t num_cols, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t wanted = num_rows * num_cols / kElementsPerThread;
  const int64_t num_threads =
      std::clamp<int64_t>(std::min<int64_t>(wanted, usable_cores()), 1, std::max<int64_t>(num_rows, 1));
  Guarded guarded(body);
  const auto run = [&](int64_t index) {
    guarded(num_rows * index / num_threads, num_rows * (index + 1) / num_threads);
  };
  std::vector<std::jthread> threads;
  for (int64_t index = 1; index < num_threads; ++index) threads.emplace_back(run, index);
  run(0);
  threads.clear();  // joins
  guarded.rethrow();
}

void for_row_blocks(ThreadPool* pool, int64_t num_rows, int64_t num_cols,
                    const std::function<void(int64_t, int64_t)>& body) {
  if (!pool) return for_row_blocks(num_rows, num_cols, body);
  Guarded guarded(body);
  pool->parallel_ranges(num_rows, 1 + kElementsOfPool / std::max<int64_t>(1, num_cols),
                        [&](int64_t begin, int64_t end, int) { guarded(begin, end); });
  guarded.rethrow();
}

}  // namespace paceline
