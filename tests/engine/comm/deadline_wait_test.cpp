#include "engine/comm/deadline_wait.h"

#include <thread>

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Clock = std::chrono::steady_clock;

WaitOptions within(std::chrono::milliseconds time, bool may_spin) { return {Clock::now() + time, may_spin}; }

class WaitCounterTest : public testing::TestWithParam<bool> {};  // may_spin

TEST_P(WaitCounterTest, ReturnsAtOnceWhenReached) {
  WaitCounter counter;
  const std::atomic<bool> cancelled{false};
  EXPECT_EQ(counter.wait_for(0, within(std::chrono::milliseconds(0), GetParam()), cancelled), WaitResult::reached);
  counter.advance_to(7);
  EXPECT_EQ(counter.wait_for(5, within(std::chrono::milliseconds(0), GetParam()), cancelled), WaitResult::reached);
  EXPECT_EQ(counter.value(), 7u);
}

TEST_P(WaitCounterTest, TimesOut) {
  WaitCounter counter;
  const std::atomic<bool> cancelled{false};
  const auto start = Clock::now();
  EXPECT_EQ(counter.wait_for(1, within(std::chrono::milliseconds(70), GetParam()), cancelled), WaitResult::timed_out);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(70));
}

TEST_P(WaitCounterTest, CancelWakesASleeper) {
  WaitCounter counter;
  std::atomic<bool> cancelled{false};
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cancelled.store(true, std::memory_order_release);
  });
  const auto start = Clock::now();
  EXPECT_EQ(counter.wait_for(1, within(std::chrono::seconds(20), GetParam()), cancelled), WaitResult::cancelled);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  canceller.join();
}

TEST_P(WaitCounterTest, ReachedWinsOverCancelled) {
  WaitCounter counter;
  const std::atomic<bool> cancelled{true};
  counter.advance_to(3);
  EXPECT_EQ(counter.wait_for(3, within(std::chrono::milliseconds(0), GetParam()), cancelled), WaitResult::reached);
}

// The counter passes 2^32: "reached" is a signed distance, and what was written before is visible.
TEST_P(WaitCounterTest, WrapsAroundAndPublishes) {
  WaitCounter counter;
  const uint32_t start = 0xfffffff0u;
  counter.advance_to(start);
  const std::atomic<bool> cancelled{false};
  WaitCounter turn;
  uint32_t message = 0;
  constexpr uint32_t kRounds = 2000;
  std::thread writer([&] {
    for (uint32_t i = 1; i <= kRounds; ++i) {
      message = i * 3;
      counter.advance_to(start + i);
      ASSERT_EQ(turn.wait_for(i, within(std::chrono::seconds(20), GetParam()), cancelled), WaitResult::reached);
    }
  });
  for (uint32_t i = 1; i <= kRounds; ++i) {
    ASSERT_EQ(counter.wait_for(start + i, within(std::chrono::seconds(20), GetParam()), cancelled),
              WaitResult::reached);
    ASSERT_EQ(message, i * 3);
    turn.advance_to(i);
  }
  writer.join();
}

TEST_P(WaitCounterTest, WakesManySleepers) {
  WaitCounter counter;
  const std::atomic<bool> cancelled{false};
  std::atomic<int> reached{0};
  std::vector<std::thread> sleepers;
  for (uint32_t i = 1; i <= 6; ++i) {
    sleepers.emplace_back([&, i] {
      if (counter.wait_for(i, within(std::chrono::seconds(20), GetParam()), cancelled) == WaitResult::reached)
        ++reached;
    });
  }
  for (uint32_t i = 1; i <= 6; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    counter.advance_to(i);
  }
  for (auto& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(reached, 6);
}

INSTANTIATE_TEST_SUITE_P(Spin, WaitCounterTest, testing::Bool());

}  // namespace
}  // namespace paceline
