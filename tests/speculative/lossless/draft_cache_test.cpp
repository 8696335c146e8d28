// The drafts of a caching proposer equal those of a fresh cache, at every step of runs that do to a cache whatever can
// be done to it: rejections, full acceptances, preemptions, and lengths that change from step to step, 0 included.

#include <random>

#include <gtest/gtest.h>

#include "speculative/selftest/fresh_drafts.h"
#include "tests/speculative/lossless/workload.h"

namespace paceline::test {
namespace {

struct DraftCacheCase {
  const char* name;
  RigProposer proposer;
  VerifyRule rule;
  int tp = 1, pp = 1;
  DraftPlacement placement = DraftPlacement::deciding_rank;
  DraftModelOptions options = {};

  /// Else they have the law of plain decoding's only.
  bool has_tokens_of_plain() const { return rule == VerifyRule::greedy || rule == VerifyRule::coupled; }
};

constexpr DraftModelOptions kWideTree{.width = 4, .depth = 3}, kNarrowTree{.width = 2, .depth = 8};

class DraftCacheTest : public ::testing::TestWithParam<DraftCacheCase> {};

TEST_P(DraftCacheTest, DraftsEqualThoseOfAFreshCache) {
  const DraftCacheCase& test = GetParam();
  Workload workload = Workload::trained(4, 4, 48);
  EngineRig rig(workload.rig_options(test.tp, test.pp));
  const auto requests = workload.requests({.rule = test.rule, .seed = 11, .min_requests = 28});
  EngineSetup setup{.proposer = test.proposer,
                    .rule = test.rule,
                    .draft_placement = test.placement,
                    .proposer_options = test.options,
                    .max_num_seqs = 4,
                    .max_num_batched_tokens = 160};
  setup.num_blocks = blocks_for(requests, 4, rig.options().block_size, 0.55);
  setup.num_host_blocks = 40;  // their drafts' KV is made again in one pass, the target's comes back
  const auto fresh_model = rig.new_draft_model(test.proposer, test.placement);
  ComparesWithFreshCache::Findings findings;
  setup.wrap_proposer = [&](std::unique_ptr<Proposer> inner) {
    return std::make_unique<ComparesWithFreshCache>(std::move(inner), *fresh_model, rig.draft_options(setup), findings);
  };
  auto engine = rig.make_engine(setup);
  std::mt19937_64 random(3);
  int64_t num_steps_without = 0;
  const auto change_length = [&](Engine& running, int step, std::span<const SeqId>) {
    static constexpr int kLengths[] = {0, 0, 1, 2, 3, 5, 8};
    // Runs of steps without drafts are longer than the first pass can carry, now and then.
    const int length = step % 40 < 12 && step > 40 ? 0 : kLengths[random() % 7];
    num_steps_without += length == 0;
    running.set_num_speculative_tokens(length);
  };
  const RunReport report =
      run_checked(*engine, requests, {.before_step = change_length, .draft = rig.draft_proposer()});
  if (test.has_tokens_of_plain()) {
    EXPECT_TRUE(report.clean()) << report.describe();
  } else {
    EXPECT_TRUE(report.error.empty()) << report.error;
  }
  EXPECT_EQ(findings.num_different, 0) << "of " << findings.num_compared;
  EXPECT_GT(findings.num_compared, 60);
  EXPECT_GT(report.counters.preemptions, 0);
  EXPECT_GT(report.counters.swapped_blocks, 0);
  EXPECT_GT(num_steps_without, 0);
  EXPECT_GT(report.counters.accepted, 0);
  if (test.proposer == RigProposer::draft || test.options.width > 1) {
    EXPECT_LT(report.counters.accepted, report.counters.drafted);
  } else if (test.has_tokens_of_plain()) {
    EXPECT_EQ(report.counters.accepted, report.counters.drafted);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DraftCacheTest,
    ::testing::Values(
        DraftCacheCase{"greedy", RigProposer::draft, VerifyRule::greedy},
        DraftCacheCase{"coupled", RigProposer::draft, VerifyRule::coupled},
        DraftCacheCase{"rejection", RigProposer::draft, VerifyRule::rejection},
        DraftCacheCase{"block", RigProposer::draft, VerifyRule::block},
        DraftCacheCase{"coupled_argmax_pp2",
                       RigProposer::draft,
                       VerifyRule::coupled,
                       1,
                       2,
                       DraftPlacement::deciding_rank,
                       {.sampling = DraftDraws::argmax}},
        DraftCacheCase{"self", RigProposer::self_draft, VerifyRule::greedy},
        DraftCacheCase{"self_coupled_tp2_pp2", RigProposer::self_draft, VerifyRule::coupled, 2, 2},
        DraftCacheCase{"tp2_on_deciding_rank", RigProposer::draft, VerifyRule::coupled, 2, 1},
        DraftCacheCase{"tp2_with_draft_tp2", RigProposer::draft, VerifyRule::coupled, 2, 1, DraftPlacement::last_stage},
        DraftCacheCase{"tp2_pp2_with_draft_tp2", RigProposer::draft, VerifyRule::greedy, 2, 2,
                       DraftPlacement::last_stage},
        DraftCacheCase{"pp2", RigProposer::draft, VerifyRule::greedy, 1, 2},
        DraftCacheCase{"tree", RigProposer::draft, VerifyRule::greedy, 1, 1, DraftPlacement::deciding_rank, kWideTree},
        DraftCacheCase{"tree_rejection", RigProposer::draft, VerifyRule::rejection, 1, 1, DraftPlacement::deciding_rank,
                       kWideTree},
        DraftCacheCase{"tree_coupled_tp2_pp2_with_draft_tp2", RigProposer::draft, VerifyRule::coupled, 2, 2,
                       DraftPlacement::last_stage, kNarrowTree},
        DraftCacheCase{"tree_self_tp2", RigProposer::self_draft, VerifyRule::greedy, 2, 1,
                       DraftPlacement::deciding_rank, kNarrowTree}),
    [](const auto& param) { return std::string(param.param.name); });

/// Speculation that is switched off and on, longer and shorter, changes no token.
class ChangingLengthTest : public ::testing::TestWithParam<std::tuple<RigProposer, VerifyRule>> {};

TEST_P(ChangingLengthTest, TokensEqualPlainDecoding) {
  const auto [proposer, rule] = GetParam();
  Workload workload = Workload::trained(4, 4, 64);
  for (const auto& [tp, pp] : {std::pair{1, 1}, std::pair{2, 2}}) {
    EngineRig rig(workload.rig_options(tp, pp));
    const auto requests = workload.requests({.rule = rule, .seed = 21, .min_requests = 12});
    auto engine = rig.make_engine({.proposer = proposer,
                                   .rule = rule,
                                   .draft_placement = DraftPlacement::last_stage,
                                   .max_num_seqs = 5,
                                   .max_num_batched_tokens = 96,
                                   .prefix_caching = PrefixCaching::on});
    std::mt19937_64 random(17);
    const auto change_length = [&](Engine& running, int, std::span<const SeqId>) {
      running.set_num_speculative_tokens(int(random() % 9));
    };
    const RunReport report =
        run_checked(*engine, requests, {.before_step = change_length, .draft = rig.draft_proposer()});
    EXPECT_TRUE(report.clean()) << report.describe();
    EXPECT_GT(report.counters.accepted, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Proposers, ChangingLengthTest,
                         ::testing::Combine(::testing::Values(RigProposer::ngram, RigProposer::draft,
                                                              RigProposer::self_draft),
                                            ::testing::Values(VerifyRule::greedy, VerifyRule::coupled)),
                         [](const auto& param) {
                           std::string name = rig_proposer_name(std::get<0>(param.param));
                           std::erase(name, '-');
                           return name + (std::get<1>(param.param) == VerifyRule::greedy ? "_greedy" : "_coupled");
                         });

}  // namespace
}  // namespace paceline::test
