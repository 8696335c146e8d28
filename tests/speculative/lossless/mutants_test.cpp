// Each planted off-by-one turns the losslessness check red.

#include "tests/speculative/lossless/mutants.h"

#include <gtest/gtest.h>

#include "tests/speculative/lossless/fresh_cache.h"
#include "tests/speculative/lossless/workload.h"

namespace paceline::test {
namespace {

/// A small cell of the matrix, over whatever the test puts in its place. A broken engine takes its rig with it.
class MutantTest : public ::testing::Test {
 protected:
  MutantTest() : workload_(Workload::trained(3, 3, 64)), rig_(workload_.rig_options(1, 1)) {
    requests_ = workload_.requests({.seed = 5, .min_requests = 8});
    setup_ = {.proposer = RigProposer::draft, .num_speculative_tokens = 3, .max_num_seqs = 3};
  }
  RunReport run() {
    auto engine = rig_.make_engine(setup_);
    return run_checked(*engine, requests_);
  }

  Workload workload_;
  EngineRig rig_;
  std::vector<CheckedRequest> requests_;
  EngineSetup setup_;
};

TEST_F(MutantTest, TheDecoratorAloneChangesNothing) {
  UnchangedModel target(rig_.target());
  setup_.target = &target;
  const RunReport report = run();
  EXPECT_TRUE(report.clean()) << report.describe();
  EXPECT_GT(target.num_changes(), 0);
}

TEST_F(MutantTest, RollbackThatKeepsAKvRow) {
  KeepsRejectedRow target(rig_.target());
  setup_.target = &target;
  const RunReport report = run();
  EXPECT_GT(target.num_changes(), 0);
  EXPECT_GT(report.mismatches, 0);
}

TEST_F(MutantTest, RollbackThatCommitsARow) {
  setup_.wrap_verifier = [](std::unique_ptr<Verifier> inner) {
    return std::make_unique<CommitsRejectedRow>(std::move(inner));
  };
  const RunReport report = run();
  EXPECT_FALSE(report.clean());
  EXPECT_FALSE(report.error.empty());
}

TEST_F(MutantTest, BonusFromThePreviousPosition) {
  BonusFromPreviousRow target(rig_.target());
  setup_.target = &target;
  const RunReport report = run();
  EXPECT_GT(target.num_changes(), 0);
  EXPECT_GT(report.mismatches, 0);
}

TEST_F(MutantTest, WrongSlotBehindABlockBoundary) {
  WrongSlotAfterBoundary target(rig_.target(), rig_.options().block_size);
  setup_.target = &target;
  const RunReport report = run();
  EXPECT_GT(target.num_changes(), 0);
  EXPECT_GT(report.mismatches, 0);
}

TEST_F(MutantTest, DraftCacheWithoutTheRefillRow) {
  setup_.proposer = RigProposer::self_draft;
  const RunReport right = run();
  EXPECT_TRUE(right.clean()) << right.describe();
  EXPECT_EQ(right.counters.accepted, right.counters.drafted);

  // KV pages of its own: in those of the run above, the rows that are lost now still lie where they belong.
  const auto draft_model = rig_.new_draft_model(RigProposer::self_draft, DraftPlacement::deciding_rank);
  LosesRefillRow draft(*draft_model);
  const auto fresh_model = rig_.new_draft_model(RigProposer::self_draft, DraftPlacement::deciding_rank);
  ComparesWithFreshCache::Findings findings;
  setup_.draft = &draft;
  setup_.wrap_proposer = [&](std::unique_ptr<Proposer> inner) {
    return std::make_unique<ComparesWithFreshCache>(std::move(inner), *fresh_model, rig_.draft_options(setup_),
                                                    findings);
  };
  const RunReport report = run();
  EXPECT_GT(draft.num_changes(), 0);
  EXPECT_EQ(report.mismatches, 0) << "a lossless verifier hides it";
  EXPECT_LT(report.counters.accepted, report.counters.drafted);
  EXPECT_GT(findings.num_different, 0);
}

}  // namespace
}  // namespace paceline::test
