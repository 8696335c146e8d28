#include "engine/comm/activity_log.h"

#include <thread>

#include <gtest/gtest.h>

#include "engine/comm/work_scope.h"

namespace paceline {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

Activity activity(int number) {
  const Clock::time_point at = Clock::now() + milliseconds(number);
  return {.start = at, .end = at + microseconds(500), .pass = uint32_t(number)};
}

TEST(ActivityLog, KeepsTheLastRecordsInOrder) {
  for (const int count : {0, 1, 3, 4, 5, 8, 9, 103}) {
    ActivityLog log;
    log.start(4);
    Clock::time_point last_lost = log.complete_from();
    for (int i = 1; i <= count; ++i) {
      const Activity each = activity(i);
      if (i == count - 4) last_lost = each.end;
      log.add(each);
    }
    const std::vector<Activity> records = log.records();
    ASSERT_EQ(records.size(), size_t(std::min(count, 4))) << count;
    for (size_t i = 0; i < records.size(); ++i)
      EXPECT_EQ(int(records[i].pass), count - int(records.size()) + 1 + int(i)) << count;
    EXPECT_EQ(log.complete_from(), last_lost) << count;
  }
}

TEST(ActivityLog, RecordsBetweenStartAndStopOnly) {
  ActivityLog log;
  log.add(activity(1));
  EXPECT_TRUE(log.records().empty());
  log.start(4);
  log.add(activity(2));
  log.stop();
  log.add(activity(3));
  ASSERT_EQ(log.records().size(), 1u);
  EXPECT_EQ(log.records().front().pass, 2u);
  log.start(4);
  EXPECT_TRUE(log.records().empty());
}

TEST(ActivityLog, LeavesShortWaitsOut) {
  ActivityLog log;
  log.start(4);
  const auto at = Clock::now();
  log.add_wait(ActivityKind::wait_peers, at, at + ActivityLog::kShortestWait / 2);
  EXPECT_TRUE(log.records().empty());
  log.add_wait(ActivityKind::wait_peers, at, at + ActivityLog::kShortestWait);
  EXPECT_EQ(log.records().size(), 1u);
}

// Each rank's record has its own work and, within it, its own waits, on one axis.
TEST(ActivityLog, RanksRecordTheirWorkAndWhatTheyWaitFor) {
  RankTeam team({.placement = {.tp = 2, .pp = 2}, .threads_per_rank = 1, .timeout_s = 20});
  constexpr auto kLate = milliseconds(40);
  const auto work = [&](Rank& rank) {
    const WorkScope scope(rank, WorkKind::target, 7);
    float x = 1;
    if (rank.stage == 1) rank.world->recv(f32_view(&x, 1, 1), rank.index - 2);
    if (rank.stage == 0 && rank.shard == 0) std::this_thread::sleep_for(kLate);
    rank.shards->all_reduce(f32_view(&x, 1, 1));
    if (rank.stage == 0) rank.world->send(f32_view(&x, 1, 1), rank.index + 2);
  };
  team.run_on_all(work);  // not recorded
  team.run_on_all([](Rank& rank) { rank.activity.start(16); });
  const auto begin = Clock::now();
  team.run_on_all(work);
  const auto end = Clock::now();
  for (int index = 0; index < 4; ++index) {
    SCOPED_TRACE(index);
    const std::vector<Activity> records = team.rank(index).activity.records();
    ASSERT_FALSE(records.empty());
    const Activity& pass = records.back();  // ends last
    EXPECT_EQ(pass.kind, ActivityKind::pass);
    EXPECT_EQ(pass.pass, 7u);
    EXPECT_GE(pass.start, begin);
    EXPECT_LE(pass.end, end);
    Clock::duration for_stage{}, for_peers{};
    for (size_t i = 0; i + 1 < records.size(); ++i) {
      EXPECT_GE(records[i].start, pass.start);
      EXPECT_LE(records[i].end, pass.end);
      (records[i].kind == ActivityKind::wait_stage ? for_stage : for_peers) += records[i].end - records[i].start;
    }
    if (index == 1) {
      EXPECT_GE(for_peers, kLate / 2);
    }
    if (index >= 2) {
      EXPECT_GE(for_stage, kLate / 2);
    }
    if (index < 2) {
      EXPECT_EQ(for_stage, Clock::duration::zero());
    }
  }
}

}  // namespace
}  // namespace paceline
