#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <chrono>

#include "kernels/error.h"
#include "kernels/thread_name.h"

namespace paceline {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kSpinNanoseconds = 50'000;
constexpr int kPausesPerClockRead = 32;

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until done() or the time is over; returns done().
template <class Done>
bool spin_until(Done&& done, std::atomic<int64_t>& waited_ns) {
  if (done()) return true;
  const auto begin = Clock::now();
  bool seen = false;
  int64_t elapsed_ns = 0;
  while (!seen && elapsed_ns < kSpinNanoseconds) {
    for (int i = 0; i < kPausesPerClockRead && !seen; ++i) {
      pause_cpu();
      seen = done();
    }
    elapsed_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
  }
  waited_ns.store(waited_ns.load(std::memory_order_relaxed) + elapsed_ns, std::memory_order_relaxed);
  return seen;
}

}  // namespace

ThreadPool::ThreadPool(int num_threads, bool may_spin) : may_spin_(may_spin) {
  PACELINE_CHECK(num_threads >= 1 && num_threads <= 4096, "num_threads {}", num_threads);
  waited_ = std::make_unique<WaitClock[]>(size_t(num_threads));
  for (int worker = 1; worker < num_threads; ++worker) threads_.emplace_back([this, worker] { worker_main(worker); });
}

ThreadPool::~ThreadPool() {
  stop_.store(1, std::memory_order_relaxed);
  claim_.store(uint64_t{caller_epoch_ + 1} << 32, std::memory_order_release);
  epoch_.store(caller_epoch_ + 1);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(int64_t num_tasks, int64_t min_grain, void* context, RunRange run_range) {
  PACELINE_CHECK(num_tasks < (int64_t{1} << 31), "num_tasks {}", num_tasks);
  job_ = Job{.run = run_range, .context = context, .num_tasks = uint32_t(num_tasks)};
  min_grain_.store(uint32_t(std::max<int64_t>(1, min_grain)), std::memory_order_relaxed);
  num_done_.store(0, std::memory_order_relaxed);
  const uint32_t epoch = ++caller_epoch_;
  claim_.store(uint64_t{epoch} << 32 | uint64_t(num_tasks), std::memory_order_release);
  epoch_.store(epoch);
  epoch_.notify_all();  // no system call when nobody sleeps
  work(epoch, 0);
  const auto joined = [&] { return num_done_.load(std::memory_order_acquire) == uint32_t(num_tasks); };
  if (may_spin_ && spin_until(joined, waited_[0].nanoseconds)) return;
  for (uint32_t done = num_done_.load(std::memory_order_acquire); done != uint32_t(num_tasks);
       done = num_done_.load(std::memory_order_acquire))
    num_done_.wait(done, std::memory_order_acquire);
}

void ThreadPool::work(uint32_t epoch, int worker) {
  uint32_t num_run = 0, num_tasks = 0;
  uint64_t claim = claim_.load(std::memory_order_acquire);
  while (true) {
    const uint32_t left = uint32_t(claim);
    if (uint32_t(claim >> 32) != epoch || left == 0) break;
    const uint32_t share = left * 3 / uint32_t(4 * num_threads());
    const uint32_t take = std::min(left, std::max(share, min_grain_.load(std::memory_order_relaxed)));
    if (!claim_.compare_exchange_weak(claim, claim - take, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    num_tasks = job_.num_tasks;
    job_.run(job_.context, num_tasks - left, num_tasks - left + take, worker);
    num_run += take;
    claim = claim_.load(std::memory_order_acquire);
  }
  if (num_run == 0) return;
  const uint32_t before = num_done_.fetch_add(num_run, std::memory_order_acq_rel);
  if (worker != 0 && before + num_run == num_tasks) num_done_.notify_one();
}

void ThreadPool::worker_main(int worker) {
  name_this_thread("pool");
  uint32_t seen = 0;
  while (true) {
    const auto forked = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (!may_spin_ || !spin_until(forked, waited_[worker].nanoseconds)) epoch_.wait(seen);
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed) != 0) return;
    work(seen, worker);
  }
}

double ThreadPool::wait_seconds() const {
  int64_t sum_ns = 0;
  for (int worker = 0; worker < num_threads(); ++worker)
    sum_ns += waited_[worker].nanoseconds.load(std::memory_order_relaxed);
  return double(sum_ns) * 1e-9;
}

}  // namespace paceline
