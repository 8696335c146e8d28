// What a decode pass costs, break-even and bounds, whatever share of the time prefill takes.

#include "experiments/analysis/metrics/pass_cost.h"

#include <cmath>

#include <gtest/gtest.h>

#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/verdict/verdict.h"
#include "experiments/results/results.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using test::holds;
using test::synthetic_cell;
using test::SyntheticOptions;

std::string whole_verdict(const RunResult& run) {
  std::string text;
  for (const VerdictSentence& v : make_verdict(run, summarize(run)).details) text += v.text + "\n";
  return text;
}

/// A plain cell, and one of n-grams whose rows are dear and whose drafts are mostly refused.
RunResult slow_run(const SyntheticOptions& options) {
  RunResult run;
  run.cells = {synthetic_cell(0, {}, options),
               synthetic_cell(1, {.proposer = "ngram", .num_speculative_tokens = 3}, options)};
  return run;
}

/// The costs that a synthetic run was made of, and what follows from them.
struct Costs {
  double prefill_ms = 0, plain_ms = 0, pass_ms = 0;  // pass: of the cell that drafts; with what lies between passes
  double other_ms = 0;                               // between passes
  int64_t requests = 0, plain_passes = 0;
  std::vector<int64_t> passes;  // by repetition, decode
  double coverage = 0;

  explicit Costs(const RunResult& run, const SyntheticOptions& options) {
    const CellResult& cell = run.cells[1];
    prefill_ms = test::synthetic_prefill_ms(cell.axes, options);
    plain_ms = test::synthetic_step({}).total_ms();
    pass_ms = test::synthetic_step(cell.axes, options.row_cost).total_ms();
    other_ms = test::synthetic_step({}).other_ms;
    requests = options.requests;
    plain_passes = requests * (options.output_tokens - 1);
    int64_t drafts = 0, steps = 0;
    for (const RepetitionResult& r : cell.repetitions) {
      passes.push_back(r.counters.verify_steps);
      drafts += r.counters.drafts;
      steps += r.counters.verify_steps;
    }
    coverage = double(drafts) / double(steps);
  }

  /// Geometric mean over repetitions of plain time over the cell's, both with `prompt_ms` for each prompt.
  double speedup(double prompt_ms) const {
    double logs = 0;
    for (const int64_t n : passes)
      logs += std::log((double(requests) * prompt_ms + double(plain_passes) * plain_ms) /
                       (double(requests) * prompt_ms + double(n) * pass_ms));
    return std::exp(logs / double(passes.size()));
  }
  double ratio() const { return (pass_ms - other_ms) / (plain_ms - other_ms); }
  double break_even() const { return 1 + (ratio() - 1) / coverage; }
  double prefill_share() const {
    double decode_ms = 0;
    for (const int64_t n : passes) decode_ms += double(n) * pass_ms;
    const double prompts_ms = prefill_ms * double(requests) * double(passes.size());
    return prompts_ms / (prompts_ms + decode_ms);
  }
};

class PrefillShares : public testing::TestWithParam<double> {};

TEST_P(PrefillShares, SentencesHoldTheCostsThatTheRunWasMadeOf) {
  const SyntheticOptions options{.prefill_share = GetParam(), .row_cost = 0.24, .ngram_chance = 0.2};
  const RunResult run = slow_run(options);
  const Costs costs(run, options);
  const std::string text = whole_verdict(run);
  EXPECT_TRUE(holds(text, fmt::format(" k=3, {:.2f}× [", costs.speedup(costs.prefill_ms)))) << text;
  EXPECT_TRUE(holds(text, fmt::format(". Decode alone needs AL {:.2f} to break even; measured: ", costs.break_even())))
      << text;
  const RunSummary summary = summarize(run);
  EXPECT_NEAR(*decode_pass_ratio(summary.cells[1], summary.cells[0]), costs.ratio(), 1e-9);
  EXPECT_NEAR(summary.cells[1].decode_speedup->ratio, costs.speedup(0), 1e-3);
  EXPECT_NEAR(summary.cells[1].passes->prefill.share, costs.prefill_share(), 1e-3);
  EXPECT_NEAR(summary.cells[0].passes->prefill.share, GetParam(), 1e-9);
}

// At the break-even length the cell decodes as fast as its twin, and takes as long for whole requests.
TEST_P(PrefillShares, AtTheBreakEvenBothSpeedupsAreOne) {
  const SyntheticOptions options{.prefill_share = GetParam(), .row_cost = 0.24, .ngram_chance = 0.2};
  RunResult run = slow_run(options);
  const Costs costs(run, options);
  const double tokens = 1 + costs.coverage * (costs.break_even() - 1), passes = double(costs.plain_passes) / tokens;
  EXPECT_NEAR(passes * (costs.pass_ms - costs.other_ms), double(costs.plain_passes) * (costs.plain_ms - costs.other_ms),
              1e-6);
  EXPECT_NEAR(*summarize(run).cells[1].break_even_acceptance_length, costs.break_even(), 1e-9);
}

// No measured speedup may lie above its bound, and where verifying costs nothing more it reaches it.
TEST_P(PrefillShares, BoundsAreReachedWhereVerifyingIsFree) {
  const SyntheticOptions options{.repetitions = 1, .prefill_share = GetParam(), .row_cost = 0};
  const CellSummary s = summarize(slow_run(options)).cells[1];
  EXPECT_NEAR(s.decode_speedup->ratio, *s.decode_speedup_bound, 0.01 * *s.decode_speedup_bound);
  EXPECT_NEAR(s.speedup->ratio, *s.speedup_bound, 0.01 * *s.speedup_bound);
  const CellSummary dear = summarize(slow_run({.prefill_share = GetParam(), .row_cost = 0.24})).cells[1];
  EXPECT_LT(dear.decode_speedup->ratio, *dear.decode_speedup_bound);
  EXPECT_LT(dear.speedup->ratio, *dear.speedup_bound);
}

INSTANTIATE_TEST_SUITE_P(All, PrefillShares, testing::Values(0.0, 0.5, 0.9));

/// `count` decode passes of `pass_ms`; `drafts` of them have drafts, half of which are kept.
CellResult decoding_cell(const CellAxes& axes, int64_t count, double pass_ms, int64_t drafts) {
  CellResult cell{.id = axes.proposer, .axes = axes};
  RepetitionResult r;
  r.counters = {.steps = count, .verify_steps = count, .target_forwards = count, .drafts = drafts};
  r.counters.drafted = 3 * drafts;
  r.counters.accepted = drafts;
  r.phases.verify_ms = pass_ms * double(count);
  r.passes = PassesByKind{.decode = {.passes = count, .steps = count, .phases = r.phases}};
  cell.repetitions = {r};
  return cell;
}

TEST(BreakEven, IsOfDecodePassesAndCoverage) {
  const CellAxes drafting{.proposer = "ngram", .num_speculative_tokens = 3};
  const CellSummary plain = summarize_cell(decoding_cell({}, 100, 1, 0));
  CellResult cell = decoding_cell(drafting, 100, 1.7, 84);
  const double without_prefill = *break_even_length(summarize_cell(cell), plain);
  EXPECT_NEAR(without_prefill, 1.8333, 1e-4);
  RepetitionResult& r = cell.repetitions[0];
  r.passes->prefill = {.passes = 1, .steps = 1, .phases = {.verify_ms = 5000}};
  r.phases.verify_ms += 5000;
  r.counters.target_forwards += 1;
  EXPECT_DOUBLE_EQ(*break_even_length(summarize_cell(cell), plain), without_prefill);
  EXPECT_FALSE(break_even_length(summarize_cell(decoding_cell(drafting, 100, 1.7, 0)), plain)) << "no drafts";
}

TEST(BreakEven, BelowOneAnyAcceptanceWouldDo) {
  SyntheticOptions options{.prefill_share = 0.5, .row_cost = -0.02, .ngram_chance = 0};
  RunResult run = slow_run(options);
  for (RepetitionResult& r : run.cells[1].repetitions) r.wall_s *= 1.2;  // by what lies between passes
  const std::string text = whole_verdict(run);
  EXPECT_TRUE(holds(text, ". Decode alone breaks even at any acceptance")) << text;
  EXPECT_FALSE(holds(text, "Break-even AL")) << text;
}

// An older record has no kinds of passes: it is read, and nothing is claimed of what it lacks.
TEST(PassRecords, OlderOnesAreReadAndSaidToLackThem) {
  RunResult run = slow_run({.prefill_share = 0.5, .row_cost = 0.24, .ngram_chance = 0.2});
  const RepetitionResult& now = run.cells[1].repetitions[0];
  nlohmann::json record = repetition_to_json(now);
  const RepetitionResult again = repetition_from_json(record);
  ASSERT_TRUE(again.passes);
  EXPECT_EQ(again.passes->decode.passes, now.passes->decode.passes);
  EXPECT_EQ(again.passes->prefill.steps, now.passes->prefill.steps);
  EXPECT_DOUBLE_EQ(again.passes->decode.phases.total_ms(), now.passes->decode.phases.total_ms());
  EXPECT_FALSE(holds(whole_verdict(run), "recorded before"));
  record.erase("passes");
  EXPECT_FALSE(repetition_from_json(record).passes);
  for (CellResult& cell : run.cells)
    for (RepetitionResult& r : cell.repetitions) r.passes.reset();
  const std::string text = whole_verdict(run);
  EXPECT_TRUE(holds(text, "2 cells were recorded before prefill and decode passes were told apart")) << text;
  EXPECT_FALSE(holds(text, "Break-even AL")) << text;
  const nlohmann::json row = summary_to_json(run, summarize(run))["cells"][1];
  EXPECT_TRUE(row["passes"].is_null());
  EXPECT_TRUE(row["break_even_acceptance_length"].is_null());
}

TEST(PassRecords, CountsThatContradictAreAProblem) {
  RunResult run = slow_run({});
  EXPECT_TRUE(record_problems(run.cells[1]).empty());
  ++run.cells[1].repetitions[0].passes->mixed.passes;
  EXPECT_EQ(record_problems(run.cells[1]).size(), 1u);
}

}  // namespace
}  // namespace paceline
