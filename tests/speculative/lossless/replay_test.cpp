// The drafts of one engine, verified again by another: the same text from the same drafts.

#include <fstream>

#include <gtest/gtest.h>

#include "speculative/replay_proposer.h"
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
    EngineRig other(workload.rig_options(2, 1));
    const RunReport replayed = run_checked(*other.make_engine(setup), requests);
    EXPECT_TRUE(replayed.clean()) << replayed.describe();
    EXPECT_EQ(replayed.counters.drafted, recorded.counters.drafted);
    EXPECT_EQ(replayed.counters.accepted, recorded.counters.accepted);
    EXPECT_GT(replayed.counters.accepted, 0);
  }
}

}  // namespace
}  // namespace paceline::test
