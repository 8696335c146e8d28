#pragma once
// Pictures of a repetition in bounded memory: its state over time, and what the ranks do over the last passes before
// its middle, where the engine is as full as it gets: the end of a repetition drains.

#include <vector>

#include "engine/comm/rank_team.h"
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

/// The window holds so many passes of the target, fewer where they are made of more pieces than a lane file holds.
inline constexpr uint32_t kMostRecordedPasses = 48;
inline constexpr size_t kMostRecordedActivities = 3072;  // of all ranks

/// One recording on a team whose streams are drained when it begins and when it is taken.
class RankRecorder {
 public:
  explicit RankRecorder(RankTeam& team);
  /// Behind what has been launched so far. Once is enough; without it the recording lasts until take().
  void stop();
  /// The window: from the beginning of its first pass to where the first rank's record ends. Nothing where no pass
  /// was recorded.
  RankLanes take();

 private:
  RankTeam& team_;
  bool is_stopped_ = false;
};

}  // namespace paceline
