#include "kernels/cuda/split_shares.h"

#include <vector>

#include <gtest/gtest.h>

namespace paceline::cuda {
namespace {

struct Case {
  int tiles, chunks, teams;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int chunks : {1, 2, 4, 8})
    for (const int teams : {1, 2, 3, 7, 66, 132})
      for (int tiles = 1; tiles <= 3 * teams + 2; tiles += teams < 10 ? 1 : 7) all.push_back({tiles, chunks, teams});
  return all;
}

TEST(SplitShares, EveryChunkIsTakenOnceAndInOrderWithinItsTeam) {
  for (const Case& of : cases()) {
    const SplitShares shares = SplitShares::of(of.tiles, of.chunks, of.teams);
    std::vector<int> taken(size_t(of.tiles * of.chunks));
    int most = 0, least = of.tiles * of.chunks;
    for (int team = 0; team < shares.teams; ++team) {
      int count = 0, tile = -1, chunk = -1;
      for (SplitWalk walk(shares, team); !walk.is_over; walk.advance(), ++count) {
        ASSERT_LT(walk.tile, of.tiles);
        ++taken.at(size_t(walk.tile * of.chunks + walk.chunk));
        const bool begins = walk.tile != tile;
        ASSERT_TRUE(begins || walk.chunk == chunk + 1);
        ASSERT_TRUE(!begins || walk.is_left_over() || walk.chunk == 0);
        tile = walk.tile, chunk = walk.chunk;
      }
      most = std::max(most, count), least = std::min(least, count);
    }
    for (const int times : taken) ASSERT_EQ(times, 1) << of.tiles << ' ' << of.chunks << ' ' << of.teams;
    EXPECT_EQ(most, (of.tiles * of.chunks + shares.teams - 1) / shares.teams);
    EXPECT_GE(least, shares.whole / shares.teams * of.chunks);
  }
}

TEST(SplitShares, NobodySharesATileThatATeamCouldTakeAlone) {
  for (const Case& of : cases()) {
    const SplitShares shares = SplitShares::of(of.tiles, of.chunks, of.teams);
    for (int index = 0; index < shares.over; ++index) EXPECT_GT(shares.sharers(index).count, 1);
  }
  EXPECT_EQ(SplitShares::of(64, 8, 66).over, 0);
  EXPECT_EQ(SplitShares::of(57, 8, 66).over, 57);
}

TEST(SplitShares, WhatIsLeftOverComesFirst) {
  for (const Case& of : cases()) {
    const SplitShares shares = SplitShares::of(of.tiles, of.chunks, of.teams);
    for (int team = 0; team < shares.teams; ++team) {
      bool is_at_whole = false;
      for (SplitWalk walk(shares, team); !walk.is_over; walk.advance()) {
        ASSERT_TRUE(!walk.is_left_over() || !is_at_whole);
        is_at_whole = !walk.is_left_over();
      }
    }
  }
}

TEST(SplitShares, SharersFinishEachRowOnce) {
  for (const Case& of : cases()) {
    const SplitShares shares = SplitShares::of(of.tiles, of.chunks, of.teams);
    for (int index = 0; index < shares.over; ++index) {
      const SplitShares::Sharers sharers = shares.sharers(index);
      for (const int row_tiles : {0, 1, 3, 8, 16}) {
        int begin = 0, most = 0, least = row_tiles;
        for (int team = sharers.first; team < sharers.first + sharers.count; ++team) {
          const SplitShares::Rows rows = shares.finished_by(team, index, row_tiles);
          ASSERT_EQ(rows.begin, begin);
          begin = rows.end;
          most = std::max(most, rows.end - rows.begin), least = std::min(least, rows.end - rows.begin);
        }
        ASSERT_EQ(begin, row_tiles);
        EXPECT_LE(most - least, 1);
      }
    }
  }
}

TEST(SplitShares, SharersAndPiecesAreThoseOfTheWalks) {
  for (const Case& of : cases()) {
    const SplitShares shares = SplitShares::of(of.tiles, of.chunks, of.teams);
    std::vector<unsigned> pieces(size_t(shares.over));
    std::vector<std::vector<int>> teams(size_t(shares.over));
    for (int team = 0; team < shares.teams; ++team)
      for (SplitWalk walk(shares, team); !walk.is_over && walk.is_left_over();) {
        const size_t index = size_t(walk.tile - shares.whole);
        const int count = piece_chunks(walk.chunk, walk.end);
        ASSERT_EQ(walk.chunk % count, 0);
        pieces.at(index) |= 1u << walk.chunk;
        if (teams[index].empty() || teams[index].back() != team) teams[index].push_back(team);
        for (int i = 0; i < count; ++i) walk.advance();
      }
    for (int index = 0; index < shares.over; ++index) {
      ASSERT_EQ(pieces[size_t(index)], shares.pieces(index));
      const SplitShares::Sharers sharers = shares.sharers(index);
      ASSERT_EQ(teams[size_t(index)].front(), sharers.first);
      ASSERT_EQ(teams[size_t(index)].back(), sharers.first + sharers.count - 1);
    }
  }
}

TEST(SplitShares, PiecesAreAsLargeAsTheyCanBe) {
  EXPECT_EQ(pieces_of(0, 8), 0b00010001u);
  EXPECT_EQ(pieces_of(3, 8), 0b00011000u);
  EXPECT_EQ(pieces_of(1, 7), 0b01010110u);
  EXPECT_EQ(pieces_of(2, 6), 0b00010100u);
  EXPECT_EQ(pieces_of(0, 1), 1u);
}

}  // namespace
}  // namespace paceline::cuda
