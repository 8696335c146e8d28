// Losslessness for a variant of each family: what came between drafts and tokens in the matrix comes here at once, on
// all ranks, with windows that sequences cross.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/speculative/lossless/workload.h"

namespace paceline::test {
namespace {

struct FamilyCell {
  RigProposer proposer;
  int draft_len;
  VerifyRule rule;
  int tp, pp;
  PrefixCaching caching;
  double pool_share;  // as of blocks_for; below 1 sequences are preempted
  bool swaps;
};

const FamilyCell kFamilyCells[] = {
    {RigProposer::ngram, 3, VerifyRule::greedy, 1, 1, PrefixCaching::off, 0.55, false},
    {RigProposer::ngram, 2, VerifyRule::coupled, 1, 1, PrefixCaching::on, 1.3, false},
    {RigProposer::draft, 4, VerifyRule::coupled, 2, 2, PrefixCaching::on, 0.55, true},
    {RigProposer::draft, 5, VerifyRule::greedy, 2, 1, PrefixCaching::on, 1.3, false},
    {RigProposer::self_draft, 2, VerifyRule::greedy, 1, 2, PrefixCaching::off, 1.3, false},
};

class FamilyLossless : public testing::TestWithParam<std::string> {};

TEST_P(FamilyLossless, TokensEqualPlainDecoding) {
  constexpr int kConcurrency = 5, kMaxTokens = 40, kBudget = 24;  // tokens of a step: every prompt comes in chunks
  Workload workload = Workload::golden(GetParam(), 6, kMaxTokens);
  RunReport total;
  for (size_t i = 0; i < std::size(kFamilyCells); ++i) {
    const FamilyCell& cell = kFamilyCells[i];
    if (cell.tp * cell.pp > most_rig_ranks()) continue;
    SCOPED_TRACE(fmt::format("cell {}: tp {} pp {} {}", i, cell.tp, cell.pp, rig_proposer_name(cell.proposer)));
    EngineRig rig(workload.rig_options(cell.tp, cell.pp));
    const auto requests =
        workload.requests({.rule = cell.rule, .seed = i, .num_distinct = 4, .min_requests = 10, .min_tokens = 200});
    EngineSetup setup{.proposer = cell.proposer,
                      .rule = cell.rule,
                      .num_speculative_tokens = cell.draft_len,
                      .max_num_seqs = kConcurrency,
                      .max_num_batched_tokens = kBudget,
                      .prefix_caching = cell.caching};
    setup.num_blocks = std::min(blocks_for(requests, kConcurrency, rig.options().block_size, cell.pool_share),
                                rig.options().num_blocks);
    if (cell.swaps) setup.num_host_blocks = rig.options().num_host_blocks;
    const auto engine = rig.make_engine(setup);
    const RunReport report = run_checked(*engine, requests, {.draft = rig.draft_proposer()});
    EXPECT_TRUE(report.clean()) << report.describe();
    EXPECT_EQ(cell.pool_share<1, report.counters.preemptions> 0);
    if (cell.proposer.self) {
      EXPECT_EQ(report.counters.accepted, report.counters.drafted);
    }
    total.add(report);
  }
  EXPECT_GT(total.counters.drafted, total.counters.accepted) << "nothing was refused";
  EXPECT_GT(total.counters.accepted, 0);
  EXPECT_GT(total.counters.mixed_steps, 0);
  EXPECT_GT(total.prefix_hit_tokens, 0);
}

INSTANTIATE_TEST_SUITE_P(Goldens, FamilyLossless,
                         testing::Values("gpt2-unscaled", "gpt-neox-no-bias", "opt-no-affine", "llama-longrope",
                                         "qwen2-windows", "phi3", "stablelm-parallel", "gemma2", "gemma3", "falcon-new",
                                         "falcon-sequential"),
                         [](const auto& model) {
                           std::string name;
                           for (const char c : model.param) name += std::isalnum(c) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace paceline::test
