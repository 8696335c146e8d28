// Where speculation stops paying: all patterns of outcomes over three loads, as an interval and as a sentence.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/analysis/claims/view.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/experiments/verdict_rig.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

constexpr Outcome F = Outcome::faster, I = Outcome::inconclusive, S = Outcome::slower;
const std::vector<std::string> kNames = {"c=1", "c=4", "c=16"};

std::string text_of(const std::vector<Outcome>& outcomes) { return crossover_text(outcomes, kNames); }

/// What the sentence claims of each load, read back: every load stands in exactly one list.
std::vector<Outcome> claimed_by(const std::string& text) {
  const size_t pays = text.find("pays at "), loses = text.find("loses at "), open = text.find("not decided at ");
  std::vector<Outcome> claims;
  for (const std::string& name : kNames) {
    size_t at = text.find(name);
    while (at != std::string::npos && at + name.size() < text.size() && std::isdigit(text[at + name.size()]))
      at = text.find(name, at + 1);  // c=1 in c=16
    EXPECT_NE(at, std::string::npos) << name << " in " << text;
    size_t claim = std::string::npos;  // the last one before the name
    Outcome outcome = Outcome::none;
    for (const auto& [from, of] : {std::pair(pays, F), std::pair(loses, S), std::pair(open, I)}) {
      if (from == std::string::npos || from > at) continue;
      if (claim != std::string::npos && from < claim) continue;
      claim = from;
      outcome = of;
    }
    claims.push_back(outcome);
  }
  return claims;
}

TEST(Crossover, EverySentenceOfThreeLoadsSaysWhatIsKnownOfEach) {
  for (const Outcome a : {F, I, S}) {
    for (const Outcome b : {F, I, S}) {
      for (const Outcome c : {F, I, S}) {
        const std::vector<Outcome> outcomes = {a, b, c};
        EXPECT_EQ(claimed_by(text_of(outcomes)), outcomes) << text_of(outcomes);
      }
    }
  }
}

TEST(Crossover, SaysTheUsualPatternsPlainly) {
  EXPECT_EQ(text_of({F, I, S}), "pays at c=1, loses at c=16; not decided at c=4");
  EXPECT_EQ(text_of({F, F, S}), "pays at c=1 and c=4, loses at c=16");
  EXPECT_EQ(text_of({S, F, F}), "loses at c=1, pays at c=4 and c=16");
  EXPECT_EQ(text_of({S, F, S}), "loses at c=1 and c=16, pays at c=4");
  EXPECT_EQ(text_of({F, F, F}), "pays at c=1, c=4 and c=16");
  EXPECT_EQ(text_of({I, I, I}), "is not decided at c=1, c=4 and c=16");
  EXPECT_EQ(text_of({I, I, S}), "loses at c=16; not decided at c=1 and c=4");
}

TEST(Crossover, ALongRunOfPointsIsNamedByItsEnds) {
  std::vector<Outcome> outcomes(6, F);
  outcomes.push_back(S);
  std::vector<std::string> names;
  for (int i = 0; i < 7; ++i) names.push_back(fmt::format("c={}", 1 << i));
  EXPECT_EQ(crossover_text(outcomes, names), "pays at all 6 from c=1 to c=32, loses at c=64");
  outcomes[2] = I;
  EXPECT_EQ(crossover_text(outcomes, names), "pays at c=1, c=2, c=8, c=16 and c=32, loses at c=64; not decided at c=4");
}

/// One placement of the synthetic run: plain and ngram with k 1, 3, 5 at c = 1, 4, 16. `speeds`: [load] what a cell of
/// ngram gets done against plain; a load of speed 1 gets repetitions that scatter.
RunResult run_with(const std::vector<double>& speeds, int only_k = 0, double others = 1) {
  const std::vector<int> loads = {1, 4, 16};
  RunResult run = test::synthetic_run({.concurrencies = loads, .with_trouble = false});
  std::erase_if(run.cells, [](const CellResult& cell) {
    return cell.axes.tp * cell.axes.pp > 1 || cell.axes.proposer == "draft";
  });
  for (CellResult& cell : run.cells) {
    const size_t load = size_t(std::find(loads.begin(), loads.end(), cell.axes.concurrency) - loads.begin());
    double speed = cell.axes.proposer == "none" ? 1 : speeds[load];
    if (only_k > 0 && cell.axes.proposer != "none" && cell.axes.num_speculative_tokens != only_k) speed = others;
    for (size_t r = 0; r < cell.repetitions.size(); ++r) {
      RepetitionResult& repetition = cell.repetitions[r];
      const double scatter =
          cell.axes.proposer != "none" && speed == 1 ? (r % 2 == 0 ? 1.3 : 0.77) : 1 + 0.001 * double(r);
      repetition.wall_s = double(output_tokens_of(repetition)) / (100 * speed * scatter);
    }
  }
  return run;
}

std::vector<std::string> crossovers_of(const RunResult& run) {
  const RunSummary summary = summarize(run);
  std::vector<std::string> texts;
  const VerdictView view(run, summary);
  for (const CrossoverClaim& claim : view.crossovers()) texts.push_back(crossover_text(claim));
  return texts;
}

// Its lower end may be the highest of a load's, and its p-value not small enough among the run's comparisons.
TEST(ConcurrencyCrossovers, NameALengthThatWasShownToPay) {
  const auto cell = [](int concurrency, int k, const std::vector<double>& rates) {
    CellAxes axes{.concurrency = concurrency};
    if (k > 0) axes.proposer = "ngram", axes.num_speculative_tokens = k;
    CellResult made = test::cell_of(fmt::format("c{}k{}", concurrency, k), axes, rates);
    made.load = "closed";
    made.requested["load"] = {{"concurrency", concurrency}};
    made.baseline_id = fmt::format("c{}k0", concurrency);
    return made;
  };
  const std::vector<double> plain = {100, 100.05, 99.95}, open = {130, 75, 104};
  for (const bool shown_first : {true, false}) {
    CellResult small = cell(1, 1, {105, 105.1, 104.9}), large = cell(1, 5, {118, 125, 131});
    if (!shown_first) std::swap(small, large);
    const RunResult run = test::run_of({cell(1, 0, plain), small, large, cell(8, 0, plain), cell(8, 1, open),
                                        cell(8, 5, open), cell(8, 3, open), cell(8, 7, open)});
    const RunSummary summary = summarize(run);
    const VerdictView view(run, summary);
    ASSERT_EQ(view.crossovers().size(), 1u);
    const CrossoverClaim::Point& point = view.crossovers().front().points.front();
    const Claim& claim = *view.claim(ClaimKind::over_plain, *point.cell);
    EXPECT_EQ(point.shown, F);
    EXPECT_EQ(claim.shown, F) << "k " << point.k;
    EXPECT_EQ(point.k, 1);
    const Claim& other = *view.claim(ClaimKind::over_plain, summary.cells[shown_first ? 2 : 1]);
    EXPECT_EQ(other.shown, I) << "else nothing is tested";
    EXPECT_TRUE(begins_higher(other.ratio, claim.ratio)) << "likewise";
  }
}

TEST(ConcurrencyCrossovers, FollowTheCellsOfAPlacement) {
  const std::vector<std::string> texts = crossovers_of(run_with({1.8, 1, 0.5}));
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_TRUE(texts[0].starts_with(
      "tp1 pp1 ngram pays at c=1 (k=1: 1.80×), loses at c=16 (k=1: 0.50×); not decided at c=4 (k="))
      << texts[0];
  const RunResult run = run_with({1.8, 1, 0.5});
  EXPECT_EQ(std::ranges::count(test::sentences(run), texts[0] + "."), 1)
      << "the terminal and summary.json have it, too";
  EXPECT_TRUE(crossovers_of(test::synthetic_run({.concurrencies = {4}})).empty()) << "one load crosses nothing";
}

TEST(ConcurrencyCrossovers, LosesOnlyWhereEveryKLosesAndPaysWhereOneIsShownTo) {
  const std::vector<std::string> open = crossovers_of(run_with({1.8, 1, 1}, 3, 0.5));
  ASSERT_EQ(open.size(), 1u);
  EXPECT_TRUE(test::holds(open[0], "pays at c=1 (k=3: 1.80×); not decided at c=4 (")) << open[0];
  EXPECT_FALSE(test::holds(open[0], "loses")) << "k = 3 is not shown to lose: " << open[0];
  // The largest estimate, of k = 1 and 5, scatters; that of k = 3 is smaller and shown.
  const std::vector<std::string> pays = crossovers_of(run_with({1.03, 1.03, 1.03}, 3, 1));
  ASSERT_EQ(pays.size(), 1u);
  EXPECT_TRUE(test::holds(pays[0], "pays at c=1 (k=3: 1.03×), c=4 (k=3: 1.03×) and c=16 (k=3: 1.03×)")) << pays[0];
  const std::vector<std::string> little = crossovers_of(run_with({1.01, 1.01, 1.01}, 3, 1));
  ASSERT_EQ(little.size(), 1u);
  EXPECT_TRUE(test::holds(little[0], "is not decided at c=1 (k=3: 1.01×), c=4 (k=3: 1.01×) and c=16 (k=3: 1.01×)"))
      << little[0];
}

}  // namespace
}  // namespace paceline
