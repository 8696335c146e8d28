// What of a table of pages is sent: no more than what differs, and afterwards the device has what the host has.

#include "kernels/cuda/table_shadow.h"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/random_seed.h"

namespace paceline::cuda {
namespace {

constexpr size_t kMostWords = 480;

void apply(const TableChanges& changes, const TableShadow& shadow, std::vector<int32_t>& device) {
  EXPECT_TRUE(changes.words.empty() || changes.runs.empty());
  for (const WordAt& at : changes.words) device[size_t(at.index)] = at.word;
  for (const auto& [begin, end] : changes.runs)
    std::copy(shadow.words().begin() + std::ptrdiff_t(begin), shadow.words().begin() + std::ptrdiff_t(end),
              device.begin() + std::ptrdiff_t(begin));
}

TEST(TableShadow, SendsAWordForANewPage) {
  TableShadow shadow(4, 64);
  std::vector<int32_t> one(33), two(60);
  std::iota(one.begin(), one.end(), 1);
  std::iota(two.begin(), two.end(), 100);
  const auto update = [&] { return shadow.update(std::vector<TableRow>{{one, 36}, {two, 60}}, kMostWords); };
  EXPECT_EQ(update().words.size(), 93u);
  TableChanges changes = update();
  EXPECT_TRUE(changes.words.empty() && changes.runs.empty());
  one.push_back(7);
  changes = update();
  ASSERT_EQ(changes.words.size(), 1u);
  EXPECT_EQ(changes.words[0].index, 33);
  EXPECT_EQ(changes.words[0].word, 7);
  EXPECT_TRUE(changes.runs.empty());
}

TEST(TableShadow, ClearsWhatAChunkStillReadsOfALongerSequence) {
  TableShadow shadow(1, 64);
  const std::vector<int32_t> longer(12, 9), shorter(2, 9);
  shadow.update(std::vector<TableRow>{{longer, 12}}, kMostWords);
  const TableChanges changes = shadow.update(std::vector<TableRow>{{shorter, 4}}, kMostWords);
  ASSERT_EQ(changes.words.size(), 2u);
  EXPECT_EQ(changes.words[0].index, 2);
  EXPECT_EQ(changes.words[0].word, 0);
  EXPECT_EQ(shadow.words()[4], 9) << "nobody reads it";
}

TEST(TableShadow, SendsNeighbouringRowsAtOnceWhereMuchDiffers) {
  TableShadow shadow(8, 512);
  const std::vector<int32_t> one(300, 1), two(400, 2), few(3, 3), none;
  const TableChanges changes =
      shadow.update(std::vector<TableRow>{{one, 300}, {two, 400}, {none, 0}, {few, 4}}, kMostWords);
  EXPECT_TRUE(changes.words.empty());
  ASSERT_EQ(changes.runs.size(), 2u);
  EXPECT_EQ(changes.runs[0].begin, 0u);
  EXPECT_EQ(changes.runs[0].end, 512u + 400);
  EXPECT_EQ(changes.runs[1].begin, 3u * 512);
  EXPECT_EQ(changes.runs[1].end, 3u * 512 + 3);
}

TEST(TableShadow, TheDeviceHasWhatTheHostHas) {
  std::mt19937 random(unsigned(test::random_seed()));
  for (int trial = 0; trial < 200; ++trial) {
    const size_t most = random() % 3 == 0 ? 5 : kMostWords;
    TableShadow shadow(6, 64);
    std::vector<int32_t> device(shadow.words().size());
    std::vector<std::vector<int32_t>> pages(6);
    for (int step = 0; step < 20; ++step) {
      std::vector<TableRow> rows;
      for (auto& of_row : pages) {
        if (random() % 3 == 0) of_row.assign(random() % 60, int32_t(random() % 4));
        if (!of_row.empty() && random() % 3 == 0) of_row[random() % of_row.size()] = int32_t(random() % 4);
        rows.push_back({of_row, std::min(64, int32_t(of_row.size()) / 4 * 4 + 4)});
      }
      rows.resize(random() % 7);
      apply(shadow.update(rows, most), shadow, device);
      ASSERT_TRUE(std::equal(device.begin(), device.end(), shadow.words().begin())) << trial << ", " << step;
      for (size_t r = 0; r < rows.size(); ++r)
        for (size_t i = 0; i < size_t(rows[r].padded); ++i)
          ASSERT_EQ(device[r * 64 + i], i < rows[r].pages.size() ? rows[r].pages[i] : 0);
    }
  }
}

}  // namespace
}  // namespace paceline::cuda
