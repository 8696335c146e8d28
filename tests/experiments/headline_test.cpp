// The first three sentences: short whatever the names, and what they lead with.

#include <gtest/gtest.h>

#include "tests/experiments/synthetic_run.h"
#include "tests/experiments/verdict_rig.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using test::holds;
using test::kFast;
using test::kNearFast;
using test::kSlow;
using test::not_run;
using test::placed;
using test::plain;
using test::run_of;

std::vector<std::string> headline(const RunResult& run) { return make_verdict(run, summarize(run)).headline; }

CellResult ngram_cell(int k, const std::vector<double>& rates) { return test::ngram(k, rates); }

TEST(Headline, IsThreeSentencesOfThirtyWordsAtMost) {
  CellResult base = plain(kSlow), wordy = ngram_cell(3, kFast), tie = ngram_cell(5, kNearFast);
  base.axes.variant = "one rank without any speculation, as it has always been";
  wordy.axes.variant =
      "a variant whose label takes twenty words and more, so that nothing else has room in the sentence "
      "that names it, not even its gain";
  std::vector<RunResult> runs = {test::synthetic_run({}),
                                 test::synthetic_run({.concurrencies = {1, 4, 16}}),
                                 test::synthetic_run({.with_trouble = false}),
                                 run_of({plain(kSlow)}),
                                 run_of({}),
                                 run_of({base, wordy, tie, placed(base, 2, 1), placed(wordy, 1, 2)})};
  for (const RunResult& run : runs) {
    const std::vector<std::string> said = headline(run);
    EXPECT_GE(said.size(), 1u);
    EXPECT_LE(said.size(), kMostHeadlines);
    for (const std::string& text : said) {
      EXPECT_LE(num_words(text), kMostHeadlineWords) << text;
      EXPECT_TRUE(text.ends_with(".") || text.ends_with("…")) << text;
    }
  }
  EXPECT_TRUE(headline(runs.back())[0].ends_with("…")) << "a label alone may be too long";
}

TEST(Headline, BeginsWithTheFastestCellAndItsGain) {
  const std::vector<std::string> said = headline(run_of({plain(kSlow), ngram_cell(3, kFast)}));
  ASSERT_EQ(said.size(), 2u);
  EXPECT_TRUE(said[0].starts_with("Fastest: tp1 pp1 ngram k=3, 150.3 tok/s, 1.50× [")) << said[0];
  EXPECT_TRUE(said[0].ends_with("over no speculation in the same placement, 3 repetitions.")) << said[0];
  EXPECT_EQ(said[1], "VALID: 1 cell lossless (100 tokens, 0 mismatches).");
  const std::vector<double> many(7, 150), base(7, 100);
  EXPECT_FALSE(holds(headline(run_of({plain(base), ngram_cell(3, many)}))[0], "repetition")) << "enough of them";
}

TEST(Headline, NamesTheCellThatIsShownBeforeOneThatMayBeFaster) {
  const std::vector<double> base = {100, 101, 99, 100, 100}, steady = {140, 141, 139, 140, 140},
                            wild = {100, 210, 190, 90, 200};
  const std::string text = headline(run_of({plain(base), ngram_cell(3, steady), ngram_cell(5, wild)}))[0];
  EXPECT_TRUE(text.starts_with("Fastest significant gain: tp1 pp1 ngram k=3, 140.0 tok/s, 1.40× [")) << text;
  EXPECT_TRUE(holds(text, "; tp1 pp1 ngram k=5 may be faster")) << text;
  const auto tp2 = [](CellResult cell) { return placed(std::move(cell), 2, 1); };
  CellResult twice = tp2(plain(std::vector<double>{180, 181, 179, 180, 180})), drafting = tp2(ngram_cell(5, wild));
  drafting.baseline_id = twice.id;
  const std::string elsewhere = headline(run_of({plain(base), ngram_cell(3, steady), twice, drafting}))[0];
  EXPECT_FALSE(elsewhere.starts_with("Fastest significant gain")) << elsewhere;
}

TEST(Headline, CountsTheCellsAmongWhichNothingIsShown) {
  const std::vector<double> base = {100, 110, 95}, other = {103, 99, 104};
  const std::string text = headline(run_of({plain(base), ngram_cell(3, other), ngram_cell(5, other)}))[0];
  EXPECT_TRUE(
      text.starts_with("No speculative cell (of 2 ranked) is significantly faster; highest tok/s: tp1 pp1 ngram k=3, "))
      << text;
}

TEST(Headline, DoesNotNameTheCellThatLeadsByChanceAgain) {
  const std::vector<double> base = {100, 110, 95};
  CellResult draft = ngram_cell(3, {98, 97, 99});
  draft.axes.proposer = "draft";
  draft.id = "draft3";
  const std::vector<std::string> said =
      headline(run_of({plain(base), ngram_cell(3, std::vector<double>{103, 99, 104}), draft}));
  ASSERT_EQ(said.size(), 3u);
  EXPECT_TRUE(holds(said[0], "highest tok/s: tp1 pp1 ngram k=3, ")) << said[0];
  EXPECT_TRUE(said[2].starts_with("draft is not significantly faster; ")) << said[2];
}

TEST(Headline, SaysNothingOfProposersByOneRepetition) {
  CellResult draft = ngram_cell(3, std::vector<double>{120});
  draft.axes.proposer = "draft";
  draft.id = "draft3";
  const auto said = headline(run_of({plain(std::vector<double>{100}), ngram_cell(3, std::vector<double>{150}), draft}));
  EXPECT_EQ(said.size(), 2u) << said.back();
}

TEST(Headline, SaysFirstWhyARunIsNotValid) {
  CellResult lossy = ngram_cell(5, kFast);
  lossy.certificate.status = CertificateStatus::fail;
  EXPECT_EQ(headline(run_of({plain(kSlow), ngram_cell(3, kFast), lossy}))[0],
            "INVALID: tp1 pp1 ngram k=5 is not lossless; 1 cell lossless (100 tokens, 0 mismatches).");
  CellResult broken = plain(kSlow);
  broken.status = CellStatus::failed;
  broken.repetitions.clear();
  EXPECT_TRUE(headline(run_of({broken, ngram_cell(3, kFast)}))[0].starts_with("INVALID: 1 cell lacks its baseline; "));
  EXPECT_TRUE(headline(run_of({plain(kSlow), test::disturbed(ngram_cell(3, kFast))}))[0].starts_with(
      "INVALID timings: 1 of 2 cells was disturbed (ngram3: other processes used 50 % of the cores); rerun when idle. "
      "Outputs: 1 cell lossless (100 tokens, 0 mismatches)"));
}

TEST(Headline, FailuresAloneAreNoProofOfAValidRun) {
  CellResult broken = ngram_cell(3, kFast), lossless = ngram_cell(5, kFast);
  broken.status = CellStatus::failed;
  broken.repetitions.clear();
  EXPECT_EQ(headline(run_of({plain(kSlow), broken})).back(), "VALID, but 1 of 2 cells failed.");
  EXPECT_TRUE(headline(run_of({plain(kSlow), broken, lossless})).back().ends_with("; 1 of 3 cells failed."));
}

TEST(Headline, ARejectionCellIsValidAndUnverified) {
  CellResult cell = ngram_cell(3, kFast);
  cell.certificate = {.status = CertificateStatus::unverified, .method = "none", .detail = "rule rejection"};
  const RunResult run = run_of({plain(kSlow), cell});
  EXPECT_TRUE(make_verdict(run, summarize(run)).validity.is_valid());
  EXPECT_EQ(headline(run)[1], "VALID timings: 1 cell is UNVERIFIED.");
  EXPECT_TRUE(headline(run)[0].starts_with("Fastest: tp1 pp1 ngram k=3")) << "ranked all the same";
}

TEST(Headline, SaysHowFarARunCame) {
  const std::vector<std::string> said =
      headline(run_of({plain(kSlow), ngram_cell(3, kFast), not_run(ngram_cell(5, kFast))}));
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said[0], "Not finished: 2 of 3 cells ran; 1 did not run.");
  EXPECT_TRUE(said[1].starts_with("Fastest: ")) << said[1];
  EXPECT_EQ(said[2], "VALID so far: 1 cell lossless (100 tokens, 0 mismatches).");
  EXPECT_EQ(headline(run_of({not_run(plain(kSlow))})),
            (std::vector<std::string>{"Not finished: 0 of 1 cell ran; 1 did not run.", "Nothing was measured."}));
  CellResult broken = plain(kSlow);
  broken.status = CellStatus::failed;
  broken.repetitions.clear();
  const RunResult all_broken = run_of({broken});
  EXPECT_FALSE(make_verdict(VerdictView(all_broken, summarize(all_broken))).validity.is_valid());
  EXPECT_EQ(headline(run_of({broken})),
            std::vector<std::string>{"Nothing was measured: 1 cell failed; see the reasons in the table."});
}

TEST(Headline, EndsWithWhatElseDecides) {
  const std::vector<std::string> ranks =
      headline(run_of({plain(kSlow), placed(plain(kFast), 2, 1), placed(plain(kSlow), 1, 2)}));
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_TRUE(ranks[2].starts_with("Without speculation, tok/s relative to one rank: tp2 pp1 1.50× [")) << ranks[2];
  EXPECT_TRUE(holds(ranks[2], ", tp1 pp2 1.00×")) << ranks[2];
  CellResult draft = test::cell_of("draft", {.proposer = "draft", .num_speculative_tokens = 3}, {90, 91, 89});
  const std::vector<std::string> loser = headline(run_of({plain(kSlow), ngram_cell(3, kFast), draft}));
  ASSERT_EQ(loser.size(), 3u);
  EXPECT_TRUE(
      loser[2].starts_with("draft does not pay; best cell by the lower end of its interval: tp1 pp1 draft k=3, 0.90×"))
      << loser[2];

  std::vector<CellResult> loads;
  for (const int concurrency : {1, 4})
    for (CellResult cell : {plain(kSlow), ngram_cell(3, kFast), draft}) {
      cell.axes.concurrency = concurrency;
      cell.load = fmt::format("c={}", concurrency);
      cell.requested["load"]["concurrency"] = concurrency;
      for (std::string* const name : {&cell.id, &cell.baseline_id})
        if (!name->empty()) *name += fmt::format("_c{}", concurrency);
      loads.push_back(std::move(cell));
    }
  const RunResult run = run_of(loads);
  const std::vector<std::string> said = test::sentences(run);
  EXPECT_TRUE(std::ranges::any_of(said, [](const std::string& text) {
    return text.starts_with("draft does not pay; best cell by the lower end of its interval, c=1: tp1 pp1 ");
  })) << fmt::format("{}", fmt::join(said, "\n"));
}

}  // namespace
}  // namespace paceline
