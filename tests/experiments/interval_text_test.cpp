// Ratios with their intervals as text, wherever they are printed.

#include <gtest/gtest.h>

#include "experiments/analysis/statistics/statistics.h"
#include "experiments/report/text/text.h"

namespace paceline {
namespace {

TEST(IntervalText, IsOneFormulaAtAnyNumberOfDigits) {
  EXPECT_EQ(bound_text(1), "1.00");
  EXPECT_EQ(bound_text(1.0049), "1.005");
  EXPECT_EQ(bound_text(1.0049, 3), "1.005");
  EXPECT_EQ(bound_text(0.99996, 3), "0.99996");
  EXPECT_EQ(bound_text(1.0000001), "1.00000");
  EXPECT_EQ(interval_text(1.2, 1.0002, 1.4, 3), "1.200× [1.0002, 1.400]");
}

TEST(IntervalText, TablesPrintNoEndAsOneThatIsNotOne) {
  EXPECT_EQ(speedup_text(RatioInterval{.ratio = 2, .low = 1, .high = 4}), "2.00× [1.00, 4.00]");
  EXPECT_EQ(speedup_text(RatioInterval{.ratio = 2, .low = {}, .high = {}}), "2.00×");
  EXPECT_EQ(speedup_text({}), "–");
  EXPECT_EQ(speedup_text(RatioInterval{.ratio = 1.1, .low = 1.003, .high = 1.2}), "1.10× [1.003, 1.20]");
  EXPECT_EQ(speedup_text(RatioInterval{.ratio = 1.1, .low = 0.997, .high = 1.2}), "1.10× [0.997, 1.20]");
  EXPECT_EQ(speedup_text(RatioInterval{.ratio = 0.9, .low = 0.8, .high = 0.9998}), "0.90× [0.80, 0.9998]");
}

}  // namespace
}  // namespace paceline
