// The same tokens whatever the schedule: proposer, draft length, run-ahead, micro-batches, pool, budget, cache.

#include <set>

#include "fake_rig.h"

namespace paceline {
namespace {

using test::Completion;
using test::FakeProposer;
using test::FakeRig;
using test::FakeRigOptions;
using test::greedy_params;
using test::some_prompt;

enum class Drafts : uint8_t { none, some };

struct Total {
  EngineCounters counters;
  int64_t hits = 0, truncated = 0;
};

/// 14 requests, some with a common prefix, some with a common prompt, some sent later; checks tokens and counters.
void run_cell(const FakeRigOptions& options, bool ignore_eos, Total& total) {
  FakeRig rig(options);
  int64_t prompt_tokens = 0;
  const auto submit = [&](int i) {
    std::vector<int32_t> prompt = i % 3 == 0 ? some_prompt(13, 1) : some_prompt(1 + i * 5 % 19, i);
    if (i % 3 == 0) prompt.push_back(i % 23);
    const bool is_grouped = i % 4 == 3;
    if (is_grouped) prompt = some_prompt(11, 5);
    prompt_tokens += int64_t(prompt.size());
    rig.submit(prompt, greedy_params(1 + (i * 7) % 29, ignore_eos), 0, is_grouped ? 77 : 0);
  };
  for (int i = 0; i < 9; ++i) submit(i);
  for (int i = 0; i < 6; ++i) rig.step();
  for (int i = 9; i < 14; ++i) submit(i);
  while (!rig.engine->idle()) {
    rig.step();
    if (options.run_ahead == 0) {  // a sequence is in at most one batch in flight
      std::set<int32_t> slots;
      for (const auto& batch : rig.model.pending()) {
        for (const SeqRows& rows : batch->seqs) ASSERT_TRUE(slots.insert(rows.seq).second) << "slot " << rows.seq;
      }
    }
  }
  rig.run();
  rig.expect_all_texts();
  const EngineCounters& c = rig.engine->counters();
  EXPECT_EQ(c.emitted + rig.num_truncated, c.accepted + c.verdicts);
  EXPECT_EQ(c.accepted, rig.num_accepted);
  int64_t emitted = 0;
  for (const auto& [id, text] : rig.output) emitted += int64_t(text.size());
  EXPECT_EQ(c.emitted, emitted);
  int64_t accepted_at = 0, proposed_at = 0;
  for (int i = 0; i < kMaxDraftLen; ++i) {
    accepted_at += c.accepted_at[size_t(i)];
    proposed_at += c.proposed_at[size_t(i)];
    ASSERT_LE(c.accepted_at[size_t(i)], c.proposed_at[size_t(i)]);
  }
  EXPECT_EQ(accepted_at, c.accepted);
  EXPECT_EQ(proposed_at, c.drafted);
  EXPECT_LE(c.drafts, c.verdicts);
  EXPECT_EQ(c.steps, int64_t(rig.model.batches().size()));
  int64_t passes = 0, verdicts = 0;
  for (const PassTotals& of_kind : rig.engine->passes()) {
    passes += of_kind.passes;
    verdicts += of_kind.verdicts;
  }
  EXPECT_EQ(passes, c.steps);
  EXPECT_EQ(verdicts, c.verdicts);
  EXPECT_EQ(rig.engine->passes()[size_t(PassKind::mixed)].passes, c.mixed_steps);
  if (c.preemptions == 0) {
    EXPECT_LE(c.prompt_tokens_computed, prompt_tokens);
  }
  if (ignore_eos) {
    EXPECT_EQ(rig.num_truncated, 0);
  }
  if (!options.proposer || options.draft_len == 0) {
    EXPECT_EQ(c.drafted, 0);
  }
  if (options.micro_batches == 1 && (options.run_ahead == 0 || options.proposer)) {
    EXPECT_EQ(c.dead_rows, 0);
  }
  EXPECT_LE(rig.model.max_pending(), std::max(options.micro_batches, 1 + options.run_ahead));
  total.counters.accepted += c.accepted;
  total.counters.drafted += c.drafted;
  total.counters.preemptions += c.preemptions;
  total.counters.swapped_blocks += c.swapped_blocks;
  total.counters.dead_rows += c.dead_rows;
  total.counters.mixed_steps += c.mixed_steps;
  total.counters.block_crossings += c.block_crossings;
  total.hits += rig.engine->pool().prefix_hit_tokens();
  total.truncated += rig.num_truncated;
}

class EngineEquality : public testing::TestWithParam<std::tuple<Drafts, Completion>> {};

TEST_P(EngineEquality, TokensAndCounters) {
  const auto [drafts, completion] = GetParam();
  Total total;
  for (const int draft_len : {0, 1, 3, 5, 8}) {
    if (draft_len > 0 && drafts == Drafts::none) continue;
    for (const auto& [run_ahead, micro_batches] : {std::pair{0, 1}, {1, 1}, {2, 1}, {0, 2}, {0, 3}}) {
      for (const bool tight : {false, true}) {
        for (const auto caching : {PrefixCaching::off, PrefixCaching::on}) {
          for (const int budget : {7, 64}) {
            for (const bool ignore_eos : {false, true}) {
              FakeRigOptions options;
              options.model = {.num_blocks = tight ? 13 : 80,
                               .num_host_blocks = budget == 7  ? 0
                                                  : ignore_eos ? 4
                                                               : 40,
                               .block_size = 4,
                               .eos = {4, 9},
                               .completion = completion};
              options.draft_len = draft_len;
              options.run_ahead = run_ahead;
              options.micro_batches = micro_batches;
              options.budget = budget;
              options.caching = caching;
              if (drafts == Drafts::some) options.proposer = FakeProposer::Options{};
              SCOPED_TRACE(fmt::format("k {} run_ahead {} micro {} tight {} caching {} budget {} ignore_eos {}",
                                       draft_len, run_ahead, micro_batches, tight, int(caching), budget, ignore_eos));
              run_cell(options, ignore_eos, total);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
  // what must have happened for this to mean something
  EXPECT_GT(total.counters.preemptions, 50);
  EXPECT_GT(total.counters.swapped_blocks, 50);
  EXPECT_GT(total.counters.mixed_steps, 50);
  EXPECT_GT(total.hits, 100);
  if (drafts == Drafts::none) {
    EXPECT_GT(total.counters.dead_rows, 20);
  }
  if (drafts == Drafts::some) {
    EXPECT_GT(total.counters.accepted * 20, total.counters.drafted);
    EXPECT_GT((total.counters.drafted - total.counters.accepted) * 20, total.counters.drafted);
    EXPECT_GT(total.counters.block_crossings, 100);
    EXPECT_GT(total.truncated, 10);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineEquality,
                         testing::Combine(testing::Values(Drafts::none, Drafts::some),
                                          testing::Values(Completion::lazy, Completion::eager)));

TEST(Engine, StaticBatchingSaysTheSame) {
  for (const int draft_len : {0, 4}) {
    FakeRigOptions options;
    options.model = {.eos = {4}};
    options.batching = Batching::static_padded;
    options.draft_len = draft_len;
    options.proposer = FakeProposer::Options{};
    FakeRig rig(options);
    for (int i = 0; i < 10; ++i) rig.submit(some_prompt(2 + i * 3 % 11, i), greedy_params(3 + i * 5 % 17, false));
    rig.run();
    rig.expect_all_texts();
    int64_t padding = 0;
    for (const auto& batch : rig.model.batches()) {
      for (const SeqRows& rows : batch->seqs) padding += rows.seq < 0 ? rows.num_rows : 0;
    }
    EXPECT_GT(padding, 10);
  }
}

TEST(Engine, TheDraftLengthMayChangeFromStepToStep) {
  for (const int run_ahead : {0, 1}) {
    FakeRigOptions options;
    options.run_ahead = run_ahead;
    options.proposer = FakeProposer::Options{.wrong_per_mille = 100};
    FakeRig rig(options);
    for (int i = 0; i < 6; ++i) rig.submit(some_prompt(4 + i, i), greedy_params(40));
    for (int step = 0; !rig.engine->idle(); ++step) {
      rig.engine->set_num_speculative_tokens(step * 5 % 7);
      rig.step();
    }
    rig.run();
    rig.expect_all_texts();
    EXPECT_GT(rig.engine->counters().accepted, 20);
    EXPECT_GT(rig.engine->counters().verdicts, rig.engine->counters().drafts);
  }
}

// Everything in flight that can be: the depth is reached, and only there.
TEST(Engine, MicroBatchesFillThePipeline) {
  for (const int micro_batches : {1, 2, 3}) {
    FakeRigOptions options;
    options.micro_batches = micro_batches;
    options.max_num_seqs = 8;
    FakeRig rig(options);
    for (int i = 0; i < 8; ++i) rig.submit(some_prompt(5, i), greedy_params(10));
    rig.run();
    rig.expect_all_texts();
    EXPECT_EQ(rig.model.max_pending(), micro_batches);
  }
}

TEST(Engine, RunAheadHoldsThatManySteps) {
  for (const int run_ahead : {0, 1, 2}) {
    FakeRigOptions options;
    options.model.eos = {4};
    options.run_ahead = run_ahead;
    FakeRig rig(options);
    for (int i = 0; i < 8; ++i) rig.submit(some_prompt(5, i), greedy_params(60, false));
    rig.run();
    rig.expect_all_texts();
    EXPECT_EQ(rig.model.max_pending(), 1 + run_ahead);
    int64_t ended_early = 0;
    for (const auto& [id, reason] : rig.finish) ended_early += reason == FinishReason::stop;
    EXPECT_GT(ended_early, 2);
    EXPECT_EQ(rig.engine->counters().dead_rows > 0, run_ahead > 0);
    EXPECT_LE(rig.engine->counters().dead_rows, ended_early * run_ahead);
  }
}

}  // namespace
}  // namespace paceline
