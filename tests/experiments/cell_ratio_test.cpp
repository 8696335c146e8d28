// Which cells were measured in halves, A B … B A, by the order of their repetitions.

#include "experiments/analysis/metrics/cell_ratio.h"

#include <gtest/gtest.h>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {
namespace {

CellResult measured_at(const std::vector<int>& turns) {
  CellResult cell;
  for (const int turn : turns) {
    RepetitionResult r;
    r.turn = turn;
    r.ended_at_s = 1e9 + 600 * turn;
    cell.repetitions.push_back(std::move(r));
  }
  return cell;
}

Pairing pairing(const std::vector<int>& a, const std::vector<int>& b) {
  const Pairing one = pairing_of(measured_at(a), measured_at(b));
  EXPECT_EQ(pairing_of(measured_at(b), measured_at(a)), one);
  return one;
}

TEST(PairingInHalves, IsByTheWayThereAndBack) {
  EXPECT_EQ(pairing({0, 1, 6, 7}, {2, 3, 4, 5}), Pairing::in_halves);
  EXPECT_EQ(pairing({0, 1, 5}, {2, 3, 4}), Pairing::in_halves) << "of an odd number, one more";
  EXPECT_EQ(pairing({0, 1, 6, 7, 8}, {2, 3, 4, 5, 9}), Pairing::in_halves) << "there, back, and there again";
  EXPECT_EQ(pairing({0, 1, 12, 13, 14}, {2, 3, 10, 11, 15}), Pairing::in_halves) << "with a third load between";
  EXPECT_EQ(pairing({0, 3, 4}, {1, 2, 5}), Pairing::by_repetition) << "of one repetition on each way";
  EXPECT_EQ(pairing({0, 1, 4}, {2, 3, 5}), Pairing::none) << "there again without a way back";
  EXPECT_EQ(pairing({0, 1, 2, 7}, {3, 4, 5, 6}), Pairing::none) << "no halves";
  EXPECT_EQ(pairing({0, 1, 4, 7}, {2, 3, 5, 6}), Pairing::none) << "one within the other";
  EXPECT_EQ(pairing({0, 1, 2, 3}, {4, 5, 6, 7}), Pairing::none) << "one after the other";
}

// A steady drift cancels: nothing is to be told of the time between.
TEST(PairingInHalves, IsNotApart) {
  EXPECT_FALSE(is_far_apart(600, Pairing::in_halves, 3));
  EXPECT_TRUE(is_far_apart(1, Pairing::none, 3));
  EXPECT_FALSE(is_far_apart({}, Pairing::none, 3)) << "the record does not say";
}

}  // namespace
}  // namespace paceline
