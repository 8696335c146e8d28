#pragma once
// In which order loads are visited, so that a steady drift of the machine cancels between their cells.
//
// Three ways: A B C, back C B A, and there again A B C. Of R repetitions each load has a = ⌊R/2⌋ on the first way, as
// many on the second, and the one that an odd R leaves on the third. Where a way turns, the load stays for its share of
// the next: an even R costs a load one more loading, A B … B A, an odd one two.
//
// Where each repetition of each load takes the same time, the mean times of loads i and j are the same for an even R,
// and |i - j| / R repetitions apart for an odd one. Less cannot be had of two loads: their 2R places add up to an odd
// number. With two ways alone, 2 + 1 of three, it would be |i - j| repetitions; with each load by itself R · |i - j|.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace paceline {

inline constexpr int kNumWays = 3;

struct Visit {
  int way = 0;  // below kNumWays
  enum class Stay : uint8_t {
    way,   // for this way's share
    turn,  // and that of the next, which begins with this load
    end,   // for all: no other load lies between
  } stay = Stay::way;

  /// How many of its repetitions a cell has behind this visit.
  int until(int repetitions) const;
};

inline int Visit::until(int repetitions) const {
  const int share = repetitions / 2;
  const int ways = way + (stay == Stay::turn ? 2 : 1);
  return share == 0 || stay == Stay::end || ways >= kNumWays ? repetitions : ways * share;
}

/// Calls `run` for one visit after another. It says whether the load is to be visited again.
inline void visit_loads(size_t num_loads, const std::function<bool(size_t load, const Visit& visit)>& run) {
  std::vector<size_t> left(num_loads);
  std::iota(left.begin(), left.end(), size_t{0});
  for (int way = 0; way < kNumWays && !left.empty(); ++way) {
    std::vector<size_t> again;
    for (const size_t load : left) {
      const bool is_turn = load == left.back();
      const bool is_alone = is_turn && again.empty();
      if (run(load, {.way = way, .stay = is_alone ? Visit::Stay::end : is_turn ? Visit::Stay::turn : Visit::Stay::way}))
        again.push_back(load);
    }
    std::reverse(again.begin(), again.end());
    left = std::move(again);
  }
}

}  // namespace paceline
