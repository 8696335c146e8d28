#include "kernels/awake_clock.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Time = AwakeClock::Time;
using std::chrono::milliseconds;

TEST(AwakeClock, RunsWithTheSteadyOneWhileSomebodyLooks) {
  AwakeClock clock;
  Time time(std::chrono::hours(5));
  for (int look = 0; look < 100; ++look) {
    EXPECT_EQ(clock.at(time), time);
    time += milliseconds(look % 2 ? 999 : 0);
  }
}

TEST(AwakeClock, LeavesOutWhatNobodySaw) {
  AwakeClock clock;
  const Time start(std::chrono::hours(5));
  clock.at(start);
  EXPECT_EQ(clock.at(start + milliseconds(64000)), start);
  EXPECT_EQ(clock.at(start + milliseconds(64100)), start + milliseconds(100));
  EXPECT_EQ(clock.at(start + milliseconds(70000)), start + milliseconds(100));
}

// All wake at once from a pause: none of them sees it.
TEST(AwakeClock, ManyThreadsFindOneGap) {
  for (int round = 0; round < 50; ++round) {
    AwakeClock clock;
    const Time start(std::chrono::hours(5));
    clock.at(start);
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        for (++ready; ready < 8;) std::this_thread::yield();
        const Time seen = clock.at(start + milliseconds(64000 + i));
        EXPECT_LE(seen, start + milliseconds(8)) << i;
        EXPECT_GE(seen, start - milliseconds(8)) << i;
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(clock.at(start + milliseconds(64500)), start + milliseconds(500));
    EXPECT_GE(clock.at(start + milliseconds(64600)), start + milliseconds(590));
  }
}

}  // namespace
}  // namespace paceline
