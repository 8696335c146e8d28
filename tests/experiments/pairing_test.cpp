// Which repetitions of two cells are pairs, by when they were measured, and what is said where they are none.

#include <gtest/gtest.h>

#include "experiments/analysis/metrics/cell_ratio.h"
#include "experiments/report/text/text.h"
#include "tests/experiments/report_page.h"
#include "tests/experiments/verdict_rig.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::holds;
using test::kFast;
using test::kSlow;
using test::ngram;
using test::placed;
using test::plain;
using test::run_of;
using test::verdict;

/// Gives the repetitions of `first` and then those of `second` their turns, by turns or one cell after the other.
void measure(CellResult& first, CellResult& second, bool by_turns, double apart_s) {
  int64_t turn = 0;
  const auto stamp = [&](CellResult& cell, size_t i, double at_s) {
    cell.repetitions[i].turn = turn++;
    cell.repetitions[i].ended_at_s = at_s;
  };
  const size_t count = second.repetitions.size();
  for (size_t i = 0; i < count; ++i) {
    if (i < first.repetitions.size()) stamp(first, i, 1e9 + double(i));
    if (by_turns) stamp(second, i, 1e9 + double(i));
  }
  for (size_t i = 0; i < count && !by_turns; ++i) stamp(second, i, 1e9 + apart_s + double(i));
}

TEST(Pairing, IsByTheOrderOfMeasuring) {
  CellResult a = plain(kSlow), b = ngram(3, kFast);
  EXPECT_EQ(pairing_of(a, b), Pairing::by_repetition) << "an old record does not tell";
  measure(a, b, /*by_turns=*/true, 0);
  EXPECT_EQ(pairing_of(a, b), Pairing::by_repetition);
  EXPECT_EQ(pairing_of(b, a), Pairing::by_repetition);
  measure(a, b, /*by_turns=*/false, 7200);
  EXPECT_EQ(pairing_of(a, b), Pairing::none);
  EXPECT_EQ(pairing_of(b, a), Pairing::none);
  EXPECT_DOUBLE_EQ(*measured_earlier_s(a, b), 7200);
  b.repetitions[1].ended_at_s.reset();
  EXPECT_FALSE(measured_earlier_s(a, b));
}

TEST(Pairing, NoPairSpansTwoProcesses) {
  CellResult a = plain(kSlow), b = ngram(3, kFast);
  measure(a, b, /*by_turns=*/true, 0);
  for (CellResult* const cell : {&a, &b})
    for (RepetitionResult& r : cell->repetitions) r.process = 0;
  EXPECT_EQ(pairing_of(a, b), Pairing::by_repetition);
  b.repetitions.back().process = 1;  // stopped within the block, and resumed
  EXPECT_EQ(pairing_of(a, b), Pairing::none);
}

TEST(Pairing, ASingleRepetitionLongAgoIsMarked) {
  CellResult base = plain(kSlow), cell = ngram(3, kFast);
  base.repetitions.resize(1);
  measure(base, cell, /*by_turns=*/true, 0);
  for (RepetitionResult& r : cell.repetitions) *r.ended_at_s += 90000;
  EXPECT_TRUE(summarize(run_of({base, cell})).cells[1].baseline_far);
}

// Speeds that go up and down together pair well; of two samples apart that says nothing.
TEST(Pairing, CellsMeasuredApartAreIndependentSamples) {
  CellResult base = plain({100, 120, 80}), cell = ngram(3, {130, 157, 103});
  measure(base, cell, /*by_turns=*/true, 0);
  const CellSummary paired = summarize(run_of({base, cell})).cells[1];
  measure(base, cell, /*by_turns=*/false, 7500);
  const RunResult run = run_of({base, cell});
  const RunSummary summary = summarize(run);
  const CellSummary& apart = summary.cells[1];
  EXPECT_EQ(paired.outcome, Outcome::faster);
  EXPECT_FALSE(paired.baseline_far);
  EXPECT_EQ(apart.outcome, Outcome::inconclusive);
  EXPECT_NEAR(apart.speedup->ratio, paired.speedup->ratio, 1e-12);
  EXPECT_LT(*apart.speedup->low, *paired.speedup->low);
  EXPECT_EQ(apart.pairing, Pairing::none);
  EXPECT_TRUE(holds(cell_verdict(VerdictView(run, summary), apart), "measured 2 h apart, not paired"));
  EXPECT_TRUE(holds(end_of_run_text(run, summary, TextColor::off), "measured 2 h apart, not paired"));
  const json row = summary_to_json(run, summary)["cells"][1];
  EXPECT_EQ(row["paired_with_baseline"], false);
  EXPECT_EQ(row["baseline_apart_s"], 7500.0);
  for (CellResult* const each : {&base, &cell})  // answers of one token: without TPOT speedup alone is a ratio
    for (RepetitionResult& r : each->repetitions)
      for (RequestRecord& q : r.requests) q.output.resize(1);
  const RunResult short_run = run_of({base, cell});
  const json of_short = summary_to_json(short_run, summarize(short_run))["cells"][1];
  EXPECT_TRUE(of_short["decode_speedup"].is_null());
  EXPECT_EQ(of_short["paired_with_baseline"], false);
}

TEST(Pairing, CellsMeasuredApartShowNothingWhereOneWasDisturbed) {
  CellResult base = plain(kSlow), cell = ngram(3, kFast);
  measure(base, cell, /*by_turns=*/false, 60);
  for (CellResult* const each : {&base, &cell})
    for (RepetitionResult& r : each->repetitions) {
      for (int i = 0; i < 9; ++i) {
        r.requests.push_back(r.requests.front());
        r.requests.back().id += std::to_string(i);
        if (i % 2 == 0) r.requests.back().category = "other";
      }
    }
  const auto num_shown = [](const RunResult& run) {
    const RunSummary summary = summarize(run);
    const VerdictView view(run, summary);
    return std::ranges::count_if(view.claims(), [](const Claim& c) { return c.outcome != Outcome::inconclusive; });
  };
  EXPECT_EQ(num_shown(run_of({base, cell})), 4) << "over the baseline and the plain twin, and of two categories";
  EXPECT_EQ(num_shown(run_of({base, test::disturbed(cell)})), 0);
  const auto outcome_and_claims = [](const RunResult& run) {
    const RunSummary summary = summarize(run);
    const VerdictView view(run, summary);
    return std::pair(summary.cells[1].outcome, view.claim(ClaimKind::over_plain, summary.cells[1])->shown);
  };
  EXPECT_EQ(outcome_and_claims(run_of({base, cell})), std::pair(Outcome::faster, Outcome::faster));
  const auto nothing = std::pair(Outcome::inconclusive, Outcome::inconclusive);
  EXPECT_EQ(outcome_and_claims(run_of({base, test::disturbed(cell)})), nothing);
  EXPECT_EQ(outcome_and_claims(run_of({test::disturbed(base), cell})), nothing);
  measure(base, cell, /*by_turns=*/true, 0);
  EXPECT_EQ(outcome_and_claims(run_of({base, test::disturbed(cell)})).first, Outcome::faster) << "pairs cancel drift";
}

// Whatever the time between them: two blocks one after the other are no pairs.
TEST(Pairing, ALoadLaterIsToldHoweverSoon) {
  CellResult base = plain(kSlow), cell = placed(plain(kFast), 2, 1);
  for (const auto& [apart_s, said] : {std::pair(40.0, "less than 1 min apart"), {240.0, "4 min apart"}}) {
    measure(base, cell, /*by_turns=*/false, apart_s);
    const RunResult run = run_of({base, cell});
    const RunSummary summary = summarize(run);
    EXPECT_EQ(summary.cells[1].pairing, Pairing::none);
    const std::string text = verdict(run), told = fmt::format("measured {}, not paired", said);
    EXPECT_TRUE(holds(cell_verdict(VerdictView(run, summary), summary.cells[1]), told));
    EXPECT_TRUE(holds(text, "over tp1 pp1 none, " + told)) << text;
    EXPECT_TRUE(holds(text, "relative to one rank: tp2 pp1 1.50× [")) << text;
  }
}

TEST(Pairing, WhatMayBeDriftLosesNoPick) {
  CellResult base = plain(kSlow), cell = ngram(3, kFast);
  measure(base, cell, /*by_turns=*/false, 240);
  for (const bool is_disturbed : {false, true}) {
    const RunResult run = run_of({base, is_disturbed ? test::disturbed(cell) : cell});
    const RunSummary summary = summarize(run);
    const VerdictView view(run, summary);
    const Pick& quickest = *view.pick(PickKind::latency, view.groups().front());
    EXPECT_EQ(quickest.cells.size(), is_disturbed ? 2u : 1u);
  }
}

TEST(Pairing, SentencesSayThatCellsWereMeasuredApart) {
  CellResult base = plain(kSlow), cell = ngram(3, kFast);
  const auto said = [&](bool by_turns) {
    measure(base, cell, by_turns, 240);
    return verdict(run_of({base, cell}));
  };
  EXPECT_FALSE(holds(said(true), "apart")) << said(true);
  EXPECT_TRUE(holds(said(false), ", measured 4 min apart, not paired, 3 repetitions.")) << said(false);
  EXPECT_TRUE(
      holds(said(false), "1 cell was not paired with what it is compared with, but measured 4 min apart: drift"))
      << said(false);
}

// The map's gain is over the plain twin, whatever the speedup of the cell is over.
TEST(Pairing, TheHeatMapTellsOfCellsThatAreNoPairs) {
  CellResult base = plain(kSlow), cell = ngram(3, kFast);
  const auto map = [&](bool by_turns) {
    measure(base, cell, by_turns, 240);
    return test::section_of(test::report_of(run_of({base, cell})), "heat");
  };
  EXPECT_TRUE(holds(map(true), "95 % intervals: paired Student t on log speedups over repetitions.")) << map(true);
  EXPECT_FALSE(holds(map(true), "not paired"));
  EXPECT_TRUE(holds(map(false), "measured up to 4 min apart, not paired.</p>")) << map(false);
  EXPECT_TRUE(holds(map(false), ", faster; measured 4 min apart, not paired\">")) << map(false);
}

}  // namespace
}  // namespace paceline
