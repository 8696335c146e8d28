#include "kernels/cpu/thread_pool.h"

#include <chrono>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "kernels/cpu/cores.h"

namespace paceline {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const bool spin : {false, true})
    for (const int threads : {1, 2, 3, 5}) {
      ThreadPool pool(threads, spin);
      for (const int num_tasks : {0, 1, 2, 7, 1000})
        for (const int grain : {1, 3, 100}) {
          std::vector<int> runs(size_t(num_tasks), 0);
          std::vector<int> by_worker(size_t(threads), 0);  // a worker index is never used by two threads at once
          pool.parallel_ranges(num_tasks, grain, [&](int64_t begin, int64_t end, int worker) {
            for (int64_t task = begin; task < end; ++task) ++runs[size_t(task)], ++by_worker[size_t(worker)];
          });
          EXPECT_EQ(runs, std::vector<int>(size_t(num_tasks), 1));
          EXPECT_EQ(std::accumulate(by_worker.begin(), by_worker.end(), 0), num_tasks);
        }
    }
}

TEST(ThreadPool, ManyJobsInARowStaySeparate) {
  ThreadPool pool(3, true);
  std::vector<int64_t> sum(16, 0);
  for (int64_t job = 0; job < 20000; ++job)
    pool.parallel_for(int64_t(sum.size()), [&](int64_t task, int) { sum[size_t(task)] += job; });
  EXPECT_EQ(sum, std::vector<int64_t>(16, 20000 * 19999 / 2));
}

TEST(ThreadPool, WorkersWakeFromSleep) {
  ThreadPool pool(2, true);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far beyond the spin limit
    std::atomic<int> meet{0};
    // both tasks must run at the same time: each waits for the other
    pool.parallel_for(2, [&](int64_t, int) {
      ++meet;
      while (meet.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(meet.load(), 2);
  }
}

TEST(ThreadPool, CountsSpinningOnly) {
  ThreadPool sleeper(2, false);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(sleeper.wait_seconds(), 0.0);
  ThreadPool spinner(2, true);
  spinner.parallel_for(2, [](int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GT(spinner.wait_seconds(), 0.0);
  EXPECT_LT(spinner.wait_seconds(), 0.004) << "sleep was counted";
}

TEST(Cores, AtLeastOneAndNoMoreThanTheMachineHas) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), int(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace paceline
