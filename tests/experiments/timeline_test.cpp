#include <gtest/gtest.h>

#include "experiments/run/measure/recorders.h"

namespace paceline {
namespace {

std::vector<TimelinePoint> after(int steps) {
  Timeline timeline;
  for (int i = 0; i < steps; ++i) timeline.add({.time_ms = i + 0.5, .requests = i});
  return timeline.take();
}

TEST(Timeline, KeepsAllOfFewSteps) {
  EXPECT_TRUE(after(0).empty());
  for (int steps : {1, 2, 100, int(kMaxTimelinePoints) - 1}) {
    const auto points = after(steps);
    ASSERT_EQ(points.size(), size_t(steps));
    for (int i = 0; i < steps; ++i) EXPECT_EQ(points[size_t(i)].requests, i);
  }
}

TEST(Timeline, ManyStepsAreThinnedEvenlyAndTheLastOneStays) {
  for (int steps : {256, 257, 511, 512, 513, 1000, 4096, 100'003}) {
    const auto points = after(steps);
    EXPECT_LE(points.size(), kMaxTimelinePoints) << steps;
    EXPECT_GE(points.size(), kMaxTimelinePoints / 2 - 1) << steps;
    EXPECT_EQ(points.front().requests, 0);
    EXPECT_EQ(points.back().requests, steps - 1);
    const int stride = points[1].requests - points[0].requests;
    for (size_t i = 1; i + 1 < points.size(); ++i)
      ASSERT_EQ(points[i].requests - points[i - 1].requests, stride) << steps << " at " << i;
    EXPECT_LE(points.back().requests - points[points.size() - 2].requests, stride) << steps;
  }
}

TEST(Timeline, StartsAnewAfterItWasTaken) {
  Timeline timeline;
  for (int i = 0; i < 5000; ++i) timeline.add({.time_ms = double(i)});
  timeline.take();
  timeline.add({.time_ms = 1});
  timeline.add({.time_ms = 2});
  EXPECT_EQ(timeline.take().size(), 2u);
}

}  // namespace
}  // namespace paceline
