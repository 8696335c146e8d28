// Mutant x test: every classic bug turns at least one test red, the shipped policy none. A mutant is a program of its
// own: the shipped one linked with another policy (program/policy.cpp).

#include <array>
#include <sstream>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/speculative/statistics/lossless_tests.h"
#include "tests/support/paths.h"
#include "tests/support/run_process.h"

namespace paceline {
namespace {

struct TableRow {
  double t0 = 0.0;                      // sup-norm
  double t1 = 0.0, t2 = 0.0, t4 = 0.0;  // p-values
  bool identity = false;
  double tree_t0 = 0.0, tree_t2 = 0.0;    // likewise, of trees
  double block_t0 = 0.0, block_t2 = 0.0;  // and of blocks

  bool t0_red() const { return t0 > 1e-12; }
  bool t1_red() const { return t1 < kAlpha; }
  bool t2_red() const { return t2 < kAlpha; }
  bool t4_red() const { return t4 < kAlpha; }
  bool tree_t0_red() const { return tree_t0 > 1e-12; }
  bool tree_t2_red() const { return tree_t2 < kAlpha; }
  bool block_t0_red() const { return block_t0 > 1e-12; }
  bool block_t2_red() const { return block_t2 < kAlpha; }
  bool any_red() const {
    return t0_red() || t1_red() || t2_red() || t4_red() || !identity || tree_t0_red() || tree_t2_red() ||
           block_t0_red() || block_t2_red();
  }
};

constexpr std::array kName = {"shipped",
                              "residual := target",
                              "residual of a one-hot draft",
                              "accept noise reused",
                              "draft argmax, ratio sampled",
                              "temperature 0.95 for 1",
                              "draft from bf16 logits",
                              "bonus at temperature 0.8",
                              "bonus from the previous row",
                              "residual of the next draft",
                              "one uniform for all drafts",
                              "draft_prob + 0.01 in ratio",
                              "accepts everything",
                              "siblings as if with replacement",
                              "only the last sibling has taken",
                              "siblings against the target",
                              "residual not normalised",
                              "one uniform for siblings",
                              "draft row of the target",
                              "block of one ratio",
                              "block above 1",
                              "block kept by its probability",
                              "block's residual of one token",
                              "block ends at a refusal"};

std::string program(size_t number) { return (binary_dir() / fmt::format("mutant_{}", number)).string(); }

void print(size_t number, const TableRow& row) {
  const auto mark = [](bool red) { return red ? "RED" : "  -"; };
  fmt::print(
      "{:2}  {:<31} {} {:7.1e}  {} {:7.1e}  {} {:7.1e}  {} {:7.1e}  {}       {} {:7.1e}  {} {:7.1e}  {} {:7.1e}  "
      "{} {:7.1e}\n",
      number, kName[number], mark(row.t0_red()), row.t0, mark(row.t1_red()), row.t1, mark(row.t2_red()), row.t2,
      mark(row.t4_red()), row.t4, mark(!row.identity), mark(row.tree_t0_red()), row.tree_t0, mark(row.tree_t2_red()),
      row.tree_t2, mark(row.block_t0_red()), row.block_t0, mark(row.block_t2_red()), row.block_t2);
  fflush(stdout);
}

TEST(MutantTableTest, EveryMutantIsCaught) {
  std::array<TableRow, kName.size()> table;
  fmt::print(
      "    mutant                          T0 sup-norm   T1 p-value    T2 p-value    T4 p-value    identity  "
      "tree T0       tree T2      block T0      block T2\n");
  for (size_t number = 0; number < table.size(); ++number) {
    // A false alarm matters more than a miss.
    const std::string num_trials = number == 0 ? "1000000" : "250000";
    const test::ProcessResult run =
        test::run_process({program(number), num_trials}, {.timeout_s = 120 * test::time_factor()});
    ASSERT_EQ(run.exit_code, 0) << program(number) << ": " << run.err;
    TableRow& row = table[number];
    std::istringstream line(run.out);
    ASSERT_TRUE(line >> row.t0 >> row.t1 >> row.t2 >> row.t4 >> row.identity >> row.tree_t0 >> row.tree_t2 >>
                row.block_t0 >> row.block_t2)
        << program(number) << ": " << run.out;
    print(number, row);
  }
  EXPECT_FALSE(table[0].any_red());
  EXPECT_FALSE(table[6].identity);
  for (const size_t number : {7u, 8u, 10u}) EXPECT_TRUE(table[number].t2_red()) << "mutant " << number;
  for (size_t number = 1; number < table.size(); ++number) EXPECT_TRUE(table[number].any_red()) << "mutant " << number;
  // The exact test integrates the noise out: only misuse of noise may pass it.
  for (const size_t number : {1u, 2u, 4u, 5u, 6u, 7u, 8u, 9u, 11u, 12u}) EXPECT_TRUE(table[number].t0_red()) << number;
  for (const size_t number : {13u, 14u, 15u, 16u, 18u}) {
    EXPECT_TRUE(table[number].tree_t0_red()) << number;
    EXPECT_FALSE(table[number].t0_red()) << "of chains, " << number;
  }
  EXPECT_TRUE(table[17].tree_t2_red());
  for (const size_t number : {19u, 20u, 21u, 22u, 23u}) {
    EXPECT_TRUE(table[number].block_t0_red()) << number;
    EXPECT_FALSE(table[number].t0_red() || table[number].tree_t0_red()) << "of rejection, " << number;
  }
  EXPECT_TRUE(table[10].block_t2_red()) << "one uniform for all drafts of a block";
}

TEST(MutantTableTest, AProgramWithoutTrialsSaysHowToCallIt) {
  const test::ProcessResult run = test::run_process({program(1)});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("usage: "), std::string::npos) << run.err;
}

}  // namespace
}  // namespace paceline
