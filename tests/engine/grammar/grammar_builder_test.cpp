#include "engine/grammar/grammar_builder.h"

#include <gtest/gtest.h>

#include "engine/grammar/stack_machine.h"
#include "kernels/error.h"
#include "tests/engine/grammar/grammar_cases.h"

namespace paceline::test {
namespace {

using Expr = GrammarBuilder::Expr;

size_t bytes_of(const ByteGrammar& grammar) {
  return grammar.sets.size() * sizeof(ByteSet) + grammar.items.size() * sizeof(ByteGrammar::Item) +
         (grammar.alternatives.size() + grammar.rules.size()) * sizeof(ByteGrammar::Range);
}

bool takes(const ByteGrammar& grammar, std::string_view text) {
  StackMachine machine(grammar);
  StackMachine::State state = machine.start();
  for (const char c : text) state = machine.advance(state, uint8_t(c));
  return machine.complete(state);
}

TEST(GrammarBuilder, RepetitionsWithinTheirBounds) {
  for (const auto& [least, most] :
       {std::pair{0, 0}, {0, 1}, {1, 1}, {0, 5}, {3, 3}, {2, 6}, {3, GrammarBuilder::kUnbounded}}) {
    GrammarBuilder builder;
    const ByteGrammar grammar = builder.finish(builder.repeat(builder.text("ab"), least, most));
    std::string text;
    for (int count = 0; count < 12; ++count, text += "ab") {
      EXPECT_EQ(takes(grammar, text), count >= least && (most < 0 || count <= most)) << least << " " << most;
    }
    EXPECT_FALSE(takes(grammar, "aba"));
  }
}

// A thousand characters more or less: what is common is there once, and a state has as many places as before.
TEST(GrammarBuilder, LongRepetitionsAreCheap) {
  GrammarBuilder builder({.max_ms = 600'000});
  const Expr letter = builder.characters(std::vector<CodeRange>{{'a', 'z'}, {0x80, 0x10FFFF}});
  std::vector<Expr> parts;
  for (int i = 0; i < 100; ++i) {
    parts.push_back(builder.repeat(letter, 0, 9900 + i));
    parts.push_back(builder.text("\n"));
  }
  const ByteGrammar grammar = builder.finish(builder.sequence(parts));
  EXPECT_LT(bytes_of(grammar), size_t(1) << 20);
  StackMachine machine(grammar);
  StackMachine::State state = machine.start();
  const size_t work = machine.work();
  for (int i = 0; i < 9900; ++i) state = machine.advance(state, 'x');
  EXPECT_LT(machine.work() - work, 9900u * 20);
  EXPECT_TRUE(machine.open(state));
  EXPECT_EQ(machine.advance(state, 'x'), StackMachine::kDead);
}

TEST(GrammarBuilder, EqualExpressionsAreOne) {
  GrammarBuilder builder;
  EXPECT_EQ(builder.text("abc"), builder.text("abc"));
  const Expr part = builder.text("ab");
  EXPECT_EQ(builder.repeat(part, 1, 4), builder.repeat(part, 1, 4));
  EXPECT_NE(builder.repeat(part, 1, 4), builder.repeat(part, 1, 5));
  EXPECT_EQ(builder.text(""), builder.sequence({}));
}

TEST(GrammarBuilder, WhatCannotBeCompletedIsLeftOut) {
  GrammarBuilder builder;
  const Expr endless = builder.declare();
  const std::array<Expr, 2> again = {builder.text("x"), endless};
  builder.define(endless, builder.sequence(again));
  const std::array<Expr, 2> first = {builder.text("a"), endless}, second = {builder.text("a"), builder.text("b")};
  const std::array<Expr, 2> both = {builder.sequence(first), builder.sequence(second)};
  StackMachine machine(builder.finish(builder.any_of(both)));
  const StackMachine::State state = machine.advance(machine.start(), 'a');
  EXPECT_EQ(machine.advance(state, 'x'), StackMachine::kDead);
  EXPECT_TRUE(machine.complete(machine.advance(state, 'b')));
}

TEST(GrammarBuilder, ErrorsNameWhatIsWrong) {
  EXPECT_EQ(complaint_of([] {
              GrammarBuilder builder;
              builder.finish(builder.any_of({}));
            }),
            "no text is within the grammar");
  EXPECT_EQ(complaint_of([] {
              GrammarBuilder builder;
              builder.repeat(builder.text("a"), 0, 10'000'000);
            }),
            "a repetition of 10000000 takes more than 16 MiB");
  EXPECT_EQ(complaint_of([] {
              GrammarBuilder builder({.max_bytes = 1 << 20, .max_ms = 600'000});
              builder.finish(builder.repeat(builder.text("a"), 0, 100'000));
            }),
            "the grammar takes more than 1 MiB");
  EXPECT_EQ(complaint_of([] {
              GrammarBuilder builder({.max_bytes = 1 << 20, .max_ms = 600'000});
              for (int i = 0;; ++i) builder.text(std::to_string(i));
            }),
            "the grammar takes more than 1 MiB");
  EXPECT_EQ(complaint_of([] {
              GrammarBuilder builder({.max_ms = 5});
              for (;;) builder.check_time();
            }),
            "compiling the grammar takes longer than 5 ms");
  EXPECT_EQ(complaint_of([] {
              GrammarBuilder builder({.max_ms = 5});
              builder.define(builder.declare(), builder.text("a"));
              for (;;) builder.declare();
            }),
            "compiling the grammar takes longer than 5 ms");
  GrammarBuilder builder;
  const Expr declared = builder.declare("a");
  EXPECT_THROW(builder.finish(declared), Error);
  builder.define(declared, declared);
  EXPECT_THROW(builder.finish(declared), GrammarError);
  EXPECT_THROW(builder.define(declared, declared), Error);
}

}  // namespace
}  // namespace paceline::test
