#pragma once
// Records what the ranks do over the last passes before the middle of a repetition, where the engine is as full as it
// gets: the end of a repetition drains.

#include "engine/comm/rank_team.h"
#include "experiments/results/rank_lanes.h"

namespace paceline {

/// The window holds so many passes of the target, fewer where they are made of more pieces than a lane file holds.
inline constexpr uint32_t kMostRecordedPasses = 48;
inline constexpr size_t kMostRecordedActivities = 3072;  // of all ranks

/// One recording on a team whose streams are drained when it begins and when it is taken.
class RankRecorder {
 public:
  explicit RankRecorder(RankTeam& team);
  /// Behind what has been launched so far. Once is enough; without it the recording lasts until take().
  void stop();
  bool is_stopped() const { return is_stopped_; }
  /// The window: from the beginning of its first pass to where the first rank's record ends. Nothing where no pass
  /// was recorded.
  RankLanes take();

 private:
  RankTeam& team_;
  bool is_stopped_ = false;
};

}  // namespace paceline
