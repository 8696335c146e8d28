#include "engine/scheduler.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/engine/core/scheduler_desk.h"

namespace paceline {
namespace {

using test::blocks;
using test::Desk;
using test::text;

TEST(Scheduler, FirstComeFirstServedUnderTheBudget) {
  Desk desk({.max_num_seqs = 4, .max_num_batched_tokens = 10}, blocks(64));
  desk.add(1, 5);
  desk.add(2, 13);
  desk.add(3, 4);
  const auto first = desk.launch();
  EXPECT_EQ(text(first), "1:5 2:5!");
  desk.collect(first);
  const auto second = desk.launch();
  EXPECT_EQ(text(second), "1:1 2:8 3:1!");
  desk.collect(second);
  const auto third = desk.launch();
  EXPECT_EQ(text(third), "1:1 2:1 3:3");
  desk.collect(third);
  EXPECT_EQ(text(desk.launch()), "1:1 2:1 3:1");
  EXPECT_EQ(desk.scheduler.num_running(), 3);
  EXPECT_FALSE(desk.scheduler.idle());
}

TEST(Scheduler, NoMoreSequencesThanSlots) {
  Desk desk({.max_num_seqs = 2, .max_num_batched_tokens = 100}, blocks(64));
  for (SeqId id = 1; id <= 3; ++id) desk.add(id, 3);
  const auto step = desk.launch();
  EXPECT_EQ(text(step), "1:3 2:3");
  EXPECT_NE(step.rows[0].request->seq.slot, step.rows[1].request->seq.slot);
  desk.collect(step);
  const int32_t slot = desk.scheduler.find(1)->seq.slot;
  desk.scheduler.finish(1);
  EXPECT_EQ(desk.scheduler.find(1), nullptr);
  EXPECT_EQ(text(desk.launch()), "2:1 3:3");
  EXPECT_EQ(desk.scheduler.find(3)->seq.slot, slot);
}

// A prompt enters only when the pages of all of it are there, and nobody overtakes it.
TEST(Scheduler, AdmissionNeedsPagesForTheWholePrompt) {
  Desk desk({.max_num_seqs = 4, .max_num_batched_tokens = 100}, blocks(6));
  desk.add(1, 12);
  desk.add(2, 16);
  desk.add(3, 2);
  const auto step = desk.launch();
  EXPECT_EQ(text(step), "1:12");
  EXPECT_EQ(desk.scheduler.num_waiting(), 2);
  desk.collect(step);
  desk.scheduler.finish(1);
  EXPECT_EQ(text(desk.launch()), "2:16 3:2");
  EXPECT_EQ(desk.pool.num_free(), 1);
}

TEST(Scheduler, TheYoungestIsPreemptedAndComesBackFirst) {
  Desk desk({.max_num_seqs = 3, .max_num_batched_tokens = 100}, blocks(6));
  for (SeqId id = 1; id <= 3; ++id) desk.add(id, 7);  // 2 blocks each: the pool is full
  auto step = desk.launch();
  EXPECT_EQ(text(step), "1:7 2:7 3:7");
  desk.collect(step);
  step = desk.launch();
  EXPECT_EQ(text(step), "1:1 2:1 3:1");
  desk.collect(step);  // length 9 each: position 8 needs a third block
  step = desk.launch();
  EXPECT_EQ(text(step), "1:1 2:1");
  EXPECT_EQ(desk.preempted, (std::vector<SeqId>{3}));
  const Request& victim = *desk.scheduler.find(3);
  EXPECT_EQ(victim.seq.slot, -1);
  EXPECT_EQ(victim.launched, 0);
  EXPECT_TRUE(victim.needs_reset);
  EXPECT_EQ(victim.seq.num_preemptions, 1);
  EXPECT_FALSE(desk.pool.knows(3));
  desk.add(4, 1);
  desk.collect(step);
  desk.scheduler.finish(1);
  step = desk.launch();  // recomputes prompt and output in one go; then the newcomer
  EXPECT_EQ(text(step), "2:1 3:9");
  desk.collect(step);
  desk.scheduler.finish(2);
  EXPECT_EQ(text(desk.launch()), "3:1 4:1");
}

std::string text(const std::vector<BlockSwap>& swaps) {
  std::string all;
  for (const BlockSwap& swap : swaps)
    all += fmt::format("{}{}{}{}", all.empty() ? "" : " ", swap.block, swap.to_host ? ">" : "<", swap.host_block);
  return all;
}

// Its KV waits in host memory, comes back to other blocks, and nothing is computed again.
TEST(Scheduler, TheKvOfThePreemptedComesBack) {
  Desk desk({.max_num_seqs = 3, .max_num_batched_tokens = 100, .num_host_blocks = 5}, blocks(6));
  for (SeqId id = 1; id <= 3; ++id) desk.add(id, 7);
  for (int i = 0; i < 2; ++i) desk.collect(desk.launch());  // length 9 each
  const std::span<const int32_t> pages = desk.pool.pages(3);
  const std::vector<int32_t> lost(pages.begin(), pages.end());
  auto step = desk.launch();
  EXPECT_EQ(text(step), "1:1 2:1");
  EXPECT_EQ(text(step.swaps), fmt::format("{}>1 {}>0", lost[0], lost[1]));
  EXPECT_EQ(desk.scheduler.swap_space().num_free(), 3);
  EXPECT_EQ(desk.scheduler.find(3)->launched, 0);
  desk.collect(step);
  desk.scheduler.finish(1);
  step = desk.launch();
  EXPECT_EQ(text(step), "2:1 3:1");
  const std::span<const int32_t> now = desk.pool.pages(3);
  EXPECT_EQ(text(step.swaps), fmt::format("{}<1 {}<0", now[0], now[1]));
  EXPECT_EQ(desk.pool.cached(3), 8);
  EXPECT_EQ(desk.scheduler.swap_space().num_free(), 5);
  desk.collect(step);
  EXPECT_EQ(text(desk.launch().swaps), "");
}

TEST(Scheduler, WithoutRoomInHostMemoryKvIsComputedAgain) {
  Desk desk({.max_num_seqs = 3, .max_num_batched_tokens = 100, .num_host_blocks = 1}, blocks(6));
  for (SeqId id = 1; id <= 3; ++id) desk.add(id, 7);
  for (int i = 0; i < 2; ++i) desk.collect(desk.launch());
  auto step = desk.launch();
  EXPECT_EQ(desk.preempted, (std::vector<SeqId>{3}));
  EXPECT_EQ(text(step.swaps), "");
  desk.collect(step);
  desk.scheduler.finish(1);
  EXPECT_EQ(text(desk.launch()), "2:1 3:9");
}

TEST(Scheduler, WhoEndsWhileItsKvIsInHostMemoryLeavesNothingThere) {
  Desk desk({.max_num_seqs = 3, .max_num_batched_tokens = 100, .num_host_blocks = 4}, blocks(6));
  for (SeqId id = 1; id <= 3; ++id) desk.add(id, 7);
  for (int i = 0; i < 2; ++i) desk.collect(desk.launch());
  const auto step = desk.launch();
  EXPECT_EQ(desk.scheduler.swap_space().num_free(), 2);
  desk.scheduler.finish(3);
  EXPECT_EQ(desk.scheduler.swap_space().num_free(), 4);
  desk.collect(step);
}

// What the prefix cache still has is shared, and only the rest is copied back.
TEST(Scheduler, TheKvThatThePrefixCacheHasKeptStaysWhereItIs) {
  BlockPoolOptions pool = blocks(7);
  pool.prefix_caching = PrefixCaching::on;
  Desk desk({.max_num_seqs = 3, .max_num_batched_tokens = 100, .num_host_blocks = 4}, pool);
  for (SeqId id = 1; id <= 3; ++id) desk.add(id, 7);
  for (int i = 0; i < 2; ++i) desk.collect(desk.launch());
  const int32_t first = desk.pool.pages(3)[0];
  auto step = desk.launch();  // 1 takes the free block, 2 the last one of 3
  EXPECT_EQ(text(step), "1:1 2:1");
  EXPECT_EQ(step.swaps.size(), 2u);
  desk.collect(step);
  desk.scheduler.finish(1);
  step = desk.launch();
  EXPECT_EQ(text(step), "2:1 3:1");
  EXPECT_EQ(desk.pool.pages(3)[0], first);
  EXPECT_EQ(text(step.swaps), fmt::format("{}<0", desk.pool.pages(3)[1]));
  EXPECT_EQ(desk.pool.cached(3), 8);
  desk.collect(step);
}

// A sequence with a step in flight keeps its blocks; who needs them waits.
TEST(Scheduler, NobodyLosesBlocksInFlight) {
  Desk desk({.max_num_seqs = 2, .max_num_batched_tokens = 100, .num_micro_batches = 2}, blocks(4));
  desk.add(1, 7);
  desk.add(2, 8);
  const auto a = desk.launch();
  EXPECT_EQ(text(a), "1:7");
  const auto b = desk.launch();
  EXPECT_EQ(text(b), "2:8");
  desk.collect(a);
  const auto c = desk.launch();
  EXPECT_EQ(text(c), "1:1");
  desk.collect(c);  // length 9: needs a block, 2 is still in flight
  const auto none = desk.launch();
  EXPECT_EQ(text(none), "");
  EXPECT_TRUE(desk.preempted.empty());
  desk.collect(b);
  EXPECT_EQ(text(desk.launch()), "1:1");
  EXPECT_EQ(desk.preempted, (std::vector<SeqId>{2}));
}

TEST(Scheduler, MicroBatchesAreDisjoint) {
  Desk desk({.max_num_seqs = 8, .max_num_batched_tokens = 100, .num_micro_batches = 2}, blocks(64));
  for (SeqId id = 1; id <= 5; ++id) desk.add(id, 3);
  const auto a = desk.launch();
  const auto b = desk.launch();
  EXPECT_EQ(text(a), "1:3 2:3 3:3");
  EXPECT_EQ(text(b), "4:3 5:3");
  EXPECT_EQ(text(desk.launch()), "");
  desk.collect(a);
  const auto c = desk.launch();
  EXPECT_EQ(text(c), "1:1 2:1 3:1");
  desk.collect(b);
  EXPECT_EQ(text(desk.launch()), "4:1 5:1");
}

TEST(Scheduler, DraftsAreLimited) {
  {  // by the tokens that remain after the one that is certain
    Desk desk({.max_num_seqs = 1, .max_num_batched_tokens = 100, .max_model_len = 100}, blocks(64));
    desk.add(1, 3, 5);
    auto step = desk.launch(8);
    EXPECT_EQ(text(step), "1:3");  // a prompt has nothing to draft from
    desk.collect(step);
    step = desk.launch(8);
    EXPECT_EQ(text(step), "1:1+3");
    desk.collect(step, 3);
    EXPECT_EQ(text(desk.launch(8)), "1:1");
  }
  {  // by max_model_len
    Desk desk({.max_num_seqs = 1, .max_num_batched_tokens = 100, .max_model_len = 10}, blocks(64));
    desk.add(1, 5, 100);
    desk.collect(desk.launch(8));
    EXPECT_EQ(text(desk.launch(8)), "1:1+3");  // length 6 + 3 drafts + the next token = 10
  }
  {  // by the budget
    Desk desk({.max_num_seqs = 3, .max_num_batched_tokens = 6, .max_model_len = 100}, blocks(64));
    for (SeqId id = 1; id <= 3; ++id) desk.add(id, 2);
    desk.collect(desk.launch(4));
    EXPECT_EQ(text(desk.launch(4)), "1:1+3 2:1 3:1");  // every sequence's own row comes first
  }
  {  // by the free blocks: drafts never preempt
    Desk desk({.max_num_seqs = 2, .max_num_batched_tokens = 100, .max_model_len = 100}, blocks(4));
    desk.add(1, 6);
    desk.add(2, 6);
    desk.collect(desk.launch(8));
    EXPECT_EQ(text(desk.launch(8)), "1:1+1 2:1+1");  // length 7, positions 6 and 7
    EXPECT_TRUE(desk.preempted.empty());
  }
  {  // by kMaxDraftLen
    Desk desk({.max_num_seqs = 1, .max_num_batched_tokens = 1000, .max_model_len = 1000}, blocks(64));
    desk.add(1, 6, 900);
    desk.collect(desk.launch(500));
    EXPECT_EQ(desk.launch(500).rows[0].max_drafts, kMaxDraftLen);
  }
}

// Known rows first: a prompt gets the pages that drafts would like to have, and drafts the rows before the prompt.
TEST(Scheduler, DraftsTakeRowsBeforePromptsAndPagesBehindThem) {
  {
    Desk desk({.max_num_seqs = 3, .max_num_batched_tokens = 9}, blocks(64));
    for (SeqId id = 1; id <= 2; ++id) desk.add(id, 3);
    desk.collect(desk.launch());
    desk.add(3, 50);
    for (int i = 0; i < 3; ++i) {  // a long prompt ends nobody's speculation
      const auto step = desk.launch(2);
      ASSERT_EQ(text(step), "1:1+2 2:1+2 3:3!");
      desk.collect(step);
    }
  }
  Desk desk({.max_num_seqs = 3, .max_num_batched_tokens = 100}, blocks(6));
  desk.add(1, 7);
  desk.collect(desk.launch());
  desk.add(2, 16);
  EXPECT_EQ(text(desk.launch(8)), "1:1 2:16");
}

// Drafts of a step in flight hold what an older sequence needs: it waits for them, and nobody is preempted.
TEST(Scheduler, PagesOfDraftsInFlightAreWaitedFor) {
  Desk desk({.max_num_seqs = 3, .max_num_batched_tokens = 100, .num_micro_batches = 3}, blocks(8));
  for (SeqId id = 1; id <= 3; ++id) desk.add(id, 7);
  const std::vector<ScheduledStep> prompts{desk.launch(), desk.launch(), desk.launch()};
  for (const ScheduledStep& step : prompts) desk.collect(step);
  const auto a = desk.launch();
  ASSERT_EQ(text(a), "1:1");
  const auto b = desk.launch(8);
  ASSERT_EQ(text(b), "2:1+8");  // the two free blocks
  desk.collect(a);              // position 8 of 1 needs a third block
  EXPECT_EQ(text(desk.launch()), "3:1");
  EXPECT_TRUE(desk.preempted.empty());
  desk.collect(b);
  EXPECT_EQ(text(desk.launch()), "1:1");
  EXPECT_TRUE(desk.preempted.empty());
}

// A request that is cancelled with drafts in flight gives all its pages back once that step is over.
TEST(Scheduler, WhoEndsWithDraftsInFlightKeepsNoPages) {
  Desk desk({.max_num_seqs = 2, .max_num_batched_tokens = 100}, blocks(8));
  for (SeqId id = 1; id <= 2; ++id) desk.add(id, 7);
  desk.collect(desk.launch());
  auto step = desk.launch(8);
  EXPECT_EQ(text(step), "1:1+8 2:1+8");
  desk.scheduler.finish(2);
  EXPECT_EQ(desk.pool.num_free(), 0);
  step.rows.pop_back();
  desk.collect(step);
  EXPECT_EQ(desk.pool.num_free(), 4);
  EXPECT_EQ(text(desk.launch()), "1:1");
  EXPECT_EQ(desk.pool.num_free(), 5);
}

// They come and go at the head of the free list, and what it keeps for others stays.
TEST(Scheduler, DraftsLeaveThePrefixCacheAlone) {
  BlockPoolOptions options = blocks(24);
  options.prefix_caching = PrefixCaching::on;
  Desk desk({.max_num_seqs = 2, .max_num_batched_tokens = 100, .max_model_len = 200}, options);
  desk.add(1, 13);
  desk.collect(desk.launch());
  desk.scheduler.finish(1);
  const std::vector<int32_t> prompt = [] {
    std::vector<int32_t> tokens;
    for (int i = 0; i < 13; ++i) tokens.push_back(1000 + i);
    return tokens;
  }();
  desk.add(2, 7, 150);
  for (int i = 0; i < 60; ++i) desk.collect(desk.launch(8));
  EXPECT_EQ(desk.pool.attach(9, prompt), 12);
  desk.pool.release(9, 0);
}

/// "id:known" per row, ! where no logits are wanted, in the order of ids: known rows of drafting and plain steps
/// compare.
std::string known_text(const ScheduledStep& step) {
  std::vector<std::pair<SeqId, std::string>> parts;
  for (const ScheduledRows& rows : step.rows)
    parts.emplace_back(rows.request->seq.id, fmt::format("{}{}", rows.num_known, rows.wants_logits ? "" : "!"));
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (const auto& [id, rows] : parts) out += fmt::format("{}:{} ", id, rows);
  return out;
}

// Random pools, budgets, k and swap spaces: sequences that decode and whose drafts are all refused get the rows, and
// lose the pages, that they would without drafts.
TEST(Scheduler, DraftsThatAreRefusedChangeNoKnownRowAndNoPreemption) {
  int64_t num_drafts = 0, num_preemptions = 0, num_recomputed = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](int low, int high) { return low + int(random() % unsigned(high - low + 1)); };
    const int num_seqs = pick(1, 6), block_size = pick(1, 6), max_tokens = pick(20, 60), draft_len = pick(1, 12);
    std::vector<int> prompts;
    int num_blocks = 0, longest = 0;
    for (int i = 0; i < num_seqs; ++i) {
      prompts.push_back(pick(1, 24));
      const auto blocks_for = [&](int len) { return (len + block_size - 1) / block_size; };
      num_blocks += blocks_for(prompts.back() + 1);
      longest = std::max(longest, blocks_for(prompts.back() + max_tokens));
    }
    num_blocks = std::max(num_blocks + pick(0, 8), longest);
    SchedulerOptions options{.max_num_seqs = pick(1, num_seqs),
                             .max_num_batched_tokens = pick(1, 40),
                             .max_model_len = 100,
                             .num_host_blocks = pick(0, 1) * pick(1, 30)};
    if (options.max_num_seqs < num_seqs) prompts.resize(size_t(options.max_num_seqs));  // nobody waits for a place
    Desk plain(options, blocks(num_blocks, block_size)), drafting(options, blocks(num_blocks, block_size));
    for (size_t i = 0; i < prompts.size(); ++i)
      for (Desk* desk : {&plain, &drafting}) desk->add(SeqId(i) + 1, prompts[i], max_tokens);
    const auto all_decode = [&] {
      for (size_t i = 0; i < prompts.size(); ++i) {
        const Request* const request = plain.scheduler.find(SeqId(i) + 1);
        if (request && request->seq.num_output() == 0) return false;
      }
      return true;
    };
    bool decodes = false;
    for (int step = 0; !plain.scheduler.idle(); ++step) {
      ASSERT_LT(step, 5000);
      decodes = decodes || all_decode();
      const ScheduledStep expected = plain.launch(), found = drafting.launch(decodes ? draft_len : 0);
      ASSERT_EQ(known_text(found), known_text(expected)) << "step " << step;
      ASSERT_EQ(drafting.preempted, plain.preempted) << "step " << step;
      ASSERT_EQ(found.swaps.size(), expected.swaps.size()) << "step " << step;
      for (const ScheduledRows& rows : found.rows) {
        num_drafts += rows.max_drafts;
        num_recomputed += rows.request->seq.num_output() > 0 && rows.num_known > 1;
      }
      plain.collect(expected);
      drafting.collect(found);
      for (size_t i = 0; i < prompts.size(); ++i) {
        const Request* const request = plain.scheduler.find(SeqId(i) + 1);
        if (!request || request->seq.num_output() < max_tokens) continue;
        plain.scheduler.finish(SeqId(i) + 1);
        drafting.scheduler.finish(SeqId(i) + 1);
      }
      ASSERT_EQ(drafting.scheduler.idle(), plain.scheduler.idle());
    }
    num_preemptions += int64_t(plain.preempted.size());
  }
  EXPECT_GT(num_drafts, 50'000);
  EXPECT_GT(num_preemptions, 500);
  EXPECT_GT(num_recomputed, 500);
}

// Steps behind an undecided one: one row at an upper bound of the length, pages for it, and none that cannot be wanted.
TEST(Scheduler, DeferredRows) {
  Desk desk({.max_num_seqs = 1, .max_num_batched_tokens = 100, .max_model_len = 100, .max_steps_per_seq = 3},
            blocks(64));
  desk.add(1, 4, 4);
  const auto a = desk.launch(0, true);
  EXPECT_EQ(text(a), "1:4");
  EXPECT_FALSE(a.rows[0].deferred);
  const auto b = desk.launch(0, true);
  ASSERT_EQ(text(b), "1:1");
  EXPECT_TRUE(b.rows[0].deferred);
  EXPECT_EQ(desk.pool.pages(1).size(), 2u);  // 5 positions
  const auto c = desk.launch(0, true);
  ASSERT_EQ(text(c), "1:1");
  EXPECT_EQ(text(desk.launch(0, true)), "");  // so many are in flight
  desk.collect(a);
  const auto d = desk.launch(0, true);
  ASSERT_EQ(text(d), "1:1");
  desk.collect(b);
  EXPECT_EQ(text(desk.launch(0, true)), "");  // it may end in flight
}

TEST(Scheduler, UndecidedSequencesWaitWhereNoneMayBeDeferred) {
  Desk desk({.max_num_seqs = 1, .max_num_batched_tokens = 100, .max_steps_per_seq = 2}, blocks(64));
  desk.add(1, 4);
  const auto a = desk.launch(2, false);
  EXPECT_EQ(text(a), "1:4");
  EXPECT_EQ(text(desk.launch(2, false)), "");
  desk.collect(a);
  EXPECT_EQ(text(desk.launch(2, false)), "1:1+2");
}

// The padded turn: one batch until all of it has ended; shorter prompts and ended rows are computed as padding.
TEST(Scheduler, StaticBatchingPads) {
  Desk desk({.max_num_seqs = 3, .max_num_batched_tokens = 100, .batching = Batching::static_padded}, blocks(64));
  desk.add(1, 8);
  desk.add(2, 3);
  desk.add(3, 5);
  desk.add(4, 2);
  auto step = desk.launch();
  EXPECT_EQ(text(step), "1:8 2:3 3:5");
  EXPECT_EQ(step.num_padding_rows, 0 + 5 + 3);
  desk.collect(step);
  desk.scheduler.finish(2);
  step = desk.launch();
  EXPECT_EQ(text(step), "1:1 3:1");  // 4 waits for the turn to end
  EXPECT_EQ(step.num_padding_rows, 1);
  desk.collect(step);
  desk.scheduler.finish(1);
  step = desk.launch();
  EXPECT_EQ(text(step), "3:1");
  EXPECT_EQ(step.num_padding_rows, 2);
  desk.collect(step);
  desk.scheduler.finish(3);
  step = desk.launch();
  EXPECT_EQ(text(step), "4:2");
  EXPECT_EQ(step.num_padding_rows, 0);
}

// A sequence that lost its pages in one turn opens the next, and others may join it there.
TEST(Scheduler, StaticTurnAfterAPreemption) {
  Desk desk({.max_num_seqs = 2, .max_num_batched_tokens = 100, .batching = Batching::static_padded}, blocks(4));
  desk.add(1, 8);
  desk.add(2, 8);
  desk.add(3, 3);
  auto step = desk.launch();
  desk.collect(step);
  step = desk.launch();
  EXPECT_EQ(text(step), "1:1");
  EXPECT_EQ(desk.preempted, (std::vector<SeqId>{2}));
  desk.collect(step);
  desk.scheduler.finish(1);
  EXPECT_EQ(text(desk.launch()), "2:9 3:3");
}

}  // namespace
}  // namespace paceline
