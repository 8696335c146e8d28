#include "kernels/cuda/pass_state.h"

#include <gtest/gtest.h>

namespace paceline::cuda {
namespace {

using State = PassState<int>;  // operands by number

TEST(PassState, KeysStayFromANormToTheNextWrite) {
  State state;
  EXPECT_FALSE(state.keys_stay()) << "nothing is known of what came before";
  state.normed();
  EXPECT_TRUE(state.keys_stay());
  state.begin_pass();
  EXPECT_TRUE(state.keys_stay()) << "the stream goes on";
  state.wrote_kv();
  EXPECT_FALSE(state.keys_stay());
  state.begin_pass();
  EXPECT_FALSE(state.keys_stay());
  state.normed();
  EXPECT_TRUE(state.keys_stay());
}

TEST(PassState, AnOperandIsForTheNextProductOverItsRows) {
  const float rows[2] = {};
  State state;
  EXPECT_EQ(state.take_operand(&rows[0]), std::nullopt);
  state.made_operand(&rows[0], 7);
  EXPECT_EQ(state.take_operand(&rows[0]), 7);
  EXPECT_EQ(state.take_operand(&rows[0]), std::nullopt) << "taken once";
  state.made_operand(&rows[0], 8);
  EXPECT_EQ(state.take_operand(&rows[1]), std::nullopt) << "other rows";
  EXPECT_EQ(state.take_operand(&rows[0]), std::nullopt) << "dropped by the product in between";
  state.made_operand(&rows[0], 9);
  state.drop_operand();
  EXPECT_EQ(state.take_operand(&rows[0]), std::nullopt);
  state.made_operand(&rows[0], 10);
  state.made_operand(&rows[1], 11);
  EXPECT_EQ(state.take_operand(&rows[1]), 11) << "the last one made";
  EXPECT_EQ(state.take_operand(&rows[0]), std::nullopt);
}

TEST(PassState, OperandsTakeTwoBuffersInTurn) {
  const float rows = 0;
  State state;
  const int first = state.next_operand(), second = state.next_operand();
  EXPECT_NE(first, second);
  EXPECT_EQ(state.next_operand(), first);
  state.begin_pass();
  EXPECT_EQ(state.next_operand(), first) << "a pass begins with the same one";
  state.made_operand(&rows, 1);
  state.begin_pass();
  EXPECT_EQ(state.next_operand(), second) << "the one that waits is not written over";
}

TEST(PassState, MessagesCountFromThePassesFirst) {
  State state;
  const uint32_t& first = state.first_message(5);
  EXPECT_EQ(first, 5u);
  EXPECT_EQ(&state.first_message(6), &first);
  EXPECT_EQ(first, 5u);
  state.begin_pass();
  EXPECT_EQ(state.first_message(9), 9u);
}

TEST(PassState, ASumIsSentByItsProductOnly) {
  State state;
  EXPECT_FALSE(state.has_sent(3));
  state.sent_sum(3);
  EXPECT_TRUE(state.has_sent(3));
  EXPECT_FALSE(state.has_sent(4));
  state.sent_sum(0);
  EXPECT_FALSE(state.has_sent(3)) << "another product came between";
}

}  // namespace
}  // namespace paceline::cuda
