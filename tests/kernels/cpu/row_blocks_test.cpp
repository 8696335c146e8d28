#include "kernels/row_blocks.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(RowBlocks, CoverEachRowOnceOnAPoolToo) {
  ThreadPool pool(3);
  for (const auto& [num_rows, num_cols] : {std::pair<int64_t, int64_t>{0, 64}, {1, 1}, {70, 4096}, {300, 0}}) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(num_rows));
    const auto body = [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) ++seen[size_t(row)];
    };
    for_row_blocks(num_rows, num_cols, body);
    for_row_blocks(&pool, num_rows, num_cols, body);
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto& count) { return count == 2; })) << num_rows;
  }
}

TEST(RowBlocks, ThrowWhatABodyThrew) {
  ThreadPool pool(2);
  std::atomic<int64_t> num_done = 0;
  const auto body = [&](int64_t begin, int64_t end) {
    num_done += end - begin;
    if (end == 100) throw std::runtime_error("the last row");
  };
  EXPECT_THROW(for_row_blocks(&pool, 100, 4096, body), std::runtime_error);
  EXPECT_EQ(num_done, 100);
  EXPECT_THROW(for_row_blocks(100, 4096, body), std::runtime_error);
}

}  // namespace
}  // namespace paceline
