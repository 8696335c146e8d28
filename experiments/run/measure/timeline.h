#pragma once
// A repetition's state over time in bounded memory.

#include <vector>

#include "experiments/results/results.h"

namespace paceline {

/// Keeps at most kMaxTimelinePoints of any number of points, evenly spaced over the steps: every first, then every
/// second, every fourth … one. Memory is taken once, when it is built.
class Timeline {
 public:
  Timeline() { points_.reserve(kMaxTimelinePoints); }

  /// The state after a step; times rise.
  void add(const TimelinePoint& point);
  /// The kept points and the last one. The timeline is empty then.
  std::vector<TimelinePoint> take();

 private:
  std::vector<TimelinePoint> points_;
  TimelinePoint last_;
  int64_t count_ = 0, stride_ = 1;
};

}  // namespace paceline
