// Mutant x test: every classic bug turns at least one test red, the shipped policy none.

#include <map>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/speculative/statistics/lossless_tests.h"
#include "tests/speculative/statistics/mutants.h"

namespace paceline {
namespace {

struct TableRow {
  int number = 0;
  const char* name = "";
  double t0 = 0.0;                      // sup-norm
  double t1 = 1.0, t2 = 1.0, t4 = 1.0;  // p-values
  bool identity = true;

  bool t0_red() const { return t0 > 1e-12; }
  bool t1_red() const { return t1 < kAlpha; }
  bool t2_red() const { return t2 < kAlpha; }
  bool t4_red() const { return t4 < kAlpha; }
  bool any_red() const { return t0_red() || t1_red() || t2_red() || t4_red() || !identity; }
};

class Table {
 public:
  Table() : sampled_(8, {.temperature = 1.0f}, 11), enumerated_(4, {.temperature = 1.0f}, 5) {}

  template <class Policy>
  void add(int number, const char* name) {
    const int64_t num_trials = number == 0 ? 1'000'000 : 250'000;  // a false alarm matters more than a miss
    TableRow row{.number = number, .name = name};
    row.t0 = exact_distance<Policy>(enumerated_, 3);
    const SampleCounts counts = sample_counts<Policy>(sampled_, 3, 4, num_trials, 1'000'000'000);
    row.t1 = g_test(counts.first, sampled_.joint_law(1)).p_value;
    row.t2 = g_test(counts.joint, sampled_.joint_law(4)).p_value;
    row.t4 = counts.acceptance.p_value();
    row.identity = counts.identity;
    const auto mark = [](bool red) { return red ? "RED" : "  -"; };
    fmt::print("{:2}  {:<28} {} {:7.1e}  {} {:7.1e}  {} {:7.1e}  {} {:7.1e}  {}\n", number, name, mark(row.t0_red()),
               row.t0, mark(row.t1_red()), row.t1, mark(row.t2_red()), row.t2, mark(row.t4_red()), row.t4,
               mark(!row.identity));
    fflush(stdout);
    rows_[number] = row;
  }

  const TableRow& row(int number) const { return rows_.at(number); }
  size_t size() const { return rows_.size(); }

 private:
  ToyModels sampled_, enumerated_;
  std::map<int, TableRow> rows_;
};

TEST(MutantTableTest, EveryMutantIsCaught) {
  fmt::print("    mutant                       T0 sup-norm   T1 p-value    T2 p-value    T4 p-value    identity\n");
  Table table;
  table.add<math::ShippedPolicy>(0, "shipped");
  table.add<mutants::ResidualIsTarget>(1, "residual := target");
  table.add<mutants::ResidualOfOneHot>(2, "residual of a one-hot draft");
  table.add<mutants::ResidualReusesAcceptNoise>(3, "accept noise reused");
  table.add<mutants::DraftIsArgmax>(4, "draft argmax, ratio sampled");
  table.add<mutants::TemperatureOff>(5, "temperature 0.95 for 1");
  table.add<mutants::DraftFromBfloat16Logits>(6, "draft from bf16 logits");
  table.add<mutants::BonusTemperatureOff>(7, "bonus at temperature 0.8");
  table.add<mutants::BonusFromPreviousRow>(8, "bonus from the previous row");
  table.add<mutants::ResidualOfNextDraftRow>(9, "residual of the next draft");
  table.add<mutants::OneUniformPerStep>(10, "one uniform for all drafts");
  table.add<mutants::RatioWithEpsilon>(11, "draft_prob + 0.01 in ratio");
  table.add<mutants::AcceptsEverything>(12, "accepts everything");

  EXPECT_FALSE(table.row(0).any_red());
  EXPECT_FALSE(table.row(6).identity);
  for (const int number : {7, 8, 10}) EXPECT_TRUE(table.row(number).t2_red()) << "mutant " << number;
  ASSERT_EQ(table.size(), 13u);
  for (int number = 1; number <= 12; ++number) EXPECT_TRUE(table.row(number).any_red()) << "mutant " << number;
  // The exact test integrates the noise out: only misuse of noise may pass it.
  for (const int number : {1, 2, 4, 5, 6, 7, 8, 9, 11, 12}) EXPECT_TRUE(table.row(number).t0_red()) << number;
}

}  // namespace
}  // namespace paceline
