#include "kernels/cuda/split_shares.h"

#include <vector>

#include <gtest/gtest.h>

namespace paceline::cuda {
namespace {

struct Case {
  int tiles, chunks, teams;
  bool may_narrow;

  SplitShares shares() const {
    return may_narrow ? SplitShares::with_narrow(tiles, chunks, teams) : SplitShares::of(tiles, chunks, teams);
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int chunks : {1, 2, 4, 8})
    for (const int teams : {1, 2, 3, 7, 66, 78, 114, 132, 144})
      for (int tiles = 1; tiles <= 3 * teams + 2; tiles += teams < 10 ? 1 : 7)
        for (const bool may_narrow : {false, true}) all.push_back({tiles, chunks, teams, may_narrow});
  return all;
}

TEST(SplitShares, EveryChunkIsTakenOnceAndInOrderWithinItsTeam) {
  for (const Case& of : cases()) {
    const SplitShares shares = of.shares();
    const int all = of.tiles * kTileQuarters * of.chunks;
    std::vector<int> taken(static_cast<size_t>(all));
    int most = 0, least = all;  // chunks of a quarter of a tile
    for (int team = 0; team < shares.teams; ++team) {
      int count = 0, tile = -1, chunk = -1;
      for (SplitWalk walk(shares, team); !walk.is_over; walk.advance()) {
        const SplitShares::Outputs outputs = shares.outputs(walk.tile);
        ASSERT_GT(outputs.count, 0);
        for (int quarter = outputs.first; quarter < outputs.first + outputs.count; ++quarter)
          if (quarter < of.tiles * kTileQuarters) ++taken[size_t(quarter * of.chunks + walk.chunk)];
        count += outputs.count;
        const bool begins = walk.tile != tile;
        ASSERT_TRUE(begins || walk.chunk == chunk + 1);
        ASSERT_TRUE(!begins || walk.is_left_over() || walk.chunk == 0);
        tile = walk.tile, chunk = walk.chunk;
      }
      most = std::max(most, count), least = std::min(least, count);
    }
    for (const int times : taken) ASSERT_EQ(times, 1) << of.tiles << ' ' << of.chunks << ' ' << of.teams;
    const int fair = (of.tiles * of.chunks + shares.teams - 1) / shares.teams * kTileQuarters;
    if (shares.first_narrow == INT_MAX && shares.width == kTileQuarters) {
      EXPECT_EQ(most, fair);
    }
    EXPECT_LE(most, fair);
    EXPECT_GE(least, std::min(shares.first_narrow, shares.whole) / shares.teams * of.chunks * kTileQuarters);
  }
}

TEST(SplitShares, NobodySharesATileThatATeamCouldTakeAlone) {
  for (const Case& of : cases()) {
    const SplitShares shares = of.shares();
    for (int index = 0; index < shares.over; ++index) EXPECT_GT(shares.sharers(index).count, 1);
  }
  EXPECT_EQ(SplitShares::with_narrow(64, 8, 66).over, 0);
  EXPECT_EQ(SplitShares::with_narrow(57, 8, 66).over, 57);
}

TEST(SplitShares, NarrowTilesTakeThePlaceOfSharesThatAreNoSmaller) {
  const SplitShares gates_and_ups = SplitShares::with_narrow(224, 8, 132);  // of an 8B model: 92 tiles are left over
  EXPECT_EQ(gates_and_ups.over, 0);
  EXPECT_EQ(gates_and_ups.whole, 2 * 132);
  EXPECT_EQ(gates_and_ups.outputs(131).count, kTileQuarters);
  EXPECT_EQ(gates_and_ups.outputs(132).count, 3);
  EXPECT_EQ(gates_and_ups.outputs(132 + 103).count, 3);
  EXPECT_EQ(gates_and_ups.outputs(132 + 104).count, 2);
  EXPECT_EQ(gates_and_ups.outputs(132 + 131).first + 2, 224 * kTileQuarters);
  EXPECT_EQ(SplitShares::of(224, 8, 132).over, 92);
  EXPECT_EQ(SplitShares::with_narrow(192, 8, 132).over, 60) << "two quarters take as many instructions as four";
  EXPECT_EQ(SplitShares::with_narrow(1002, 8, 132).over, 78) << "a share of 5 chunks is less than 3 quarters";
  EXPECT_EQ(SplitShares::with_narrow(32, 8, 132).over, 32) << "each team would read all rows for few outputs";
}

TEST(SplitShares, AllTilesAreNarrowWhereSharesAreHalvesOfThemThen) {
  const SplitShares queries_and_keys = SplitShares::with_narrow(48, 8, 132);  // of an 8B model: shares of 3 chunks
  EXPECT_EQ(queries_and_keys.width, 3);
  EXPECT_EQ(queries_and_keys.over, 64);
  EXPECT_EQ(queries_and_keys.share, 4);
  EXPECT_EQ(queries_and_keys.pieces(63), 0b00010001u);
  EXPECT_EQ(queries_and_keys.outputs(63).first + 3, 48 * kTileQuarters);
  EXPECT_EQ(SplitShares::of(48, 8, 132).width, kTileQuarters);
  EXPECT_EQ(SplitShares::with_narrow(32, 8, 132).width, kTileQuarters) << "quarters already";
}

TEST(SplitShares, NoTileIsEmptyAndATeamSharesTwoAtMost) {
  for (const Case& of : cases()) {
    const SplitShares shares = of.shares();
    for (int team = 0; team < shares.teams; ++team) {
      int shared = 0, last = -1;
      for (SplitWalk walk(shares, team); !walk.is_over; walk.advance()) {
        ASSERT_LT(shares.outputs(walk.tile).first, of.tiles * kTileQuarters);
        if (walk.is_left_over() && walk.tile != last) ++shared;
        last = walk.tile;
      }
      ASSERT_LE(shared, 2);
    }
  }
}

TEST(SplitShares, SumsFindTheirPlaces) {
  for (const Case& of : cases())  // one for each item
    ASSERT_LE(size_t(of.shares().items()), kSplitPlacesOfBlock * size_t(of.teams));
}

TEST(SplitShares, QuotientsAreThoseOfDivisions) {
  for (const Case& of : cases()) {
    const SplitShares shares = of.shares();
    for (int item = 0; item < shares.items(); ++item) {
      ASSERT_EQ(shares.team_of(item), item / shares.share);
      ASSERT_EQ(shares.tile_over(item), item / shares.chunks);
    }
    for (int index = 0; index < shares.over; ++index) {
      const SplitShares::Sharers sharers = shares.sharers(index);
      for (int row_tiles = 0; row_tiles <= 16; ++row_tiles)
        for (int number = 0; number < sharers.count; ++number) {
          const SplitShares::Rows rows = shares.finished_by(sharers.first + number, index, row_tiles);
          ASSERT_EQ(rows.begin, row_tiles * number / sharers.count);
          ASSERT_EQ(rows.end, row_tiles * (number + 1) / sharers.count);
        }
    }
  }
}

TEST(SplitShares, WhatIsLeftOverComesFirst) {
  for (const Case& of : cases()) {
    const SplitShares shares = of.shares();
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
    const SplitShares shares = of.shares();
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
    const SplitShares shares = of.shares();
    std::vector<unsigned> pieces(size_t(shares.over));
    std::vector<std::vector<int>> teams(size_t(shares.over));
    for (int team = 0; team < shares.teams; ++team) {
      int last_tile = -1, last_chunk = -1;
      for (SplitWalk walk(shares, team); !walk.is_over && walk.is_left_over();) {
        const size_t index = size_t(walk.tile - shares.whole);
        const int count = piece_chunks(walk.chunk, walk.end);
        ASSERT_EQ(walk.chunk % count, 0);
        pieces.at(index) |= 1u << walk.chunk;
        if (teams[index].empty() || teams[index].back() != team) teams[index].push_back(team);
        last_tile = int(index), last_chunk = walk.chunk;
        for (int i = 0; i < count; ++i) walk.advance();
      }
      if (last_tile < 0) continue;
      const SplitShares::Piece last = shares.last_piece(team);
      ASSERT_EQ(last.index, last_tile);
      ASSERT_EQ(last.chunk, last_chunk);
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
