#include "kernels/cpu/weight_arena.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/extent.h"

namespace paceline {
namespace {

TEST(WeightArena, LaysPiecesSideBySideOnCacheLines) {
  ThreadPool pool(2);
  WeightArena arena;
  const WeightMemory first = arena.take(100, pool), second = arena.take(64, pool), third = arena.take(1, pool);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data) % 64, 0u);
  EXPECT_EQ(second.data, first.data + 128);
  EXPECT_EQ(third.data, second.data + 64);
  EXPECT_EQ(first.slab, third.slab);
}

TEST(WeightArena, PiecesAreZeroAndDoNotOverlap) {
  ThreadPool pool(2);
  WeightArena arena;
  std::vector<WeightMemory> pieces;
  for (size_t bytes : {1000, 5000, 64}) {
    pieces.push_back(arena.take(bytes, pool));
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(pieces.back().data[i], 0);
    std::memset(pieces.back().data, int(pieces.size()), bytes);
  }
  EXPECT_EQ(pieces[0].data[999], 1);
  EXPECT_EQ(pieces[1].data[0], 2);
  EXPECT_EQ(pieces[1].data[4999], 2);
  EXPECT_EQ(pieces[2].data[63], 3);
}

TEST(WeightArena, OpensANewSlabWhenOneIsFull) {
  ThreadPool pool(2);
  WeightArena arena;
  constexpr size_t kPiece = WeightArena::kLargeBytes / 2;
  const WeightMemory first = arena.take(kPiece, pool);
  for (size_t i = 1; i < WeightArena::kSlabBytes / kPiece; ++i) EXPECT_EQ(arena.take(kPiece, pool).slab, first.slab);
  const WeightMemory next = arena.take(kPiece, pool);
  EXPECT_NE(next.slab, first.slab);
  next.data[kPiece - 1] = 1;
}

TEST(WeightArena, LargePiecesHaveTheirOwnSlab) {
  ThreadPool pool(2);
  WeightArena arena;
  const WeightMemory small = arena.take(64, pool);
  const WeightMemory large = arena.take(WeightArena::kLargeBytes, pool);
  const WeightMemory after = arena.take(64, pool);
  EXPECT_NE(large.slab, small.slab);
  EXPECT_EQ(after.slab, small.slab);
  large.data[WeightArena::kLargeBytes - 1] = 1;
}

TEST(WeightArena, PiecesOutliveTheArena) {
  WeightMemory piece;
  {
    ThreadPool pool(2);
    WeightArena arena;
    piece = arena.take(4096, pool);
  }
  piece.data[4095] = 7;
  EXPECT_EQ(piece.data[4095], 7);
  EXPECT_EQ(piece.slab.use_count(), 1);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(WeightArena, AReadBehindAPieceIsReported) {
  ThreadPool pool(2);
  WeightArena arena;
  const WeightMemory first = arena.take(100, pool), last = arena.take(64, pool);
  const auto read = [](const char* at) { return *static_cast<const volatile char*>(at); };
  EXPECT_EQ(read(first.data + 99) + read(last.data + 63), 0);
  EXPECT_DEATH(read(first.data + 104), "use-after-poison");  // the gap up to the next line, past its partial granule
  EXPECT_DEATH(read(last.data + 64), "use-after-poison");    // the unused rest of the slab
  EXPECT_DEATH(check_extent(first.data, 200), "use-after-poison");
}
#endif

}  // namespace
}  // namespace paceline
