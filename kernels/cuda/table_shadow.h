#pragma once
// Rows of page numbers as a device has them, and what of them a call changes. Host arithmetic alone.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::cuda {

/// A word of a list in device memory.
struct WordAt {
  int32_t index = 0, word = 0;
};
/// What a row becomes: `pages`, then zeros up to `padded` words.
struct TableRow {
  std::span<const int32_t> pages;
  int32_t padded = 0;
};
/// What differs from before, in one of two ways.
struct TableChanges {
  struct Run {
    size_t begin = 0, end = 0;
  };
  std::vector<WordAt> words;  // each that differs, where they are few
  std::vector<Run> runs;      // else what holds them, as it is now: neighbouring rows make one
};

class TableShadow {
 public:
  TableShadow() = default;
  /// Zeros.
  TableShadow(int32_t rows, int32_t stride) : rows_(rows), stride_(stride), words_(size_t(rows) * size_t(stride)) {}

  int32_t rows() const { return rows_; }
  int32_t stride() const { return stride_; }  // words of a row
  std::span<const int32_t> words() const { return words_; }

  /// The first rows become these. REQUIRES room, and no more pages than padded words. What lies behind `padded` stays
  /// as it is. most_words: that are few.
  TableChanges update(std::span<const TableRow> rows, size_t most_words) {
    TableChanges changes;
    bool are_few = true;
    size_t after_run = 0;  // row
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto& [pages, padded] = rows[r];
      const size_t begin = r * size_t(stride_);
      const auto row = words_.begin() + std::ptrdiff_t(begin);
      if (std::equal(pages.begin(), pages.end(), row) &&
          std::all_of(row + std::ptrdiff_t(pages.size()), row + padded, [](int32_t word) { return word == 0; }))
        continue;
      size_t first = size_t(padded), end = 0;
      for (size_t i = 0; i < size_t(padded); ++i) {
        const int32_t word = i < pages.size() ? pages[i] : 0;
        if (words_[begin + i] == word) continue;
        words_[begin + i] = word;
        first = std::min(first, i), end = i + 1;
        are_few = are_few && changes.words.size() < most_words;
        if (are_few) changes.words.push_back({int32_t(begin + i), word});
      }
      if (!changes.runs.empty() && after_run == r)
        changes.runs.back().end = begin + end;
      else
        changes.runs.push_back({begin + first, begin + end});
      after_run = r + 1;
    }
    are_few ? changes.runs.clear() : changes.words.clear();
    return changes;
  }

 private:
  int32_t rows_ = 0, stride_ = 0;
  std::vector<int32_t> words_;
};

}  // namespace paceline::cuda
