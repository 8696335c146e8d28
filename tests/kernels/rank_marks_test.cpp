#include "kernels/rank_marks.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Time = RankMarks::Time;

Time at(int seconds) { return Time(std::chrono::seconds(seconds)); }

TEST(RankMarks, ARankAtWorkHasItsOwnMark) {
  RankMarks marks(3);
  EXPECT_EQ(marks.newest(1), Time{});
  const Time before = marks.now();
  marks.mark(1);
  EXPECT_GE(marks.newest(1), before);
  EXPECT_EQ(marks.newest(0), Time{});
  EXPECT_EQ(marks.newest(), marks.newest(1));
}

TEST(RankMarks, AChainHasTheNewestOfItsMarks) {
  RankMarks marks(4);
  marks.end_wait(0, at(50));  // at work
  marks.begin_wait(1, 0, at(20));
  marks.begin_wait(2, 1, at(30));
  EXPECT_EQ(marks.newest(2), at(50));
  EXPECT_EQ(marks.newest(1), at(50));
  EXPECT_EQ(marks.newest(3), Time{});
  marks.end_wait(1, at(60));  // what it waited for has come: it is at work itself
  EXPECT_EQ(marks.newest(2), at(60));
  EXPECT_EQ(marks.newest(0), at(50));
  marks.begin_wait(3, RankMarks::kAnybody, at(10));
  EXPECT_EQ(marks.newest(3), at(60));
}

TEST(RankMarks, LookingAndWaitingMakeNoMarksInACircle) {
  RankMarks marks(4);
  marks.begin_wait(0, 1, at(11));
  marks.begin_wait(1, 2, at(12));
  marks.begin_wait(2, 0, at(13));
  marks.begin_wait(3, 0, at(5));  // leads into it
  for (int look = 0; look < 3; ++look)
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(marks.newest(rank), at(13)) << rank;
  const std::string story = marks.story(3, 0.5);
  EXPECT_TRUE(
      story.starts_with("rank 3, which waits for rank 0, which waits for rank 1, which waits for rank 2, which "
                        "waits for rank 0; they wait for each other: no mark for 0.5 s"))
      << story;
}

TEST(RankMarks, TheStoryNamesTheLastOfTheChainAndItsPlace) {
  RankMarks marks(3);
  EXPECT_EQ(marks.place(0), "before its first step");
  marks.mark(0, {.step = 7});
  EXPECT_EQ(marks.place(0), "step 7");
  marks.mark(0, {.step = uint64_t{1} << 40, .layer = 0});
  EXPECT_EQ(marks.place(0), "step 1099511627776, layer 0");
  marks.mark(0, {.step = 12, .layer = RankPlace::kHead, .is_draft = true});
  EXPECT_EQ(marks.place(0), "pass 12 of the draft model, head");
  marks.mark(0, {.step = 7, .layer = 3});
  marks.mark(0);  // a job: the place stays
  marks.begin_wait(1, 0, at(1));
  EXPECT_EQ(marks.story(1, 60),
            "rank 1, which waits for rank 0; rank 0 has made no mark for 60 s, since step 7, layer 3: it is dead or "
            "hangs, or a layer takes longer than engine.parallel.timeout_s");
  EXPECT_EQ(marks.places(), "rank 0: step 7, layer 3; rank 1: before its first step; rank 2: before its first step");
}

}  // namespace
}  // namespace paceline
