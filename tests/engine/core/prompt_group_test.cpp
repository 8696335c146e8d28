// Choices of one prompt: one computes it, the others wait and share.

#include <gtest/gtest.h>

#include "tests/engine/core/scheduler_desk.h"

namespace paceline {
namespace {

using test::blocks;
using test::Desk;
using test::text;

TEST(PromptGroup, OneComputesThePrompt) {
  Desk desk({.max_num_seqs = 4, .max_num_batched_tokens = 10}, blocks(64));
  for (const SeqId id : {1, 2, 3}) desk.add(id, 13, 100, 9);
  desk.add(4, 5);
  auto step = desk.launch();
  EXPECT_EQ(text(step), "1:10!");
  desk.collect(step);
  step = desk.launch();
  EXPECT_EQ(text(step), "1:3 4:5") << "4 overtakes those that wait";
  desk.collect(step);
  step = desk.launch();
  EXPECT_EQ(text(step), "1:1 4:1 2:1 3:1") << "12 of 13 tokens are shared";
  EXPECT_EQ(desk.pool.pages(2)[2], desk.pool.pages(1)[2]);
  EXPECT_NE(desk.pool.pages(2)[3], desk.pool.pages(1)[3]);
  EXPECT_EQ(desk.pool.prefix_hit_tokens(), 0) << "counted once a step of theirs has ended";
  desk.collect(step);
  EXPECT_EQ(desk.pool.prefix_hit_tokens(), 24);
  desk.scheduler.finish(1);
  desk.pool.check();
  EXPECT_EQ(text(desk.launch()), "4:1 2:1 3:1");
}

TEST(PromptGroup, WhereTheFirstEndsTheNextComputesThePrompt) {
  Desk desk({.max_num_seqs = 4, .max_num_batched_tokens = 10}, blocks(64));
  for (const SeqId id : {1, 2, 3}) desk.add(id, 13, 100, 9);
  auto step = desk.launch();
  desk.scheduler.finish(1);  // while its step is in flight
  desk.pool.retire(desk.last_step);
  step = desk.launch();
  EXPECT_EQ(text(step), "2:10!");
  desk.collect(step);
  step = desk.launch();
  EXPECT_EQ(text(step), "2:3");
  desk.collect(step);
  EXPECT_EQ(text(desk.launch()), "2:1 3:1");
}

TEST(PromptGroup, AFirstThatEndsAtOnceLeavesItsPrompt) {
  for (const auto after : {Scheduler::PromptAfter::is_handed_on, Scheduler::PromptAfter::ends}) {
    Desk desk({.max_num_seqs = 4, .max_num_batched_tokens = 13}, blocks(64));
    for (const SeqId id : {1, 2, 3}) desk.add(id, 13, 100, 9);
    desk.add(4, 5);
    const auto step = desk.launch();
    EXPECT_EQ(text(step), "1:13");
    desk.collect(step);
    desk.scheduler.finish(1, after);  // its first token was the end
    const bool is_handed_on = after == Scheduler::PromptAfter::is_handed_on;
    EXPECT_EQ(desk.scheduler.num_running(), is_handed_on ? 2 : 0);
    EXPECT_EQ(desk.scheduler.num_waiting(), is_handed_on ? 1 : 3) << "4 has no part in it";
    desk.pool.retire(desk.last_step);
    desk.pool.check();
    EXPECT_EQ(text(desk.launch()), is_handed_on ? "2:1 3:1 4:5" : "2:13") << "12 of 13 tokens are shared";
  }
}

TEST(PromptGroup, SequencesOfOneTokenDoNotWait) {
  Desk desk({.max_num_seqs = 4, .max_num_batched_tokens = 64}, blocks(64));
  for (const SeqId id : {1, 2}) desk.add(id, 13, 1, 9);  // the first ends with its prompt
  EXPECT_EQ(text(desk.launch()), "1:13 2:13");
}

TEST(PromptGroup, OnlyTheSamePromptIsShared) {
  Desk desk({.max_num_seqs = 4, .max_num_batched_tokens = 64}, blocks(64));
  desk.add(1, 13, 100, 9);
  desk.add(2, 13, 100, 9);
  desk.scheduler.find(2)->seq.tokens[3] = 1;  // breaks the contract
  desk.add(3, 4, 100, 8);
  desk.add(4, 4, 100, 8);  // no full block but the last one
  EXPECT_EQ(text(desk.launch()), "1:13 2:13 3:4 4:4");
}

}  // namespace
}  // namespace paceline
