#include "tests/speculative/lossless/covering_array.h"

#include <cstddef>
#include <random>

namespace paceline::test {
namespace {

constexpr int kCandidatesPerRow = 200;

class Pairs {
 public:
  explicit Pairs(const std::vector<int>& num_values) {
    for (int count : num_values) {
      offset_.push_back(size_);
      size_ += size_t(count);
    }
    seen_.assign(size_ * size_, false);
    for (size_t a = 0; a < num_values.size(); ++a) {
      for (size_t b = a + 1; b < num_values.size(); ++b) num_missing_ += int64_t(num_values[a]) * num_values[b];
    }
  }

  int64_t num_missing() const { return num_missing_; }

  int num_new(const std::vector<int>& row) const {
    int count = 0;
    for_each_pair(row, [&](size_t pair) { count += seen_[pair] ? 0 : 1; });
    return count;
  }

  void add(const std::vector<int>& row) {
    for_each_pair(row, [&](size_t pair) {
      if (!seen_[pair]) --num_missing_;
      seen_[pair] = true;
    });
  }

 private:
  template <class Visit>
  void for_each_pair(const std::vector<int>& row, const Visit& visit) const {
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = a + 1; b < row.size(); ++b)
        visit((offset_[a] + size_t(row[a])) * size_ + offset_[b] + size_t(row[b]));
    }
  }

  std::vector<size_t> offset_;  // [factors] of each factor's first value
  size_t size_ = 0;             // values in all
  std::vector<bool> seen_;      // [size_, size_]
  int64_t num_missing_ = 0;
};

}  // namespace

std::vector<std::vector<int>> covering_array(const std::vector<int>& num_values, uint64_t seed) {
  Pairs pairs(num_values);
  std::mt19937_64 random(seed);  // its stream is fixed by the standard; distributions are not, hence the remainders
  std::vector<std::vector<int>> rows;
  while (pairs.num_missing() > 0) {
    std::vector<int> best;
    int most_new = 0;
    for (int i = 0; i < kCandidatesPerRow || most_new == 0; ++i) {
      std::vector<int> row;
      for (int count : num_values) row.push_back(int(random() % uint64_t(count)));
      // One round of coordinate ascent.
      for (size_t factor = 0; factor < row.size(); ++factor) {
        int best_value = row[factor];
        int best_count = pairs.num_new(row);
        for (int value = 0; value < num_values[factor]; ++value) {
          row[factor] = value;
          if (const int count = pairs.num_new(row); count > best_count) {
            best_count = count;
            best_value = value;
          }
        }
        row[factor] = best_value;
      }
      if (const int count = pairs.num_new(row); count > most_new) {
        most_new = count;
        best = row;
      }
    }
    pairs.add(best);
    rows.push_back(best);
  }
  return rows;
}

int64_t num_missing_pairs(const std::vector<int>& num_values, const std::vector<std::vector<int>>& rows) {
  Pairs pairs(num_values);
  for (const auto& row : rows) pairs.add(row);
  return pairs.num_missing();
}

}  // namespace paceline::test
