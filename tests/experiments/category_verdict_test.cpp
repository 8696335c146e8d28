// What the verdict says of categories of prompts.

#include <cmath>

#include <gtest/gtest.h>

#include "tests/experiments/verdict_rig.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using namespace test;

/// As `cell`, with five requests of each of two categories: b's decode `gain` times as fast as a's, and within both
/// each `step` times as fast as the one before.
CellResult with_categories(CellResult cell, double gain, double step = 1) {
  for (RepetitionResult& r : cell.repetitions) {
    const RequestRecord first = r.requests[0];
    r.requests.clear();
    for (int i = 0; i < 10; ++i) {
      RequestRecord& q = r.requests.emplace_back(first);
      q.id = fmt::format("q{}", i);
      q.category = i % 2 ? "b" : "a";
      q.e2e_ms = 1 + (q.e2e_ms - 1) / (i % 2 ? gain : 1) * std::pow(step, 2 - i / 2);
    }
  }
  return cell;
}

TEST(VerdictCategories, AreThoseOfTheFastestCellOfEachLoad) {
  CellResult base = with_categories(plain(kSlow), 1), fast = with_categories(ngram(3, kFast), 2);
  CellResult decodes = with_categories(ngram(5, {120, 121, 119}), 1);  // more slowly, but for what wall_s says
  for (RepetitionResult& r : decodes.repetitions)
    for (RequestRecord& q : r.requests) q.e2e_ms /= 10;
  const std::string text = verdict(run_of({base, fast, decodes}));
  EXPECT_TRUE(holds(text, "Decode speedup by category, tp1 pp1 ngram k=3: highest in \"b\", 3.0")) << text;
  EXPECT_TRUE(holds(text, "; lowest in \"a\", 1.5")) << text;
  EXPECT_TRUE(holds(text, "× [")) << text;
  std::vector<CellResult> cells = {base, fast};
  for (CellResult cell : {base, decodes}) {
    cell.id += "_c4";
    cell.axes.concurrency = 4;
    cell.baseline_id = "plain_c4";
    cells.push_back(cell);
  }
  const std::string loads = verdict(run_of(cells));
  EXPECT_TRUE(holds(loads, "Decode speedup by category at concurrency 4, tp1 pp1 ngram k=5: no clear difference; "))
      << loads;
  EXPECT_TRUE(holds(loads, "Decode speedup by category at concurrency 1, tp1 pp1 ngram k=3: highest in ")) << loads;
}

TEST(VerdictCategories, HaveNoMostOrLeastWhereIntervalsOverlap) {
  const std::string text =
      verdict(run_of({with_categories(plain({100, 140, 80}), 1), with_categories(ngram(3, kFast), 1.1)}));
  EXPECT_TRUE(holds(text, "ngram k=3: no clear difference; highest in \"b\", ")) << text;
  EXPECT_TRUE(holds(text, "; lowest in \"a\", ")) << text;
}

// Speeds that are told apart to a percent say nothing of a category where its prompts differ by more.
TEST(VerdictCategories, HaveIntervalsOverPrompts) {
  const auto text = [](double step) {
    return verdict(run_of({with_categories(plain(kSlow), 1), with_categories(ngram(3, kFast), 1.2, step)}));
  };
  EXPECT_TRUE(holds(text(1.01), "ngram k=3: highest in \"b\", ")) << text(1.01);
  EXPECT_TRUE(holds(text(1.4), "ngram k=3: no clear difference; highest in ")) << text(1.4);
}

TEST(VerdictCategories, OfFewPromptsHaveNoIntervals) {
  RunResult run = run_of({with_categories(plain(kSlow), 1), with_categories(ngram(3, kFast), 2)});
  for (CellResult& cell : run.cells)
    for (RepetitionResult& r : cell.repetitions) r.requests.resize(8);
  EXPECT_TRUE(holds(verdict(run),
                    "ngram k=3: without intervals (of fewer than 5 prompts or by one repetition) highest in "
                    "\"b\", 3.0"))
      << verdict(run);
}

TEST(VerdictCategories, AreOverTheSamePlacement) {
  OverOneRank rows;
  rows.one = with_categories(rows.one, 1);
  rows.two = with_categories(rows.two, 1);
  const CellResult drafts = with_categories(OverOneRank::drafts({300, 303, 297}), 2);
  const std::string text = verdict(run_of({rows.one, rows.two, drafts}));
  EXPECT_TRUE(holds(text, "category, tp2 pp1 ngram k=3: highest in \"b\", 3.0")) << text;
  const std::string alone = verdict(run_of({rows.one, drafts}));
  EXPECT_TRUE(holds(alone, "tp2 pp1 ngram k=3 over tp1 pp1 none: highest in \"b\", 6.0")) << alone;
}

}  // namespace
}  // namespace paceline
