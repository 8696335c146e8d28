#include "kernels/cuda/unit_shares.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::cuda {
namespace {

/// Who took the stages of a unit, in order.
struct Taken {
  std::vector<int> team, stage;
};

/// Follows all teams; what each took, and how many stages.
struct Walked {
  std::vector<Taken> unit;
  std::vector<int> stages_of_team;
  int first_halves_not_first = 0, second_halves_not_last = 0;

  Walked(const UnitShares& shares, int units) : unit(size_t(units)), stages_of_team(size_t(shares.teams)) {
    for (int team = 0; team < shares.teams; ++team) {
      bool is_first = true;
      for (Walk walk(shares, team); walk.left > 0; is_first = false) {
        const int begin = walk.stage, stop = walk.stop;
        Taken& taken = unit.at(size_t(walk.unit));
        bool next = false;
        while (!next) {
          taken.team.push_back(team);
          taken.stage.push_back(walk.stage);
          ++stages_of_team[size_t(team)];
          next = walk.advance();
        }
        if (stop < shares.unit_stages && !is_first) ++first_halves_not_first;
        if (begin > 0 && walk.left > 0) ++second_halves_not_last;
      }
    }
  }
};

TEST(UnitShares, EveryStageIsTakenOnceAndInOrder) {
  for (const int teams : {1, 2, 3, 8, 100, 264})
    for (const int unit_stages : {1, 2, 3, 8, 14})
      for (const bool may_cut : {false, true})
        for (int units = 1; units <= 4 * teams + 3; units += teams < 10 ? 1 : 13) {
          const UnitShares shares = UnitShares::of(units, unit_stages, teams, may_cut);
          const Walked walked(shares, units);
          for (const Taken& taken : walked.unit) {
            ASSERT_EQ(int(taken.stage.size()), unit_stages) << teams << " teams, " << units << " units";
            for (int stage = 0; stage < unit_stages; ++stage) ASSERT_EQ(taken.stage[size_t(stage)], stage);
            // one team, or two of which the second finds the first's sums by its number
            const int half = unit_stages / 2, first = taken.team.front(), last = taken.team.back();
            for (int stage = 0; stage < unit_stages; ++stage)
              ASSERT_EQ(taken.team[size_t(stage)], first == last || stage < half ? first : last);
            if (first != last) {
              ASSERT_TRUE(shares.cuts);
              ASSERT_EQ(last, first + shares.over);
            }
          }
          EXPECT_EQ(walked.first_halves_not_first, 0);
          EXPECT_EQ(walked.second_halves_not_last, 0);
        }
}

TEST(UnitShares, HalvesLevelTheLoad) {
  // query, key and value rows, and gates and ups, of an 8B model on 132 multiprocessors
  for (const auto& [units, unit_stages, most] : {std::tuple{384, 4, 6}, std::tuple{896, 8, 28}}) {
    const Walked walked(UnitShares::of(units, unit_stages, 264, true), units);
    EXPECT_EQ(*std::max_element(walked.stages_of_team.begin(), walked.stages_of_team.end()), most);
  }
  EXPECT_FALSE(UnitShares::of(256, 4, 264, true).cuts) << "no turn before which a half could come";
  EXPECT_FALSE(UnitShares::of(264 + 200, 4, 264, true).cuts) << "too many halves";
}

TEST(UnitShares, FewerBlocksTakeNoMoreTurns) {
  for (const int block_teams : {1, 2, 8})
    for (const bool may_cut : {false, true})
      for (const bool attention_follows : {false, true})
        for (int units = 1; units <= 6 * 264 * block_teams; units += 1 + units / 20) {
          const BlockLimits limits{.most_blocks = 264, .block_teams = block_teams, .may_cut = may_cut};
          constexpr int kStages = 4;
          const int blocks = blocks_with_room(units, kStages, limits, attention_follows);
          const auto longest = [&](int of_blocks) {
            const Walked walked(UnitShares::of(units, kStages, of_blocks * block_teams, may_cut), units);
            for (const Taken& taken : walked.unit) EXPECT_EQ(int(taken.stage.size()), kStages) << units << " units";
            return *std::max_element(walked.stages_of_team.begin(), walked.stages_of_team.end());
          };
          ASSERT_GE(blocks, 1);
          ASSERT_LE(blocks, 264);
          const int most = longest(264);
          // beside attention half a unit more: a whole one in place of a cut one
          ASSERT_LE(longest(blocks), attention_follows && may_cut && most < 2 * kStages ? 2 * kStages : most)
              << units << " units, " << blocks << " blocks of " << block_teams;
        }
}

TEST(UnitShares, BlocksOfAnEightBModel) {
  const BlockLimits cuts{.most_blocks = 264, .block_teams = 1, .may_cut = true}, whole{264, 1, false};
  EXPECT_EQ(blocks_with_room(384, 16, cuts, true), 192) << "QKV of six rows: room for attention";
  EXPECT_EQ(blocks_with_room(384, 16, cuts, false), 264);
  EXPECT_EQ(blocks_with_room(256, 16, cuts, true), 256) << "one turn stays one";
  EXPECT_EQ(blocks_with_room(896, 32, cuts, false), 264) << "gates and ups of six rows: cut units are shorter";
  EXPECT_EQ(blocks_with_room(896, 32, whole, false), 224) << "of 17 rows: four turns either way";
  EXPECT_EQ(blocks_with_room(8016, 32, whole, false), 264) << "many turns";
}

}  // namespace
}  // namespace paceline::cuda
