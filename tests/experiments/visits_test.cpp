// The order in which loads are visited: what of a steady drift remains between them.

#include "experiments/run/measure/visits.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace paceline {
namespace {

/// Where each load has its repetitions, and how often it is loaded.
struct Order {
  std::vector<std::vector<int>> places;
  std::vector<int> loadings;

  /// dear: loads that keep their repetitions together.
  Order(size_t num_loads, int repetitions, const std::vector<size_t>& dear = {})
      : places(num_loads), loadings(num_loads) {
    int place = 0;
    visit_loads(num_loads, [&](size_t load, const Visit& visit) {
      const bool is_dear = std::find(dear.begin(), dear.end(), load) != dear.end();
      const int until = is_dear ? repetitions : visit.until(repetitions);
      std::vector<int>& mine = places[load];
      if (int(mine.size()) < until) ++loadings[load];
      while (int(mine.size()) < until) mine.push_back(place++);
      return until < repetitions;
    });
  }
  int sum(size_t load) const {
    int out = 0;
    for (const int place : places[load]) out += place;
    return out;
  }
  /// "ABBA"
  std::string text() const {
    std::string out;
    for (size_t load = 0; load < places.size(); ++load)
      for (const int place : places[load]) {
        out.resize(std::max(out.size(), size_t(place) + 1), '?');
        out[size_t(place)] = char('A' + load);
      }
    return out;
  }
};

TEST(Visits, GoThereAndBackAndOnceMoreForAnOddRepetition) {
  EXPECT_EQ(Order(1, 3).text(), "AAA");
  EXPECT_EQ(Order(2, 1).text(), "AB");
  EXPECT_EQ(Order(2, 2).text(), "ABBA");
  EXPECT_EQ(Order(2, 3).text(), "ABBAAB");
  EXPECT_EQ(Order(2, 4).text(), "AABBBBAA");
  EXPECT_EQ(Order(3, 2).text(), "ABCCBA");
  EXPECT_EQ(Order(3, 3).text(), "ABCCBAABC");
  EXPECT_EQ(Order(3, 5).text(), "AABBCCCCBBAAABC") << "the turns stay";
}

TEST(Visits, ASteadyDriftCancelsOrLeavesOneRepetitionOverTheirNumber) {
  for (size_t num_loads = 1; num_loads <= 5; ++num_loads) {
    for (int repetitions = 1; repetitions <= 10; ++repetitions) {
      const Order order(num_loads, repetitions);
      for (size_t load = 0; load < num_loads; ++load) {
        ASSERT_EQ(int(order.places[load].size()), repetitions);
        const int apart = int(load) * (repetitions % 2);  // mean places, times the number of repetitions
        EXPECT_EQ(std::abs(order.sum(load) - order.sum(0)), apart) << num_loads << " loads, " << repetitions;
        EXPECT_LE(order.loadings[load], repetitions % 2 == 0 || repetitions == 1 ? 2 : 3);
      }
    }
  }
}

TEST(Visits, ALoadThatIsDearKeepsItsRepetitionsTogether) {
  EXPECT_EQ(Order(2, 3, {0}).text(), "AAABBB");
  EXPECT_EQ(Order(2, 3, {0}).loadings, (std::vector<int>{1, 1})) << "nothing lies between";
  EXPECT_EQ(Order(2, 3, {1}).text(), "ABBBAA");
  EXPECT_EQ(Order(3, 2, {2}).text(), "ABCCBA");
  EXPECT_EQ(Order(2, 4, {0, 1}).loadings, (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace paceline
