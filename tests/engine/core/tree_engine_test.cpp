// Draft trees through scheduler, batches, verdicts and KV: the fake model reads each row's history back from the slots,
// so a node that was moved too late, to the wrong place or not at all shows.

#include "fake_rig.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using namespace test;

struct TreeCase {
  const char* name;
  int draft_len;
  int num_blocks;
  int num_host_blocks;
  int micro_batches;
  PrefixCaching caching;
  int budget;
  Completion completion;
};

void PrintTo(const TreeCase& each, std::ostream* out) { *out << each.name; }

class TreeEngine : public testing::TestWithParam<TreeCase> {};

TEST_P(TreeEngine, TextsAreThoseOfPlainDecoding) {
  const TreeCase& each = GetParam();
  FakeRigOptions options;
  options.draft_len = each.draft_len;
  options.proposer = FakeProposer::Options{.trees = true};
  options.model.num_blocks = each.num_blocks;
  options.model.num_host_blocks = each.num_host_blocks;
  options.model.completion = each.completion;
  options.model.eos = {3};
  options.micro_batches = each.micro_batches;
  options.caching = each.caching;
  options.budget = each.budget;
  FakeRig rig(options);
  for (int i = 0; i < 24; ++i) {
    auto params = greedy_params(5 + i * 7 % 40);
    params.ignore_eos = i % 3 != 0;
    rig.submit(some_prompt(3 + i * 5 % 23, i % 6), params);  // prompts come again: prefix hits
  }
  rig.run();
  rig.expect_all_texts();
  const EngineCounters& counters = rig.engine->counters();
  EXPECT_GT(rig.model.num_moves, 0);
  EXPECT_GT(counters.accepted, 0);
  EXPECT_GT(counters.drafted, 2 * counters.accepted);
  EXPECT_GT(counters.accepted_at[1], 0);
  if (each.num_blocks < 40) {
    EXPECT_GT(counters.preemptions, 0);
  }
  if (each.num_host_blocks > 0) {
    EXPECT_GT(counters.swapped_blocks, 0);
  }
  if (each.caching == PrefixCaching::on) {
    EXPECT_GT(rig.engine->pool().prefix_hit_tokens(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, TreeEngine,
    testing::Values(TreeCase{"small", 5, 64, 0, 1, PrefixCaching::off, 64, Completion::lazy},
                    TreeCase{"wide", 24, 128, 0, 1, PrefixCaching::off, 96, Completion::lazy},
                    TreeCase{"most", 64, 256, 0, 1, PrefixCaching::off, 300, Completion::lazy},
                    TreeCase{"preempted", 9, 24, 0, 1, PrefixCaching::off, 64, Completion::lazy},
                    TreeCase{"swapped", 9, 24, 64, 1, PrefixCaching::off, 64, Completion::lazy},
                    TreeCase{"shared", 9, 64, 0, 1, PrefixCaching::on, 64, Completion::lazy},
                    TreeCase{"shared_and_preempted", 9, 26, 32, 1, PrefixCaching::on, 48, Completion::lazy},
                    TreeCase{"micro_batches", 7, 64, 0, 3, PrefixCaching::on, 64, Completion::lazy},
                    TreeCase{"micro_batches_swapped", 7, 26, 64, 2, PrefixCaching::on, 40, Completion::lazy},
                    TreeCase{"eager", 9, 26, 64, 2, PrefixCaching::on, 40, Completion::eager},
                    TreeCase{"chunks", 5, 64, 0, 1, PrefixCaching::on, 7, Completion::lazy}),
    [](const auto& each) { return std::string(each.param.name); });

// Nodes may be more than the positions that are left, which alone limit depth.
TEST(TreeEngine, DepthEndsWithTheTextAndNodesDoNot) {
  FakeRigOptions options;
  options.draft_len = 12;
  options.proposer = FakeProposer::Options{.wrong_per_mille = 0, .silent_per_mille = 0, .trees = true};
  FakeRig rig(options);
  rig.submit(some_prompt(6, 1), greedy_params(9));
  rig.run();
  rig.expect_all_texts();
  int most_drafts_at_the_end = 0;
  for (const auto& batch : rig.model.batches())
    for (size_t i = 0; i < batch->seqs.size(); ++i) {
      const SeqRows& rows = batch->seqs[i];
      const int left = 6 + 9 - batch->expected[i].length - 1;
      if (rows.num_drafts > left) most_drafts_at_the_end = std::max(most_drafts_at_the_end, rows.num_drafts);
      for (int row = rows.first_row; row < rows.first_row + rows.num_rows; ++row)
        EXPECT_LT(batch->position[size_t(row)], 6 + 9 - 1);
    }
  EXPECT_GT(most_drafts_at_the_end, 0);
}

// Drafts are made for collected verdicts: prompts run ahead, and no sequence goes on before its own verdict.
TEST(TreeEngine, ProposersAreNotRunAheadOf) {
  for (const bool trees : {false, true}) {
    FakeRigOptions options;
    options.draft_len = 4;
    options.run_ahead = 1;
    options.budget = 8;
    options.proposer = FakeProposer::Options{.trees = trees};
    FakeRig rig(options);
    for (int i = 0; i < 3; ++i) rig.submit(some_prompt(25, i), greedy_params(20));
    rig.run();
    rig.expect_all_texts();
    EXPECT_EQ(rig.model.max_pending(), 2);
    for (const auto& batch : rig.model.batches())
      for (const SeqRows& rows : batch->seqs) EXPECT_FALSE(rows.deferred);
    EXPECT_GT(rig.engine->counters().accepted, 10);
  }
}

}  // namespace
}  // namespace paceline
