// Steps launched before the previous one is known: same tokens, and rows of sequences that had ended are dropped.

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "tests/speculative/lossless/workload.h"

namespace paceline::test {
namespace {

struct RunAheadCase {
  int run_ahead;
  int tp, pp;
  VerifyRule rule;
};

class RunAheadTest : public ::testing::TestWithParam<RunAheadCase> {
 protected:
  RunAheadTest()
      : workload_(Workload::golden("llama", 24, 48)), rig_(workload_.rig_options(GetParam().tp, GetParam().pp)) {
    requests_ = workload_.requests({.rule = GetParam().rule, .seed = 31, .min_requests = 40});
  }

  EngineSetup setup() const {
    return {.max_num_seqs = 6, .max_num_batched_tokens = 64, .run_ahead = GetParam().run_ahead};
  }

  Workload workload_;
  EngineRig rig_;
  std::vector<CheckedRequest> requests_;
};

TEST_P(RunAheadTest, TokensEqualThoseOfOneStepAtATime) {
  for (const PrefixCaching caching : {PrefixCaching::off, PrefixCaching::on}) {
    EngineSetup ahead = setup();
    ahead.prefix_caching = caching;
    auto engine = rig_.make_engine(ahead);
    const RunReport report = run_checked(*engine, requests_);
    EXPECT_TRUE(report.clean()) << report.describe();
    const bool stops = std::any_of(requests_.begin(), requests_.end(),
                                   [](const auto& request) { return request.expected_finish == FinishReason::stop; });
    EXPECT_TRUE(stops) << "the workload has no early stop";
    if (GetParam().run_ahead == 0) {
      EXPECT_EQ(report.counters.dead_rows, 0);
    } else {
      EXPECT_GT(report.counters.dead_rows, 0);  // a stop is learnt late
    }
  }
}

TEST_P(RunAheadTest, TightPool) {
  EngineSetup tight = setup();
  tight.num_blocks = blocks_for(requests_, tight.max_num_seqs, rig_.options().block_size, 0.6);
  auto engine = rig_.make_engine(tight);
  const RunReport report = run_checked(*engine, requests_);
  EXPECT_TRUE(report.clean()) << report.describe();
}

TEST_P(RunAheadTest, CancelWithStepsInFlight) {
  EngineSetup ahead = setup();
  ahead.prefix_caching = PrefixCaching::on;
  auto engine = rig_.make_engine(ahead);
  std::mt19937_64 random(8);
  std::set<SeqId> cancelled;
  const auto cancel_some = [&](Engine& running, int, std::span<const SeqId> ids) {
    if (random() % 6 != 0) return;
    const SeqId victim = ids[random() % ids.size()];
    running.cancel(victim);
    cancelled.insert(victim);
  };
  const RunReport report =
      run_checked(*engine, requests_, {.before_step = cancel_some, .draft = nullptr, .cancelled = &cancelled});
  EXPECT_TRUE(report.clean()) << report.describe();
  EXPECT_GT(cancelled.size(), 3u);
  EXPECT_TRUE(GetParam().run_ahead == 0 || report.counters.dead_rows > 0);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RunAheadTest,
    ::testing::Values(RunAheadCase{0, 1, 1, VerifyRule::greedy}, RunAheadCase{1, 1, 1, VerifyRule::greedy},
                      RunAheadCase{2, 1, 1, VerifyRule::coupled}, RunAheadCase{1, 2, 1, VerifyRule::coupled},
                      RunAheadCase{2, 2, 1, VerifyRule::greedy}, RunAheadCase{2, 1, 2, VerifyRule::greedy},
                      RunAheadCase{1, 2, 2, VerifyRule::coupled}),
    [](const auto& param) {
      const RunAheadCase& test = param.param;
      return "ahead" + std::to_string(test.run_ahead) + "_tp" + std::to_string(test.tp) + "_pp" +
             std::to_string(test.pp);
    });

}  // namespace
}  // namespace paceline::test
