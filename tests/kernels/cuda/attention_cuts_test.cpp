// Where long sequences are cut for GPUs: each chunk is taken once, by pieces of even size, and not where that costs
// more than it saves.

#include "kernels/cuda/attention_cuts.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/random_seed.h"

namespace paceline::cuda {
namespace {

constexpr int kHeads = 8, kMultiprocessors = 132;  // of an 8B model on an H100
constexpr int64_t kMuchRoom = int64_t{1} << 40;

std::vector<CutChunks> sequences(std::initializer_list<int32_t> chunks) {
  std::vector<CutChunks> made;
  for (const int32_t count : chunks) made.push_back({.begin = 0, .end = count, .num_lines = 32});
  return made;
}

TEST(AttentionCuts, ALongSequenceAmongShortOnesKeepsTheDeviceBusy) {
  auto all = sequences({16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 2048});
  cut_chunks(all, kHeads, kMultiprocessors, 2, true, kMuchRoom);
  for (size_t i = 0; i < 15; ++i) EXPECT_FALSE(all[i].is_cut());
  EXPECT_EQ(all[15].pieces, 29);  // a share is (15 x 16 + 2048) x 8 / 264 = 70 chunks
  EXPECT_EQ(all[15].border, 71);
}

TEST(AttentionCuts, PiecesOfASequenceAloneRunAtOnce) {
  auto alone = sequences({2048});
  cut_chunks(alone, kHeads, kMultiprocessors, 2, false, kMuchRoom);
  EXPECT_EQ(alone[0].pieces, 32);
  EXPECT_LE(alone[0].pieces * kHeads, 2 * kMultiprocessors);
}

TEST(AttentionCuts, EvenOrShortOnesStayWhole) {
  auto even = sequences({300, 320, 310, 300, 305, 300, 290, 300, 300, 300, 310, 320, 300, 300, 300, 300});
  cut_chunks(even, kHeads, kMultiprocessors, 2, true, kMuchRoom);
  for (const CutChunks& chunks : even) EXPECT_FALSE(chunks.is_cut());
  auto few = sequences({60});  // 2 chunks a block
  cut_chunks(few, kHeads, kMultiprocessors, 2, false, kMuchRoom);
  EXPECT_FALSE(few[0].is_cut());
  auto nothing = sequences({0, 0});
  cut_chunks(nothing, kHeads, kMultiprocessors, 2, true, kMuchRoom);
  EXPECT_FALSE(nothing[0].is_cut());
}

TEST(AttentionCuts, TheFirstPieceGrowsWhereThereIsLittleRoom) {
  auto two = sequences({2048, 2048});
  cut_chunks(two, kHeads, kMultiprocessors, 2, false, 64 * 1000);
  for (const CutChunks& chunks : two) {
    EXPECT_TRUE(chunks.is_cut());
    EXPECT_EQ(chunks.num_parts(), 1000);
  }
  cut_chunks(two, kHeads, kMultiprocessors, 2, false, 63);
  for (const CutChunks& chunks : two) EXPECT_FALSE(chunks.is_cut()) << "not one part a line";
}

TEST(AttentionCuts, EachChunkIsTakenOnce) {
  std::mt19937 random(test::random_seed());
  const auto below = [&](int end) { return int32_t(random() % unsigned(end)); };
  int num_cut = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<CutChunks> all(size_t(1 + below(40)));
    for (CutChunks& chunks : all) {
      chunks.begin = below(3) == 0 ? below(500) : 0;
      chunks.end = chunks.begin + (below(4) == 0 ? below(3000) : below(30));
      chunks.num_lines = 1 + below(32);
    }
    const int64_t room = below(3) == 0 ? below(20'000) : kMuchRoom;
    const int heads = 1 + below(16), multiprocessors = 1 + below(150);
    cut_chunks(all, heads, multiprocessors, 1 + below(2), below(2) == 0, room);
    int64_t parts = 0;
    for (const CutChunks& chunks : all) {
      if (!chunks.is_cut()) {
        ASSERT_EQ(chunks.pieces, 1);
        continue;
      }
      ++num_cut;
      parts += chunks.num_lines * chunks.num_parts();
      ASSERT_GT(chunks.border, chunks.begin);
      ASSERT_EQ(chunks.begin_of(0), 0);
      int32_t shortest = INT32_MAX, longest = 0;
      for (int32_t piece = 1; piece < chunks.pieces; ++piece) {
        ASSERT_EQ(chunks.begin_of(piece), chunks.end_of(piece - 1));
        shortest = std::min(shortest, chunks.end_of(piece) - chunks.begin_of(piece));
        longest = std::max(longest, chunks.end_of(piece) - chunks.begin_of(piece));
      }
      ASSERT_LE(longest - shortest, 1);
      ASSERT_LE(longest, chunks.border - chunks.begin);
      ASSERT_EQ(chunks.end_of(chunks.pieces - 1), chunks.end);
    }
    ASSERT_LE(parts, room);
  }
  EXPECT_GT(num_cut, 1000);
}

}  // namespace
}  // namespace paceline::cuda
