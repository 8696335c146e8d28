// What a rank knows of its sequences: tokens that lie in cells, and what the host learns of them later.

#include "engine/transformer/seq_state.h"

#include <gtest/gtest.h>

#include "kernels/op_args.h"

namespace paceline::test {
namespace {

TEST(SeqState, ATokenInACellIsLearntLater) {
  int32_t cells[4];
  SeqState state(4, cells);
  state.reset({.seq = 2, .cached = 0, .length = 5, .last_token = 11}, 0);
  state.accept(2, 5, nullptr, 0, token_in_cell(2), 1);
  state.accept(2, 1, nullptr, 0, token_in_cell(2), 2);  // launched before the host knew the first
  EXPECT_EQ(state[2].length, 7);
  EXPECT_EQ(state[2].cached, 6);
  EXPECT_EQ(cell_of_token(state[2].token_at(6)), 2);
  state.learn(2, 5, 70, 1);
  EXPECT_EQ(state[2].token_at(5), 70);
  EXPECT_EQ(cell_of_token(state[2].token_at(6)), 2);
  state.learn(2, 6, 71, 2);
  EXPECT_EQ(state[2].token_at(6), 71);
}

// The sequence ended while a step was in flight, and another one has its slot: a ring holds positions modulo its
// length.
TEST(SeqState, WhatIsLearntOfAnEndedSequenceIsDropped) {
  int32_t cells[1];
  SeqState state(1, cells);
  state.reset({.seq = 0, .cached = 0, .length = 5, .last_token = 11}, 0);
  state.accept(0, 5, nullptr, 0, token_in_cell(0), 1);
  state.accept(0, 1, nullptr, 0, token_in_cell(0), 2);
  state.learn(0, 5, 1, 1);
  const int32_t other = 7 + SeqSlot::kRing;
  state.reset({.seq = 0, .cached = 0, .length = other, .last_token = 9}, 2);
  ASSERT_EQ(state[0].token_at(other - 1), 9);
  state.learn(0, 6, 72, 2);
  EXPECT_EQ(state[0].token_at(other - 1), 9);
}

TEST(SeqState, TokensOfCellsAreNoOthers) {
  for (const int32_t cell : {0, 1, 63, 65535}) EXPECT_EQ(cell_of_token(token_in_cell(cell)), cell);
  for (const int32_t token : {-1, 0, 5, 128255}) EXPECT_EQ(cell_of_token(token), -1);
}

}  // namespace
}  // namespace paceline::test
