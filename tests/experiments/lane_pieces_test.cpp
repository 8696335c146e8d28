#include "experiments/analysis/metrics/lane_pieces.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

constexpr ActivityKind kPass = ActivityKind::pass, kSample = ActivityKind::sample, kStage = ActivityKind::wait_stage,
                       kPeers = ActivityKind::wait_peers;

RankLanes lanes_of(int64_t window_ns, int deciding, std::vector<std::vector<LaneActivity>> ranks) {
  RankLanes lanes{.window_ns = window_ns, .deciding_rank = deciding, .ranks = {}};
  for (auto& activities : ranks)
    lanes.ranks.push_back({.stage = 0, .shard = 0, .device = "cpu", .activities = std::move(activities)});
  return lanes;
}

std::string text_of(const std::vector<LanePiece>& pieces) {
  constexpr const char* kLetters =
      "PDSgpohs";  // pass, draft, sample; waits: staGe, peers, outcome, hand-over, scheduler
  std::string text;
  for (const LanePiece& piece : pieces)
    text +=
        fmt::format("{}{}{}-{}", text.empty() ? "" : " ", kLetters[size_t(piece.kind)], piece.start_ns, piece.end_ns);
  return text;
}

void expect_covered(const RankLanes& lanes) {
  for (const auto& pieces : lane_pieces(lanes)) {
    int64_t at = 0;
    for (const LanePiece& piece : pieces) {
      EXPECT_EQ(piece.start_ns, at);
      EXPECT_LT(piece.start_ns, piece.end_ns);
      at = piece.end_ns;
    }
    EXPECT_EQ(at, lanes.window_ns);
    double sum = 0;
    for (const double share : lane_shares(pieces, lanes.window_ns)) sum += share;
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(LanePieces, AWaitIsCutOutOfTheWorkThatItInterrupts) {
  const RankLanes lanes = lanes_of(100, 0, {{{kPass, 10, 60, 3}, {kPeers, 20, 5, 0}, {kPeers, 40, 30, 0}}});
  expect_covered(lanes);
  const auto pieces = lane_pieces(lanes);
  EXPECT_EQ(text_of(pieces[0]), "s0-10 P10-20 p20-25 P25-40 p40-70 s70-100");
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(pieces[0][i].pass, 3) << i;
}

TEST(LanePieces, AWaitMayStandAlone) {
  const RankLanes lanes = lanes_of(100, 0, {{{kPeers, 0, 10, 0}, {kPass, 20, 30, 1}, {kPeers, 60, 40, 0}}});
  expect_covered(lanes);
  EXPECT_EQ(text_of(lane_pieces(lanes)[0]), "p0-10 s10-20 P20-50 s50-60 p60-100");
}

// Two stages: rank 0 has nothing to run while rank 1, which decides, works; then the engine schedules.
TEST(LanePieces, GapsAreSplitByWhetherAnotherRankWorks) {
  const RankLanes lanes = lanes_of(
      100, 1, {{{kPass, 0, 40, 1}, {kPass, 90, 10, 2}}, {{kPass, 0, 70, 1}, {kStage, 0, 40, 0}, {kSample, 72, 8, 1}}});
  expect_covered(lanes);
  const auto pieces = lane_pieces(lanes);
  EXPECT_EQ(text_of(pieces[0]), "P0-40 o40-70 s70-72 o72-80 s80-90 P90-100");
  EXPECT_EQ(text_of(pieces[1]), "g0-40 P40-70 s70-72 S72-80 s80-100");
  EXPECT_EQ(pieces[1][4].kind, PieceKind::wait_scheduler) << "the sampling rank's thread runs the engine";
  EXPECT_NEAR(waiting_share(lane_shares(pieces[0], 100)), 0.5, 1e-12);
  EXPECT_NEAR(lane_shares(pieces[0], 100)[size_t(PieceKind::wait_outcome)], 0.38, 1e-12);
}

// Rank 1 takes up pass 2 at 60; rank 0, which decides, has begun it at 50.
TEST(LanePieces, AThreadThatIsLateIsNotTheSchedulersFault) {
  const RankLanes lanes = lanes_of(
      100, 0, {{{kPass, 0, 40, 1}, {kPass, 50, 50, 2}, {kPeers, 55, 10, 0}}, {{kPass, 0, 30, 1}, {kPass, 60, 40, 2}}});
  expect_covered(lanes);
  EXPECT_EQ(text_of(lane_pieces(lanes)[1]), "P0-30 o30-40 s40-50 h50-60 P60-100");
  EXPECT_EQ(text_of(lane_pieces(lanes)[0]), "P0-40 s40-50 P50-55 p55-65 P65-100");
}

TEST(LanePieces, ARankWithoutRecordsWaitsAllTheTime) {
  const RankLanes lanes = lanes_of(100, 0, {{{kPass, 0, 30, 1}}, {}});
  expect_covered(lanes);
  EXPECT_EQ(text_of(lane_pieces(lanes)[1]), "o0-30 s30-100");
}

// A file may hold anything.
TEST(LanePieces, OverlapsAndPiecesOutsideOfTheWindowAreCut) {
  const RankLanes lanes = lanes_of(
      100, 0,
      {{{kPass, -20, 50, 1}, {kPass, 10, 40, 2}, {kPeers, 45, 10, 0}, {kPeers, 40, 10, 0}, {kSample, 90, 900, 2}}});
  expect_covered(lanes);
}

}  // namespace
}  // namespace paceline
