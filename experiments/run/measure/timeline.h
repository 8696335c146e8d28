#pragma once
// A repetition's state over time in bounded memory.

#include <cmath>
#include <utility>
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

inline void Timeline::add(const TimelinePoint& point) {
  last_ = point;
  if (count_++ % stride_ != 0) return;
  // One place is left for the last point.
  if (points_.size() + 1 == kMaxTimelinePoints) {
    size_t kept = 0;
    for (size_t i = 0; i < points_.size(); i += 2) points_[kept++] = points_[i];
    points_.resize(kept);
    stride_ *= 2;
    if ((count_ - 1) % stride_ != 0) return;
  }
  points_.push_back(point);
}

inline std::vector<TimelinePoint> Timeline::take() {
  if (!points_.empty() && points_.back().time_ms != last_.time_ms) points_.push_back(last_);
  // Microseconds are what the files keep; a report made from them is then the same.
  const auto microseconds = [](double ms) { return std::round(ms * 1e3) / 1e3; };
  for (TimelinePoint& point : points_) {
    point.time_ms = microseconds(point.time_ms);
    point.bubble_ms = microseconds(point.bubble_ms);
  }
  count_ = 0;
  stride_ = 1;
  return std::exchange(points_, {});
}

}  // namespace paceline
