#include <gtest/gtest.h>

#include "experiments/analysis/metrics/within_cell.h"

namespace paceline {
namespace {

RequestRecord request(std::vector<int> drafted, std::vector<int> accepted) {
  size_t tokens = 1;
  for (const int a : accepted) tokens += static_cast<size_t>(a) + 1;
  return {.output = std::vector<int32_t>(tokens), .drafted = std::move(drafted), .accepted = std::move(accepted)};
}

TEST(Acceptance, OfARequestCountsStepsThatHadDrafts) {
  EXPECT_DOUBLE_EQ(*acceptance_length(request({3, 0, 3}, {2, 0, 1})), 2.5);
  EXPECT_DOUBLE_EQ(*acceptance_length(request({3}, {0})), 1.0);
  EXPECT_FALSE(acceptance_length(request({0, 0}, {0, 0})));
  EXPECT_FALSE(acceptance_length(request({}, {})));
}

TEST(Acceptance, AlongTheOutputBelongsToTheTokensBeforeTheStep) {
  RepetitionResult repetition;
  repetition.requests = {request({3, 3, 0, 3}, {3, 1, 0, 2}),  // steps begin after 1, 5, 7 and 8 tokens; 11 in all
                         request({2, 2}, {0, 2})};             // after 1 and 2
  const std::vector<OutputRange> ranges = acceptance_along_output(repetition, 3);
  ASSERT_EQ(ranges.size(), 3u);
  const auto expect = [&](size_t i, int64_t from, int64_t to, int64_t drafts, int64_t accepted) {
    EXPECT_EQ(ranges[i].from, from) << i;
    EXPECT_EQ(ranges[i].to, to) << i;
    EXPECT_EQ(ranges[i].drafts, drafts) << i;
    EXPECT_EQ(ranges[i].accepted, accepted) << i;
  };
  expect(0, 0, 4, 3, 5);
  expect(1, 4, 8, 1, 1);
  expect(2, 8, 12, 1, 2);
  EXPECT_DOUBLE_EQ(*ranges[1].acceptance_length(), 2.0);
  EXPECT_TRUE(acceptance_along_output({}, 3).empty());
}

}  // namespace
}  // namespace paceline
