#include "speculative/draft_proposer.h"

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "speculative/chain_verifier.h"
#include "tests/support/fake_model.h"

namespace paceline {
namespace {

using test::FakeModel;
using test::FakeModelOptions;

struct DraftRun {
  EngineCounters counters;
  ProposerStats stats;
  int free_draft_blocks = 0;
};

/// Five requests under a draft model; their texts must be the target's own.
DraftRun run_draft(const FakeModelOptions& draft_options, int draft_len, int draft_blocks = 64, int max_num_rows = 64) {
  FakeModel target(FakeModelOptions{}), draft(draft_options);
  const DraftOptions options{.pool = {.num_blocks = draft_blocks, .block_size = 4},
                             .max_num_seqs = 3,
                             .max_num_rows = max_num_rows,
                             .max_draft_len = draft_len,
                             .vocab_size = 23,
                             .target_vocab_size = 23};
  auto proposer = std::make_unique<DraftProposer>(draft, options);
  const DraftProposer& watched = *proposer;
  Engine engine({.scheduler = {.max_num_seqs = 3, .max_num_batched_tokens = 32, .max_model_len = 96},
                 .pool = {.num_blocks = 64, .block_size = 4},
                 .num_speculative_tokens = draft_len},
                target, std::move(proposer), std::make_unique<ChainVerifier>(VerifierOptions{}));
  std::vector<std::vector<int32_t>> prompts, texts(5);
  for (int i = 0; i < 5; ++i) {
    prompts.emplace_back();
    for (int j = 0; j < 3 + i * 7; ++j) prompts.back().push_back((i * 5 + j * j) % 22);
    SamplingParams params;
    params.max_tokens = 30;
    engine.submit(prompts.back(), params);
  }
  while (!engine.idle()) {
    for (const Emitted& one : engine.step())
      texts[size_t(one.seq - 1)].insert(texts[size_t(one.seq - 1)].end(), one.token.begin(), one.token.end());
    watched.pool().check();
  }
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(texts[i], target.greedy_text(prompts[i], 30)) << i;
  EXPECT_EQ(watched.pool().num_free(), draft_blocks);
  return {engine.counters(), engine.proposer_stats(), watched.pool().num_free()};
}

TEST(DraftProposer, TheTargetItselfIsAlwaysRight) {
  for (const int draft_len : {1, 2, 5}) {
    for (const int max_num_rows : {3, 7, 64}) {
      const DraftRun run = run_draft({}, draft_len, 64, max_num_rows);
      EXPECT_EQ(run.counters.accepted, run.counters.drafted) << draft_len << " " << max_num_rows;
      EXPECT_GE(run.counters.drafted, 70);
    }
  }
}

TEST(DraftProposer, AnotherModelIsMostlyWrong) {
  const DraftRun run = run_draft({.seed = 2}, 4);
  EXPECT_LT(run.counters.accepted * 4, run.counters.drafted);
}

TEST(DraftProposer, AShortModelStopsDrafting) {
  const DraftRun run = run_draft({.max_model_len = 20}, 4);
  EXPECT_EQ(run.counters.accepted, run.counters.drafted);
  EXPECT_GT(run.counters.drafted, 0);
  EXPECT_LT(run.counters.drafts, run.counters.verdicts / 2);
}

TEST(DraftProposer, ASmallPoolDraftsLess) {
  const DraftRun run = run_draft({}, 4, 9);
  EXPECT_EQ(run.counters.accepted, run.counters.drafted);
  EXPECT_LT(run.counters.drafts, run.counters.verdicts - 5);
}

// NaN in the draft model: fewer drafts, the same text.
TEST(DraftProposer, ADraftModelWithoutNumbersCostsDraftsOnly) {
  int64_t all = 0, some = 0;
  for (int32_t poison = 0; poison < 6; ++poison) {
    all += run_draft({}, 4).counters.drafted;
    some += run_draft({.poison = poison}, 4).counters.drafted;
  }
  EXPECT_LT(some, all);
}

}  // namespace
}  // namespace paceline
