#include "experiments/results/reachable_concurrency.h"

#include <gtest/gtest.h>

namespace paceline::test {
namespace {

TEST(ReachableConcurrency, IsTheLeastOfWhatIsAskedSentAndTaken) {
  EXPECT_EQ(reachable_concurrency({.requests = 64, .concurrency = 16, .max_num_seqs = 64}), 16);
  EXPECT_EQ(reachable_concurrency({.requests = 12, .concurrency = 16, .max_num_seqs = 64}), 12);
  EXPECT_EQ(reachable_concurrency({.requests = 64, .concurrency = 16, .max_num_seqs = 6}), 6);
  EXPECT_EQ(reachable_concurrency({.requests = 64, .concurrency = 0, .max_num_seqs = 32}), 32) << "all at once";
}

}  // namespace
}  // namespace paceline::test
