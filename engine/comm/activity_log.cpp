#include "engine/comm/activity_log.h"

#include <algorithm>

#include "kernels/error.h"

namespace paceline {

void ActivityLog::start(size_t capacity) {
  PACELINE_CHECK(capacity >= 1, "capacity {}", capacity);
  ring_.assign(capacity, {});
  next_ = num_added_ = 0;
  complete_from_ = Clock::now();
  is_on_ = true;
}

std::vector<Activity> ActivityLog::records() const {
  std::vector<Activity> out;
  const size_t count = std::min(num_added_, ring_.size());
  out.reserve(count);
  const size_t oldest = num_added_ <= ring_.size() ? 0 : next_;
  for (size_t i = 0; i < count; ++i) out.push_back(ring_[(oldest + i) % ring_.size()]);
  return out;
}

}  // namespace paceline
