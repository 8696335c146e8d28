#pragma once
// Fork-join workers of one CPU device.
//
// A job is a count of tasks that threads claim from one atomic word (epoch, tasks left). The caller is worker 0,
// claims too, and waits for finished *tasks*, not for workers: a worker that sleeps or is descheduled delays
// nobody. Claims are guided: three quarters of a fair share of what is left, so that streams are long and a disturbed
// core is balanced by the others. Which worker runs a task is not fixed; results must not depend on it (tasks write
// disjoint outputs).
//
// Threads: parallel_for() is called by one thread at a time and is not reentrant. Tasks must not throw.

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace paceline {

class ThreadPool {
 public:
  /// num_threads >= 1 counts the caller. With may_spin, waits spin up to 50 µs before they sleep; without, they
  /// sleep at once.
  explicit ThreadPool(int num_threads, bool may_spin = true);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return int(threads_.size()) + 1; }

  /// Calls fn(begin, end, worker) until [0, num_tasks) is covered once; ranges hold min_grain tasks or more
  /// (the last one may be shorter). worker < num_threads() names scratch that no other running call uses.
  template <class Fn>
  void parallel_ranges(int64_t num_tasks, int64_t min_grain, Fn&& fn) {
    if (num_tasks <= 0) return;
    if (threads_.empty() || num_tasks <= min_grain) {
      fn(int64_t{0}, num_tasks, 0);
      return;
    }
    using Function = std::remove_reference_t<Fn>;
    run(num_tasks, min_grain, const_cast<void*>(static_cast<const void*>(&fn)),
        [](void* context, int64_t begin, int64_t end, int worker) {
          (*static_cast<Function*>(context))(begin, end, worker);
        });
  }

  /// Calls fn(task, worker) once for every task of [0, num_tasks).
  template <class Fn>
  void parallel_for(int64_t num_tasks, Fn&& fn) {
    parallel_ranges(num_tasks, 1, [&fn](int64_t begin, int64_t end, int worker) {
      for (int64_t task = begin; task < end; ++task) fn(task, worker);
    });
  }

  /// CPU seconds that all threads, the caller included, have spent spinning for work or for the join so far.
  /// Sleep in the kernel is not counted.
  double wait_seconds() const;

 private:
  using RunRange = void (*)(void* context, int64_t begin, int64_t end, int worker);

  struct Job {
    RunRange run = nullptr;
    void* context = nullptr;
    uint32_t num_tasks = 0;
  };
  struct alignas(64) WaitClock {
    std::atomic<int64_t> nanoseconds{0};
  };

  void run(int64_t num_tasks, int64_t min_grain, void* context, RunRange run_range);
  void work(uint32_t epoch, int worker);
  void worker_main(int worker);

  const bool may_spin_;
  alignas(64) std::atomic<uint64_t> claim_{0};     // epoch << 32 | tasks left
  alignas(64) std::atomic<uint32_t> epoch_{0};     // sleepers wait on it
  alignas(64) std::atomic<uint32_t> num_done_{0};  // finished tasks of the running job
  alignas(64) std::atomic<uint32_t> stop_{0};
  std::atomic<uint32_t> min_grain_{1};  // read before a claim: a stale value makes no wrong claim
  Job job_;                             // read only after a successful claim of its epoch
  uint32_t caller_epoch_ = 0;
  std::unique_ptr<WaitClock[]> waited_;  // [num_threads]
  std::vector<std::thread> threads_;
};

}  // namespace paceline
