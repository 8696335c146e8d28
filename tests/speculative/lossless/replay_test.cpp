// The drafts of one engine, verified again by another: the same text from the same drafts.

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "speculative/replay_proposer.h"
#include "speculative/synthetic_proposer.h"
#include "tests/speculative/lossless/workload.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline::test {
namespace {

TEST(Replay, VerifiesTheSameDraftsUnderAnotherPlacement) {
  Workload workload = Workload::trained(4, 4, 48);
  for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::coupled}) {
    const auto requests = workload.requests({.rule = rule, .seed = 3, .min_requests = 8});
    EngineSetup setup{
        .proposer = {.name = "draft", .branches = true}, .rule = rule, .num_speculative_tokens = 7, .max_num_seqs = 3};
    DraftRecord record;
    setup.wrap_proposer = [&](std::unique_ptr<Proposer> inner) {
      return std::make_unique<RecordsProposals>(std::move(inner), record);
    };
    EngineRig rig(workload.rig_options(1, 1));
    const RunReport recorded = run_checked(*rig.make_engine(setup), requests);
    EXPECT_TRUE(recorded.clean()) << recorded.describe();
    const TempDir dir;
    const std::filesystem::path file = dir.path() / "drafts.jsonl";
    std::ofstream(file) << draft_record_text(record);

    setup.proposer = {.name = "replay"};
    setup.proposer_options = ReplayOptions{.file = file.string()};
    setup.wrap_proposer = {};
    EngineRig other(workload.rig_options(std::min(2, most_rig_ranks()), 1));
    const RunReport replayed = run_checked(*other.make_engine(setup), requests);
    EXPECT_TRUE(replayed.clean()) << replayed.describe();
    EXPECT_EQ(replayed.counters.drafted, recorded.counters.drafted);
    EXPECT_EQ(replayed.counters.accepted, recorded.counters.accepted);
    EXPECT_GT(replayed.counters.accepted, 0);
  }
}

/// Stated acceptance costs what it costs and changes nothing.
TEST(Synthetic, KeepsAsManyAsStatedAndTheText) {
  Workload workload = Workload::trained(4, 4, 64);
  for (const char* const costs : {"", "ngram", "draft", "eagle3"}) {
    SCOPED_TRACE(costs);
    for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::coupled}) {
      const auto requests = workload.requests({.rule = rule, .seed = 5, .min_requests = 8});
      std::any kept;
      *kept_of_stage(kept, "synthetic") = texts_of(requests);
      EngineRig rig(workload.rig_options(1, 1));
      const RunReport report =
          run_checked(*rig.make_engine({.proposer = {.name = "synthetic"},
                                        .rule = rule,
                                        .proposer_options = SyntheticOptions{.rates = "0.7", .costs = costs},
                                        .num_speculative_tokens = 4,
                                        .max_num_seqs = 3,
                                        .kept = &kept}),
                      requests);
      EXPECT_TRUE(report.clean()) << report.describe();
      const double kept_first = double(report.counters.accepted_at[0]) / double(report.counters.proposed_at[0]);
      EXPECT_NEAR(kept_first, 0.7, 0.15);
    }
  }
}

}  // namespace
}  // namespace paceline::test
