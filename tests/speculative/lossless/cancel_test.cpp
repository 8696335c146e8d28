// Requests that are cancelled at any moment leave no trace: the others' tokens, the pools, the draft's cache.

#include <random>

#include <gtest/gtest.h>

#include "tests/speculative/lossless/workload.h"

namespace paceline::test {
namespace {

struct CancelCase {
  RigProposer proposer;
  int tp, pp;
};

class CancelTest : public ::testing::TestWithParam<CancelCase> {};

TEST_P(CancelTest, OthersAreUnchangedAndAllBlocksComeBack) {
  const CancelCase& test = GetParam();
  Workload workload = Workload::golden("llama-gqa-tied", 6, 56);  // few prompts: most requests share a prefix
  EngineRig rig(workload.rig_options(test.tp, test.pp));
  int64_t num_cancelled = 0, hits = 0, preemptions = 0, swapped = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const VerifyRule rule = seed % 2 ? VerifyRule::coupled : VerifyRule::greedy;
    const auto requests = workload.requests({.rule = rule, .seed = seed, .min_requests = 40});
    EngineSetup setup{.proposer = test.proposer,
                      .rule = rule,
                      .num_speculative_tokens = 1 + int(seed),
                      .max_num_seqs = 8,
                      .max_num_batched_tokens = 64,
                      .prefix_caching = PrefixCaching::on};
    setup.num_blocks = blocks_for(requests, setup.max_num_seqs, rig.options().block_size, 0.6);
    setup.num_host_blocks = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 3 : 100;  // none, few, enough
    auto engine = rig.make_engine(setup);
    std::mt19937_64 random(seed);
    std::set<SeqId> cancelled;
    const auto cancel_some = [&](Engine& running, int, std::span<const SeqId> ids) {
      for (uint64_t i = random() % 8; i < 2; ++i) {
        const SeqId victim = ids[random() % ids.size()];  // waiting, running, ended or cancelled before
        running.cancel(victim);
        cancelled.insert(victim);
      }
      running.cancel(999'999);  // unknown: ignored
    };
    const RunReport report = run_checked(
        *engine, requests, {.before_step = cancel_some, .draft = rig.draft_proposer(), .cancelled = &cancelled});
    EXPECT_TRUE(report.clean()) << report.describe();
    num_cancelled += int64_t(cancelled.size());
    hits += report.prefix_hit_tokens;
    preemptions += report.counters.preemptions;
    swapped += report.counters.swapped_blocks;
  }
  EXPECT_GT(num_cancelled, 30);
  EXPECT_GT(hits, 0);
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(swapped, 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, CancelTest,
                         ::testing::Values(CancelCase{RigProposer::none, 1, 1}, CancelCase{RigProposer::ngram, 1, 1},
                                           CancelCase{RigProposer::draft, 1, 1}, CancelCase{RigProposer::ngram, 2, 2},
                                           CancelCase{RigProposer::self_draft, 1, 2}),
                         [](const auto& param) {
                           std::string name = rig_proposer_name(param.param.proposer);
                           std::erase(name, '-');
                           return name + "_tp" + std::to_string(param.param.tp) + "_pp" +
                                  std::to_string(param.param.pp);
                         });

}  // namespace
}  // namespace paceline::test
