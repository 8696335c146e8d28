#include "experiments/run/timeline.h"

#include <utility>

namespace paceline {

void Timeline::add(const TimelinePoint& point) {
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

std::vector<TimelinePoint> Timeline::take() {
  if (!points_.empty() && points_.back().time_ms != last_.time_ms) points_.push_back(last_);
  count_ = 0;
  stride_ = 1;
  return std::exchange(points_, {});
}

}  // namespace paceline
