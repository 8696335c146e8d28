// What the verdict claims, and what it must not: on cells whose speeds are set by hand.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "experiments/analysis/metrics/cell_ratio.h"
#include "experiments/report/text/text.h"
#include "tests/experiments/verdict_rig.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::cell_of;
using test::details;
using test::disturbed;
using test::holds;
using test::kFast;
using test::kNearFast;
using test::kSlow;
using test::ngram;
using test::not_run;
using test::OverOneRank;
using test::placed;
using test::plain;
using test::run_of;
using test::sentences;
using test::verdict;

TEST(VerdictParallel, ComparesOnlyCellsThatAreEqualOtherwise) {
  CellResult still = plain(kSlow), still2 = placed(still, 2, 1), flows = plain({200, 202, 199}),
             flows2 = placed(flows, 2, 1);
  for (CellResult* cell : {&still, &still2}) {
    cell->axes.variant = "batching=static";
    cell->id += "_static";
    cell->requested["engine"]["scheduler"]["batching"] = "static";
  }
  for (CellResult* cell : {&flows, &flows2}) cell->axes.variant = "batching=continuous";
  for (RepetitionResult& r : flows2.repetitions) r.wall_s /= 1.25;
  for (RepetitionResult& r : still2.repetitions) r.wall_s /= 1.5;
  const std::string text = verdict(run_of({still, still2, flows, flows2}));
  EXPECT_TRUE(holds(text, "batching=static, tok/s relative to one rank: tp2 pp1 1.50× [")) << text;
  EXPECT_TRUE(holds(text, "batching=continuous, tok/s relative to one rank: tp2 pp1 1.25× [")) << text;
  for (const char* const mixed : {"2.50×", "0.62×"}) EXPECT_FALSE(holds(text, "tp2 pp1 " + std::string(mixed))) << text;
}

TEST(VerdictParallel, ARowsLabelHidesNoTwin) {
  CellResult one = plain(kSlow), two = placed(one, 2, 1);
  one.axes.variant = "one rank";
  two.axes.variant = "TP2";
  EXPECT_TRUE(holds(verdict(run_of({one, two})), "Without speculation, tok/s relative to one rank: tp2 pp1 1.00×"));
  two.requested["engine"]["kv_cache"] = {{"block_size", 32}};
  EXPECT_FALSE(holds(verdict(run_of({one, two})), "relative to one rank"));
}

TEST(VerdictCorrectness, TellsWhyCellsHaveNoCertificate) {
  const auto unverified = [](int k, const char* why) {
    CellResult cell = ngram(k, kFast);
    cell.certificate = {.status = CertificateStatus::unverified, .method = "none", .detail = why};
    return cell;
  };
  EXPECT_TRUE(
      holds(verdict(run_of({plain(kSlow), unverified(1, "forced acceptance"), unverified(3, "forced acceptance")})),
            "UNVERIFIED: 2 cells without a certificate: forced acceptance."));
  EXPECT_TRUE(
      holds(verdict(run_of({plain(kSlow), unverified(1, "forced"), unverified(3, "a rule"), unverified(5, "a rule")})),
            "UNVERIFIED: 3 cells without a certificate: 1: forced; 2: a rule."));
  EXPECT_TRUE(holds(verdict(run_of({plain(kSlow), unverified(1, "")})), "UNVERIFIED: 1 cell without a certificate."));
}

TEST(VerdictBest, CellsThatTieAreNamed) {
  const std::string text = sentences(run_of({plain(kSlow), ngram(3, kFast), ngram(5, kNearFast)}))[0];
  EXPECT_TRUE(text.starts_with("Fastest: tp1 pp1 ngram k=3, 150.3 tok/s, 1.50× [")) << text;
  const std::string more = details(run_of({plain(kSlow), ngram(3, kFast), ngram(5, kNearFast)}))[0];
  EXPECT_EQ(more, "Not significantly different in tok/s from tp1 pp1 ngram k=3: tp1 pp1 ngram k=5.");
  EXPECT_FALSE(holds(verdict(run_of({plain(kSlow), ngram(3, kFast)})), "Not significantly different"));
}

TEST(VerdictBest, APlainCellThatLeadsByChanceIsNotCrowned) {
  const std::string tie = verdict(run_of({plain(kFast), ngram(3, kNearFast)}));
  EXPECT_TRUE(holds(tie, "; no speculative cell is significantly faster; 1 cell is not significantly slower than it."))
      << tie;
  EXPECT_TRUE(holds(tie, "Not significantly different in tok/s from tp1 pp1 none: tp1 pp1 ngram k=3.")) << tie;
  const std::string clear = sentences(run_of({plain(kFast), ngram(3, kSlow)}))[0];
  EXPECT_TRUE(holds(clear, "; no speculative cell is faster.")) << clear;
  const std::string once = sentences(run_of({plain({150}), ngram(3, {100})}))[0];
  EXPECT_TRUE(holds(once, "no speculative cell is significantly faster")) << once;
  CellResult lossy = ngram(7, {200, 201, 199});
  lossy.certificate.status = CertificateStatus::fail;
  const std::string partly = verdict(run_of({plain(kFast), ngram(3, kSlow), lossy}));
  EXPECT_TRUE(holds(partly, "Ranked: 1 of 2 speculative cells.")) << partly;
}

TEST(VerdictBest, SaysInWordsWhyARatioDecidesNothing) {
  const std::string wide = sentences(run_of({plain({100, 110, 95}), ngram(3, {103, 99, 104})}))[0];
  EXPECT_TRUE(wide.starts_with("No speculative cell is significantly faster; highest tok/s: tp1 pp1 ngram k=3, "))
      << wide;
  // The first words and the bracket say it.
  for (const char* const again : {"not significantly faster than that", "95 % interval", "holds 1"})
    EXPECT_FALSE(holds(wide, again)) << wide;
  const std::string judged = verdict(run_of({plain({100, 110, 95}), ngram(3, {103, 99, 104})}));
  EXPECT_TRUE(holds(
      judged, "ngram is not significantly faster. Best cell by the lower end of its interval: tp1 pp1 ngram k=3, 1.0"))
      << judged;
  EXPECT_FALSE(holds(judged, "holds 1")) << judged;
  const std::string once = verdict(run_of({plain({100}), ngram(3, {150})}));
  EXPECT_TRUE(holds(once, "one repetition has no interval; run with measure.repetitions >= 3")) << once;
  EXPECT_TRUE(holds(once, "1 repetition only: there are no intervals")) << once;
  EXPECT_FALSE(holds(once, "inconclusive: the interval is missing or holds 1"));
}

TEST(Verdict, SaysThatThePlanLeftABaselineOut) {
  CellResult alone = ngram(3, {103, 99, 104});
  alone.baseline_id.clear();
  EXPECT_TRUE(holds(verdict(run_of({alone})), "1 cell has no baseline: the plan left it out"));
}

TEST(VerdictBest, ARunThatWasCutIsToBeResumed) {
  CellResult base = plain({100}), cut = ngram(3, {150});
  for (CellResult* cell : {&base, &cut}) cell->requested["measure"]["repetitions"] = 3;
  const std::string text = verdict(run_of({base, cut}));
  EXPECT_TRUE(holds(text, "1 of 3 repetitions ran, too few for an interval: resume the run")) << text;
  EXPECT_FALSE(holds(text, "run with measure.repetitions >= 3")) << text;
}

TEST(VerdictBest, ManyTiesAreCounted) {
  std::vector<CellResult> cells = {plain(kSlow), ngram(1, kFast)};
  for (const int k : {2, 3, 4, 5, 6}) cells.push_back(ngram(k, kNearFast));
  EXPECT_TRUE(holds(verdict(run_of(cells)), "; 5 cells are not significantly slower than it."))
      << verdict(run_of(cells));
}

TEST(VerdictPaysNot, NoAcceptanceLengthBelowOneIsAskedFor) {
  CellResult cheap = ngram(2, {130, 70, 145});  // drafts that are all refused, in passes that look cheaper by chance
  for (RepetitionResult& r : cheap.repetitions) {
    r.counters.steps = r.counters.verify_steps = r.counters.target_forwards = r.counters.drafts = 100;
    r.passes->decode.passes = r.passes->decode.steps = 100;
    r.counters.drafted = 200;
    r.counters.accepted = 0;
  }
  const std::string said = verdict(run_of({plain(kSlow), cheap}));
  EXPECT_TRUE(holds(said, ". Decode alone breaks even at any acceptance.")) << said;
  EXPECT_FALSE(holds(said, "needs AL")) << said;
}

// Half the steps accept all of one draft: 2 tokens a pass, and at a speed of 0.8 it would take 2.5 of them.
TEST(VerdictPaysNot, NamesTheAcceptanceLengthThatItWouldTake) {
  const RunResult run = run_of({plain(kSlow), ngram(3, {80, 80.8, 79.2})});
  const CellSummary s = summarize(run).cells[1];
  EXPECT_DOUBLE_EQ(*s.tokens_per_target_forward, 2);
  EXPECT_DOUBLE_EQ(*s.mean_acceptance_length, 2);
  EXPECT_NEAR(*s.break_even_acceptance_length, 2.5, 1e-9);
  const std::string text = verdict(run);
  EXPECT_TRUE(holds(text, "ngram does not pay. Best cell by the lower end of its interval: tp1 pp1 ngram k=3, 0.80× ["))
      << text;
  EXPECT_TRUE(holds(text, "]. Decode alone needs AL 2.50 to break even; measured: 2.00.")) << text;
  const std::string never = verdict(run_of({plain(kSlow), ngram(1, {80, 80.8, 79.2})}));
  EXPECT_TRUE(holds(never, ". Decode alone needs AL 2.50 (more than k + 1 = 2) to break even; measured: ")) << never;
}

TEST(VerdictPaysNot, IsSaidOfCellsThatAreAllShownToBeSlower) {
  const CellResult wide = ngram(5, {70, 99, 60});
  const std::string text = verdict(run_of({plain(kSlow), ngram(3, {80, 80.8, 79.2}), wide}));
  EXPECT_FALSE(holds(text, "does not pay")) << text;
  EXPECT_TRUE(
      holds(text, "ngram is not significantly faster. Best cell by the lower end of its interval: tp1 pp1 ngram k=3, "))
      << text;
}

// The largest estimate belongs to the noisiest cell: a wide interval around 1.8 says less than a narrow one above 1.
TEST(VerdictPaysNot, IsNotSaidWhereACellIsShownToBeFaster) {
  const CellResult wide = ngram(7, {320, 90, 200});
  const RunResult run = run_of({plain(kSlow), ngram(5, {120, 121, 119}), wide});
  const RunSummary summary = summarize(run);
  ASSERT_GT(summary.cells[2].speedup->ratio, summary.cells[1].speedup->ratio);
  ASSERT_EQ(summary.cells[2].outcome, Outcome::inconclusive);
  ASSERT_EQ(summary.cells[1].outcome, Outcome::faster);
  EXPECT_FALSE(holds(verdict(run), "ngram is not significantly faster")) << verdict(run);
  EXPECT_TRUE(holds(verdict(run), "ngram is significantly faster with tp1 pp1 ngram k=5: 1.20× [")) << verdict(run);
  const std::string fastest = verdict(run_of({plain(kSlow), ngram(5, {120, 121, 119}), ngram(3, {110, 111, 109})}));
  EXPECT_FALSE(holds(fastest, "is significantly faster with")) << fastest;
  // A gain at a place that does not pay.
  CellResult slow = placed(plain(kSlow), 2, 1), faster = placed(ngram(5, {120, 121, 119}), 2, 1);
  faster.baseline_id = slow.baseline_id = slow.id;
  const std::string elsewhere = verdict(run_of({plain({200, 201, 199}), slow, faster}));
  EXPECT_TRUE(holds(elsewhere, "; but 120.0 tok/s, and tp1 pp1 none has 200.0 without.")) << elsewhere;
  const std::string none = verdict(run_of({plain(kSlow), ngram(5, {99, 101, 100}), wide}));
  EXPECT_TRUE(holds(
      none,
      "ngram is not significantly faster. Best cell by the lower end of its interval: tp1 pp1 ngram k=5, 1.00× ["))
      << none;
  EXPECT_TRUE(holds(none, "highest tok/s: tp1 pp1 ngram k=7, 1.79× [")) << none;
}

// Who reads the first lines alone must not serve all loads as one of them wants it.
TEST(VerdictFastest, AnotherLoadThatWantsAnotherSetUpLeads) {
  const auto headline = [](std::vector<CellResult> at_four) {
    std::vector<CellResult> cells = {plain(kSlow), ngram(3, {180, 181, 179}), ngram(5, kSlow)};
    for (CellResult& cell : at_four) {
      cell.id += "_c4";
      cell.axes.concurrency = 4;
      cell.baseline_id = "plain_c4";
      for (RepetitionResult& repetition : cell.repetitions) repetition.requests.resize(4, repetition.requests.front());
      cells.push_back(cell);
    }
    const RunResult run = run_of(cells);
    return fmt::format("{}", fmt::join(make_verdict(run, summarize(run)).headline, "\n"));
  };
  const std::string other = headline({plain(kSlow), ngram(3, kSlow), ngram(5, kFast)});
  EXPECT_TRUE(holds(other, "Fastest at concurrency 1: tp1 pp1 ngram k=3")) << other;
  EXPECT_TRUE(holds(other, "Fastest at concurrency 4: tp1 pp1 ngram k=5")) << other;
  const std::string same = headline({plain(kSlow), ngram(3, kFast), ngram(5, kSlow)});
  EXPECT_TRUE(holds(same, "Fastest at concurrency 1: tp1 pp1 ngram k=3")) << same;
  EXPECT_FALSE(holds(same, "at concurrency 4: tp1")) << same;
}

// Requests of another length are other work: their rates stand in sentences of their own.
TEST(VerdictFastest, RanksCellsOfOneWork) {
  const auto asking = [](CellResult cell, int max_tokens) {
    cell.requested["sampling"] = {{"max_tokens", max_tokens}};
    cell.axes.variant = fmt::format("max_tokens={}", max_tokens);
    cell.id = cell.baseline_id = fmt::format("{}{}", cell.id, max_tokens);
    return cell;
  };
  const std::string text = verdict(run_of({asking(plain(kSlow), 8), asking(plain(kFast), 16)}));
  EXPECT_TRUE(holds(text, "Fastest at concurrency 1, max_tokens=8: ")) << text;
  EXPECT_TRUE(holds(text, "Fastest at concurrency 1, max_tokens=16: ")) << text;
}

TEST(VerdictPaysNot, APlacementsGainIsNotSpeculations) {
  const OverOneRank rows;
  const CellResult slow = OverOneRank::drafts({160, 161.6, 158.4});
  const RunResult run = run_of({rows.one, rows.two, slow});
  EXPECT_EQ(summarize(run).cells[2].outcome, Outcome::faster) << "over one rank";
  const std::string text = verdict(run);
  EXPECT_TRUE(holds(text,
                    "ngram is slower than no speculation in the same placement. Best cell by the lower end of its "
                    "interval: tp2 pp1 ngram k=3, 0.80× ["))
      << text;
  EXPECT_TRUE(holds(text, "]. Decode alone needs AL 2.50 to break even; measured: 2.00.")) << text;
  const std::string alone = verdict(run_of({rows.one, OverOneRank::drafts({80, 80.8, 79.2})}));
  EXPECT_TRUE(
      holds(alone, "ngram does not pay. Best cell by the lower end of its interval: tp2 pp1 ngram k=3, 0.80× ["))
      << alone;
  EXPECT_TRUE(holds(alone, "] over tp1 pp1 none. Decode alone needs AL 2.50")) << alone;
}

TEST(VerdictBest, SaysWhatOfAGainIsSpeculations) {
  const OverOneRank rows;
  const CellResult third = placed(OverOneRank::asked(plain({250, 252, 248}), "none"), 1, 2);
  const std::string text = sentences(run_of({rows.one, rows.two, third, OverOneRank::drafts({300, 303, 297})}))[0];
  EXPECT_TRUE(holds(text, "Fastest: tp2 pp1 ngram k=3, 300.0 tok/s, 3.00× [")) << text;
  EXPECT_TRUE(holds(text, "] over tp1 pp1 none")) << text;
  const std::string more = details(run_of({rows.one, rows.two, third, OverOneRank::drafts({300, 303, 297})}))[0];
  EXPECT_TRUE(more.starts_with("tp2 pp1 ngram k=3 is at 1.50× [")) << more;
  EXPECT_TRUE(holds(more, "] over no speculation in the same placement, 1.20× [")) << more;
  EXPECT_TRUE(more.ends_with("] over the fastest cell with no speculation, tp1 pp2 none.")) << more;
}

TEST(VerdictNoise, ComesFirstAndMarksWhatItTouches) {
  const RunResult run = run_of({plain(kSlow), disturbed(ngram(3, {80, 80.8, 79.2})), ngram(5, {70, 71, 69})});
  EXPECT_TRUE(
      holds(verdict(run),
            "ngram does not pay. Best cell by the lower end of its interval: tp1 pp1 ngram k=3 (disturbed), 0.80× ["))
      << verdict(run);
  EXPECT_TRUE(holds(verdict(run_of({disturbed(plain(kSlow)), ngram(3, kFast)})),
                    "] over its disturbed baseline in the same placement, 3 repetitions."));
  const std::string all = verdict(run_of({disturbed(plain(kSlow)), disturbed(ngram(3, kFast))}));
  EXPECT_TRUE(holds(all, "2 of 2 cells were disturbed")) << all;
  EXPECT_FALSE(holds(all, "(disturbed)")) << all;
  const std::string shown = end_of_run_text(run, summarize(run), TextColor::off, "runexp show last");
  EXPECT_TRUE(holds(
      shown,
      "\n  INVALID timings: 1 of 3 cells was disturbed (ngram3: other processes used 50 % of the cores); rerun when "
      "idle. Outputs: 2 cells lossless (200 tokens, 0 mismatches).\n  Fastest: "))
      << shown;
  RunResult cut = run;
  cut.cells.push_back(not_run(ngram(7, kSlow)));
  EXPECT_TRUE(sentences(cut)[0].starts_with("Not finished")) << sentences(cut)[0];
  EXPECT_TRUE(sentences(cut)[1].starts_with("INVALID timings so far: 1 of 3 cells was disturbed")) << sentences(cut)[1];
}

TEST(VerdictNoise, NamesTheWorstCell) {
  CellResult worse = disturbed(ngram(5, {70, 71, 69}));
  worse.repetitions[1].disturbance = worse.repetitions[0].disturbance;
  worse.repetitions[1].disturbance->foreign_cpu_s = 1.6;
  const RunResult run = run_of({disturbed(plain(kSlow)), ngram(3, {80, 80.8, 79.2}), worse});
  EXPECT_TRUE(sentences(run)[0].starts_with(
      "INVALID timings: 2 of 3 cells were disturbed (at worst ngram5: other processes used 80 % of the cores)"))
      << sentences(run)[0];
}

/// Brackets that follow each other, or stand in another: "(a) (b)", "(a (b))".
bool has_double_brackets(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth > 1) return true;
  }
  return holds(text, ") (");
}

TEST(VerdictNoise, OneBracketHoldsAllNotes) {
  const OverOneRank rows;
  const CellResult third = disturbed(placed(OverOneRank::asked(plain({250, 252, 248}), "none"), 1, 2));
  for (const double rate : {0.8, 3.0}) {
    const RunResult run = run_of({disturbed(rows.one), disturbed(rows.two), third,
                                  disturbed(OverOneRank::drafts({100 * rate, 101 * rate, 99 * rate}))});
    for (const std::string& sentence : sentences(run)) EXPECT_FALSE(has_double_brackets(sentence)) << sentence;
  }
  const std::string text = verdict(run_of({rows.one, third, OverOneRank::drafts({300, 303, 297})}));
  EXPECT_TRUE(holds(text, "1.20× [")) << text;
  EXPECT_TRUE(holds(text, "] over the fastest cell with no speculation, tp1 pp2 none (disturbed).")) << text;
}

TEST(VerdictCautions, ACellThatNeverDraftedIsNotRankedAndSaysSo) {
  CellResult idle = ngram(3, kFast);
  for (RepetitionResult& r : idle.repetitions) r.counters.drafts = r.counters.accepted = r.counters.drafted = 0;
  const RunResult run = run_of({plain(kSlow), idle, ngram(5, kSlow)});
  const RunSummary summary = summarize(run);
  EXPECT_FALSE(summary.cells[1].rankable);
  EXPECT_EQ(summary.cells[1].not_rankable, "never drafted");
  const std::string text = verdict(run);
  EXPECT_TRUE(holds(text, "Ranked: 1 of 2 speculative cells.")) << text;
  EXPECT_EQ(cell_verdict(VerdictView(run, summary), summary.cells[1]), "never drafted (not ranked), lossless");
  RunSummary disturbed = summary;
  disturbed.cells[1].noise = "so";
  EXPECT_EQ(cell_verdict(VerdictView(run, disturbed), disturbed.cells[1]),
            "never drafted (not ranked), lossless, disturbed");
  EXPECT_FALSE(holds(text, "Fastest: tp1 pp1 ngram k=3")) << text;
}

TEST(VerdictCautions, CountsTheRepetitionsThatThereAre) {
  const std::string cut = verdict(run_of({plain({100, 101}), ngram(3, {150, 152}), ngram(5, {140})}));
  EXPECT_TRUE(holds(cut, "Between 1 and 2 repetitions: intervals are wide or missing; use 7")) << cut;
  EXPECT_FALSE(holds(cut, "there are no intervals")) << cut;
  EXPECT_TRUE(holds(verdict(run_of({plain(kSlow), ngram(3, {150, 152})})),
                    "Between 2 and 3 repetitions: intervals are wide; use 7"));
  EXPECT_TRUE(holds(verdict(run_of({plain(kSlow), ngram(3, kFast)})), "\n3 repetitions: intervals are wide; use 7"));
}

TEST(VerdictForced, NamesTheAcceptanceLengthsAtWhichItPays) {
  const auto forced = [](int64_t accepted, std::vector<double> rates) {
    CellResult cell =
        cell_of(fmt::format("forced{}", accepted), {.proposer = "draft", .num_speculative_tokens = 5}, rates);
    cell.axes.variant = fmt::format("acceptance_length={}", accepted);
    cell.forced = true;
    for (RepetitionResult& r : cell.repetitions) r.counters.accepted = accepted * r.counters.drafts;
    return cell;
  };
  const CellResult good = forced(5, {140, 141, 139}), fair = forced(2, {90, 91, 89}), bad = forced(0, {60, 61, 59});
  const std::string text = verdict(run_of({plain(kSlow), good, bad, fair}));
  EXPECT_TRUE(
      holds(text,
            "With stated acceptance, tp1 pp1 draft k=5 loses at AL 1.00 (0.60×) and AL 3.00 (0.90×), pays at AL "
            "6.00 (1.40×)."))
      << text;
  EXPECT_TRUE(holds(text, "Ranked: 0 of 3 speculative cells.")) << text;
  EXPECT_TRUE(holds(verdict(run_of({plain(kSlow), bad, fair})), "loses at AL 1.00 (0.60×) and AL 3.00 (0.90×)."));

  // Of an end that is not shown nothing is claimed.
  const CellResult wide_low = forced(0, {60, 90, 40}), wide_high = forced(5, {80, 150, 110});
  const std::string both = verdict(run_of({plain(kSlow), wide_low, wide_high}));
  EXPECT_TRUE(holds(both, "k=5 is not decided at AL 1.00 (")) << both;
  const std::string high = verdict(run_of({plain(kSlow), wide_low, good}));
  EXPECT_TRUE(holds(high, "k=5 pays at AL 6.00 (1.40×); not decided at AL 1.00 (")) << high;
  const std::string low = verdict(run_of({plain(kSlow), bad, wide_high}));
  EXPECT_TRUE(holds(low, "k=5 loses at AL 1.00 (0.60×); not decided at AL 6.00 (")) << low;
  CellResult late = good, early = bad;
  late.repetitions = forced(0, {140, 141, 139}).repetitions;
  early.repetitions = forced(5, {60, 61, 59}).repetitions;
  const std::string turned = verdict(run_of({plain(kSlow), late, early}));
  EXPECT_TRUE(holds(turned, "k=5 pays at AL 1.00 (1.40×), loses at AL 6.00 (0.60×).")) << turned;
}

TEST(VerdictUnfinished, ComesFirstAndClaimsNothingOfWhatDidNotRun) {
  CellResult cut = ngram(3, kFast);
  cut.repetitions.resize(2);
  const RunResult run = run_of({not_run(plain(kSlow)), cut, not_run(ngram(5, kFast))});
  const std::vector<std::string> said = sentences(run);
  EXPECT_EQ(
      said[0],
      "Not finished: 1 of 3 cells ran, none with all its repetitions; 2 did not run; tp1 pp1 none, the baseline of 1 "
      "cell that ran, did not run.");
  EXPECT_TRUE(holds(said[2], "Fastest: tp1 pp1 ngram k=3")) << said[2];
  EXPECT_FALSE(holds(verdict(run), "no speculative cell is faster"));
  const std::string table = end_of_run_text(run, summarize(run), TextColor::off);
  EXPECT_TRUE(
      holds(table, "3 cells: 1 done (1 with fewer repetitions than asked for), 0 failed, 0 skipped, 2 not run in"))
      << table;
  EXPECT_TRUE(holds(table, "no baseline, lossless, 2 of 3 repetitions")) << table;
  EXPECT_TRUE(holds(table, "–  not run: interrupted")) << table;
  const json summary = summary_to_json(run, summarize(run));
  EXPECT_EQ(summary["num_done"], 1);
  EXPECT_EQ(summary["num_partial"], 1);
  EXPECT_EQ(summary["num_not_run"], 2);

  const std::vector<std::string> nothing = sentences(run_of({not_run(plain(kSlow)), not_run(ngram(3, kFast))}));
  ASSERT_GE(nothing.size(), 2u);
  EXPECT_EQ(nothing[0], "Not finished: 0 of 2 cells ran; 2 did not run.");
  EXPECT_EQ(nothing[1], "Nothing was measured.");

  const std::string no_drafts = verdict(run_of({plain(kSlow), not_run(ngram(3, kFast))}));
  EXPECT_TRUE(holds(no_drafts, "Ranked: 0 of 1 speculative cell.")) << no_drafts;
  CellResult other = ngram(7, kSlow);
  other.repetitions.resize(2);
  const std::string half = verdict(run_of({plain(kFast), ngram(3, kSlow), other, not_run(ngram(5, kFast))}));
  EXPECT_TRUE(
      half.starts_with("Not finished: 3 of 4 cells ran, 1 of them with fewer repetitions than asked for; 1 did "
                       "not run."))
      << half;
  EXPECT_TRUE(holds(half, "no speculative cell that ran is faster.")) << half;
}

TEST(VerdictUnfinished, AFailedBaselineIsNamedInAFinishedRun) {
  CellResult broken = plain(kSlow);
  broken.status = CellStatus::failed;
  broken.reason = "out of memory";
  broken.repetitions.clear();
  const std::string text = verdict(run_of({broken, ngram(3, kFast)}));
  EXPECT_FALSE(holds(text, "Not finished")) << text;
  EXPECT_TRUE(holds(text, "; 1 of 2 cells failed;")) << text;
  EXPECT_TRUE(holds(text, "tp1 pp1 none, the baseline of 1 cell that ran, failed: their gain is not known.")) << text;
}

TEST(EndOfRunText, TellsHowToSeeTheSentencesThatItLeavesOut) {
  const RunResult run = run_of({plain(kSlow), ngram(3, {50, 51, 49}), ngram(5, {60, 61, 59})});
  const RunSummary summary = summarize(run);
  const std::string all = end_of_run_text(run, summary, TextColor::off);
  const std::string some = end_of_run_text(run, summary, TextColor::off, "runexp show last");
  const std::vector<std::string> said = details(run);
  ASSERT_GE(said.size(), 3u);
  for (const std::string& sentence : said) EXPECT_TRUE(holds(all, sentence)) << sentence;
  for (const std::string& sentence : said) EXPECT_FALSE(holds(some, sentence)) << sentence;
  for (const std::string& sentence : make_verdict(run, summary).headline) {
    EXPECT_TRUE(holds(some, sentence)) << some;
    EXPECT_TRUE(holds(all, sentence)) << all;
  }
  EXPECT_TRUE(holds(some, "(details: runexp show last)")) << some;
}

TEST(EndOfRunText, PrintsIntervalsAsTheyAre) {
  const RunResult run = run_of({plain(kSlow), ngram(3, kFast)});
  for (const std::string& text :
       {end_of_run_text(run, summarize(run), TextColor::off), summary_markdown(run, summarize(run))})
    EXPECT_FALSE(holds(text, "±")) << text;
}

TEST(VerdictCautions, IntervalsAreSaidToBeOfTimingOnly) {
  EXPECT_TRUE(holds(verdict(run_of({plain(kSlow), ngram(3, kFast)})),
                    "Intervals cover timing noise, not prompts: all repetitions send the same 1 prompt."));
  EXPECT_FALSE(holds(verdict(run_of({plain({100}), ngram(3, {150})})), "Intervals cover")) << "there are none";
}

TEST(VerdictCautions, ACellWithoutAWarmUpIsSaidToBeCold) {
  RunResult run = run_of({plain(kSlow), ngram(3, kFast)});
  for (CellResult& cell : run.cells) cell.requested["measure"]["warmup_requests"] = 1;
  EXPECT_FALSE(holds(verdict(run), "warm-up"));
  run.cells[1].requested["measure"]["warmup_requests"] = 0;
  EXPECT_TRUE(holds(verdict(run), "1 cell had no warm-up (measure.warmup_requests 0): the first repetition also pays"));
}

TEST(VerdictCautions, LengthsThatWereDrawnAreSaid) {
  CellResult drawn = ngram(3, kFast);
  EXPECT_FALSE(holds(verdict(run_of({plain(kSlow), drawn})), "other lengths"));
  for (RepetitionResult& repetition : drawn.repetitions) repetition.requests[0].output.resize(101);
  EXPECT_TRUE(holds(verdict(run_of({plain(kSlow), drawn})),
                    "1 cell answered with other lengths than what it is compared with, the same in each repetition"));
  drawn.requested["sampling"] = {{"temperature", 1.0}, {"redraw", true}};
  const std::string anew = verdict(run_of({plain(kSlow), drawn}));
  EXPECT_FALSE(holds(anew, "other lengths")) << anew;
  EXPECT_TRUE(holds(anew, "Intervals cover timing noise and draws, not prompts")) << anew;
}

TEST(VerdictCautions, RepeatedPromptsAreCounted) {
  RunResult run = run_of({plain(kSlow), ngram(3, kFast)});
  for (CellResult& cell : run.cells)
    for (auto& repetition : cell.repetitions) repetition.requests.resize(5, repetition.requests.front());
  run.workload.prompts = 5;
  EXPECT_FALSE(holds(verdict(run), "earlier answers"));
  run.workload.prompts = 2;
  const std::string text = verdict(run);
  EXPECT_TRUE(holds(text, "2 prompts for 5 requests: each is sent 2 or 3 times, which favours prefix caching"));
  EXPECT_TRUE(holds(text, "workload.requests=2 sends each once"));
  EXPECT_TRUE(holds(text, "all repetitions send the same 2 prompts"));
  const auto leads = [&] {
    const std::vector<std::string> headline = make_verdict(run, summarize(run)).headline;
    return std::ranges::any_of(headline,
                               [](const std::string& said) { return holds(said, "2 prompts for 5 requests"); });
  };
  EXPECT_FALSE(leads());
  run.cells[1].axes.proposer = "suffix";
  EXPECT_TRUE(leads()) << "where a proposer remembers texts";
}

TEST(Verdict, BoundsAreToldAndNeverRanked) {
  const auto of = [](const char* proposer, int k, std::vector<double> rates) {
    return cell_of(fmt::format("{}{}", proposer, k), {.proposer = proposer, .num_speculative_tokens = k}, rates);
  };
  const RunResult run = run_of({plain({100, 101, 99}), ngram(3, {150, 151, 149}), of("oracle", 3, {300, 302, 298}),
                                of("reject_all", 3, {50, 51, 49}), ngram(5, {140, 141, 139})});
  const std::string text = verdict(run);
  EXPECT_TRUE(holds(text, "Fastest: tp1 pp1 ngram k=3")) << text;
  EXPECT_TRUE(holds(text, "Bounds, tp1 pp1 k=3: oracle decodes at 3.0")) << text;
  EXPECT_TRUE(holds(text, "reject_all decodes at 0.")) << text;
  EXPECT_TRUE(holds(text, "; of the oracle's speed ngram 50 %.")) << text;
  EXPECT_FALSE(holds(text, "Bounds, tp1 pp1 k=5")) << text;  // without a bound at that k
  const RunSummary summary = summarize(run);
  EXPECT_FALSE(summary.cells[2].rankable);
  EXPECT_EQ(summary.cells[2].not_rankable, "a bound");
  EXPECT_TRUE(summary.cells[1].rankable);
}

}  // namespace
}  // namespace paceline
