#include "kernels/cpu/weight_arena.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(WeightArena, LaysPiecesSideBySideOnCacheLines) {
  WeightArena arena;
  const WeightMemory first = arena.take(100), second = arena.take(64), third = arena.take(1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data) % 64, 0u);
  EXPECT_EQ(second.data, first.data + 128);
  EXPECT_EQ(third.data, second.data + 64);
  EXPECT_EQ(first.slab, third.slab);
}

TEST(WeightArena, PiecesAreZeroAndDoNotOverlap) {
  WeightArena arena;
  std::vector<WeightMemory> pieces;
  for (size_t bytes : {1000, 5000, 64}) {
    pieces.push_back(arena.take(bytes));
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(pieces.back().data[i], 0);
    std::memset(pieces.back().data, int(pieces.size()), bytes);
  }
  EXPECT_EQ(pieces[0].data[999], 1);
  EXPECT_EQ(pieces[1].data[0], 2);
  EXPECT_EQ(pieces[1].data[4999], 2);
  EXPECT_EQ(pieces[2].data[63], 3);
}

TEST(WeightArena, OpensANewSlabWhenOneIsFull) {
  WeightArena arena;
  const WeightMemory first = arena.take(WeightArena::kSlabBytes - 64);
  const WeightMemory fits = arena.take(64), next = arena.take(64);
  EXPECT_EQ(fits.slab, first.slab);
  EXPECT_NE(next.slab, first.slab);
  next.data[63] = 1;
}

TEST(WeightArena, LargePiecesHaveTheirOwnSlab) {
  WeightArena arena;
  const WeightMemory small = arena.take(64);
  const WeightMemory large = arena.take(WeightArena::kSlabBytes);
  const WeightMemory after = arena.take(64);
  EXPECT_NE(large.slab, small.slab);
  EXPECT_EQ(after.slab, small.slab);
  large.data[WeightArena::kSlabBytes - 1] = 1;
}

TEST(WeightArena, PiecesOutliveTheArena) {
  WeightMemory piece;
  {
    WeightArena arena;
    piece = arena.take(4096);
  }
  piece.data[4095] = 7;
  EXPECT_EQ(piece.data[4095], 7);
  EXPECT_EQ(piece.slab.use_count(), 1);
}

}  // namespace
}  // namespace paceline
