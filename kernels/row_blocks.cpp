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

}  // namespace

void for_row_blocks(int64_t num_rows, int64_t num_cols, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t wanted = num_rows * num_cols / kElementsPerThread;
  const int64_t num_threads =
      std::clamp<int64_t>(std::min<int64_t>(wanted, usable_cores()), 1, std::max<int64_t>(num_rows, 1));
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&](int64_t index) {
    try {
      body(num_rows * index / num_threads, num_rows * (index + 1) / num_threads);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  std::vector<std::jthread> threads;
  for (int64_t index = 1; index < num_threads; ++index) threads.emplace_back(run, index);
  run(0);
  threads.clear();  // joins
  if (error) std::rethrow_exception(error);
}

}  // namespace paceline
