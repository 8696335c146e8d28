#pragma once
// From records to metrics. Every metric is defined here once; docs/metrics.md and results/README.md repeat the words.
//
// Counts are pooled over the repetitions of a cell; ratios to the baseline are paired by repetition.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/analysis/claims/policy.h"
#include "experiments/analysis/metrics/cell_ratio.h"
#include "experiments/analysis/metrics/loads.h"
#include "experiments/analysis/metrics/pass_cost.h"
#include "experiments/analysis/metrics/within_cell.h"
#include "experiments/analysis/statistics/statistics.h"
#include "experiments/results/results.h"

namespace paceline {

/// Above this, a row of a single repetition, which pairs with nothing, says when its baseline was measured.
inline constexpr double kFarApart_s = 600;

struct CellSummary {
  size_t cell = 0;  // index into RunResult::cells
  int repetitions = 0;
  int64_t num_requests = 0, output_tokens = 0;
  std::optional<double> output_tok_s;  // prefill included: then speedup is the exact ratio
  std::vector<double> output_tok_s_per_repetition;
  std::optional<Interval> output_tok_s_interval;
  std::optional<double> tok_s_per_device, tok_s_per_user, requests_per_device_minute;
  std::optional<RatioInterval> speedup, decode_speedup;       // ratio_of_repetitions, decode_ratio
  std::optional<double> speedup_bound, decode_speedup_bound;  // SpeculationBounds::whole and ::decode
  Pairing pairing = Pairing::by_repetition;                   // with the baseline
  std::optional<double> baseline_apart_s;                     // measured_earlier_s
  bool baseline_far = false;                                  // is_far_apart
  bool baseline_drifts = false;                               // may_be_drift
  std::optional<double> break_even_acceptance_length;         // over the baseline: break_even_length
  std::optional<double> mean_acceptance_length, draft_acceptance_rate;
  std::vector<double> acceptance_per_position, acceptance_per_position_conditional;  // [k]; NaN: none reached it
  std::optional<double> draft_coverage, rows_per_step, mean_draft_depth, drafted_per_kept;
  std::optional<double> tokens_per_target_forward, sequences_per_forward;
  std::vector<std::vector<int64_t>> acceptance_histogram;  // row 0: steps without drafts
  Percentiles ttft_ms, e2e_ms, tpot_ms, itl_ms;
  std::optional<double> degenerate_share;
  std::optional<OpenLoopSummary> open_loop;
  std::optional<Goodput> goodput;
  std::vector<CategorySummary> categories;
  PhaseTimes phase_ms_per_step;
  std::optional<double> step_ms;
  std::optional<PassSummaries> passes;
  std::optional<double> busy;
  DeviceSummary devices;
  RunCounters counters;
  std::vector<std::string> output_hashes;
  bool rankable = false;
  std::string not_rankable, noise;
  Outcome outcome = Outcome::none;  // what speedup shows; in an open loop, decode_speedup

  bool is_saturated() const { return open_loop && open_loop->saturated.value_or(false); }

  template <class Visit>
  static void fields(Visit&& visit) {
    using S = CellSummary;
    using enum FieldRule;
    visit("repetitions", &S::repetitions, "that were measured");
    visit("num_requests", &S::num_requests, "over all repetitions");
    visit("output_tokens", &S::output_tokens, "over all repetitions");
    visit(
        "output_tok_s", &S::output_tok_s,
        "geometric mean over repetitions of output tokens / wall time (first submit to last token, prefill included)");
    visit("output_tok_s_per_repetition", &S::output_tok_s_per_repetition, "");
    visit("output_tok_s_ci95", &S::output_tok_s_interval,
          "Student-t 95 % interval of the mean of logs, null with one repetition");
    visit("tok_s_per_device", &S::tok_s_per_device, "`output_tok_s` / (tp × pp)");
    visit("tok_s_per_user", &S::tok_s_per_user, "1000 / median TPOT: the pace at which a request's tokens come");
    visit("requests_per_device_minute", &S::requests_per_device_minute,
          "geometric mean over repetitions of finished requests per minute of wall time, for each rank (tp × pp)");
    visit(
        "speedup", ratio_of_member(&S::speedup),
        "ratio of `output_tok_s` to the baseline's on the same requests; null in an open loop, whose rate is what was "
        "sent");
    visit("speedup_ci95", &S::speedup,
          "Student-t interval of the log ratios paired by repetition, null with one; Welch's where the two were not "
          "measured by turns");
    visit("decode_speedup", ratio_of_member(&S::decode_speedup),
          "mean TPOT of the baseline over the cell's: geometric mean of the repetitions' ratios");
    visit("decode_speedup_ci95", &S::decode_speedup, "likewise");
    visit("speedup_bound", &S::speedup_bound,
          "what `speedup` would be if verifying were free ([docs/metrics.md](../docs/metrics.md#speed))");
    visit("decode_speedup_bound", &S::decode_speedup_bound, "likewise");
    visit(
        "paired_with_baseline",
        [](const S& s) {
          return s.speedup || s.decode_speedup ? std::optional(s.pairing == Pairing::by_repetition) : std::nullopt;
        },
        "whether the two were measured by turns ([docs/metrics.md](../docs/metrics.md#words))");
    visit("baseline_apart_s", &S::baseline_apart_s,
          "how many seconds earlier the baseline was measured; null: not known");
    visit("break_even_acceptance_length", &S::break_even_acceptance_length,
          "mean acceptance length at which the cell would decode as fast as its baseline: 1 + (decode pass over the "
          "baseline's − 1) / `draft_coverage`");
    visit(
        "outcome", [](const S& s) { return std::string(to_string(s.outcome)); },
        R"("faster" (interval above 1), "slower", "inconclusive", "baseline", "none")");
    visit("rankable", &S::rankable, "");
    visit(
        "not_rankable_reason", [](const S& s) { return s.rankable ? std::nullopt : std::optional(s.not_rankable); },
        "failed, never drafted, oversubscribed, of stated acceptance, drafting on random weights, certificate failed, "
        "other requests than the baseline's");
    visit(
        "noisy", [](const S& s) { return !s.noise.empty(); },
        "whether other processes or the machine disturbed its times "
        "([docs/metrics.md](../docs/metrics.md#disturbed-cells))");
    visit("noise", &S::noise, R"(how: "other processes used 38 % of the cores in repetition 2 of 7")", null_if_default);
    visit("mean_acceptance_length", &S::mean_acceptance_length,
          "1 + accepted / drafts; a *draft* is a verify step with at least one draft token; 1 … k+1");
    visit("draft_acceptance_rate", &S::draft_acceptance_rate, "accepted / drafted tokens");
    visit("acceptance_per_position", &S::acceptance_per_position,
          "`[i]`: drafts that accepted more than i tokens / drafts (unconditional)");
    visit("acceptance_per_position_conditional", &S::acceptance_per_position_conditional,
          "`[i]`: of the steps that reached i; null: none did");
    visit("acceptance_histogram", &S::acceptance_histogram,
          "`[d][a]`: verify steps with drafts for d positions of which a were accepted");
    visit("draft_coverage", &S::draft_coverage, "drafts / verify steps; null for `none`");
    visit("rows_per_step", &S::rows_per_step, "1 + drafted / verify steps: rows of the target, per sequence");
    visit("mean_draft_depth", &S::mean_draft_depth, "positions that the drafts of a step reach: k of a full chain");
    visit("drafted_per_kept", &S::drafted_per_kept, "drafted / accepted");
    visit("tokens_per_target_forward", &S::tokens_per_target_forward,
          "output tokens / (sequence, target pass) pairs that emitted: 1 without speculation, at any concurrency");
    visit("sequences_per_forward", &S::sequences_per_forward,
          "such pairs / batched target passes: the batch in effect");
    visit("ttft_ms", &S::ttft_ms, "over requests and repetitions, as the next three");
    visit("tpot_ms", &S::tpot_ms, "(E2E − TTFT) / (tokens − 1), requests with at least two tokens");
    visit("itl_ms", &S::itl_ms, "gaps between emissions, not tokens");
    visit("e2e_ms", &S::e2e_ms, "");
    visit("degenerate_share", &S::degenerate_share,
          "requests whose output ends in a loop: period ≤ 16 over the last 32 tokens");
    visit("open_loop", &S::open_loop, "null for other loads ([docs/metrics.md](../docs/metrics.md#open-loops))");
    visit("goodput", &S::goodput, "null without `report.slo`");
    visit("by_category", &S::categories, "empty with fewer than two");
    visit("step_ms", &S::step_ms, "all phases together, per target pass, prefill passes too");
    visit(
        "phase_ms_per_step",
        [](const S& s) { return s.phase_ms_per_step * (s.step_ms ? 1 : std::numeric_limits<double>::quiet_NaN()); },
        "per target pass on the sampling rank");
    visit("passes", &S::passes, "null in runs of older programs, and then break-even and bounds are null, too");
    visit("busy", &S::busy, "compute share: draft + verify + sample as a share of all phases");
    visit(
        "device_busy", [](const S& s) { return s.devices.busy; },
        "`[rank]`: share of the wall time in which the rank's device was at work");
    visit("roofline", &S::devices,
          "per target pass on the sampling rank ([docs/metrics.md](../docs/metrics.md#devices-and-rooflines))");
    visit("counters", &S::counters, "pooled; over HTTP null where no server states it");
    visit("output_hashes", &S::output_hashes,
          "hash of all output tokens by request; strict numerics give one over all repetitions");
  }
};

struct RunSummary : CellCounts {
  std::vector<CellSummary> cells;  // one for each of RunResult::cells, same order
};

/// (e2e - ttft) / (output tokens - 1); none for fewer than two tokens.
std::optional<double> tpot_ms(const RequestRecord& request);

/// tpot_ms() of the requests that have one.
std::vector<double> tpot_of(const RepetitionResult& repetition);

/// A time of each request.
std::vector<double> of_requests(const RepetitionResult& repetition, double RequestRecord::*member);

/// Mean TPOT of `over` over that of `cell`, with an interval over repetitions.
std::optional<RatioInterval> decode_ratio(const CellResult& cell, const CellResult& over, Pairing pairing);

/// Whether the time between a cell and its reference (measured_earlier_s) is to be told: they were not measured by
/// turns nor in halves, or there is a single repetition and they are kFarApart_s or more apart.
bool is_far_apart(std::optional<double> apart_s, Pairing pairing, int repetitions);
/// Whether a ratio of cells measured far apart, one of them disturbed, may show the machine: then it shows nothing.
bool may_be_drift(const CellSummary& a, const CellSummary& b, bool are_far_apart);

/// Whether the cell measures a bound: it drafts from what an earlier pass has shown, which no server knows.
bool is_bound(const CellResult& cell);

/// Metrics of one cell, without those that need a baseline or report.slo.
CellSummary summarize_cell(const CellResult& cell);

/// Metrics of all cells; speedups refer to CellResult::baseline_id.
RunSummary summarize(const RunResult& run);

/// What is wrong with the records of a finished cell, one line each: a request that did not finish, counts that
/// contradict each other, a time that is not finite. Empty metrics are not success; the runner fails such a cell.
std::vector<std::string> record_problems(const CellResult& cell);

/// summary.json and summary.csv (schema: results/README.md).
nlohmann::json summary_to_json(const RunResult& run, const RunSummary& summary);
std::string summary_to_csv(const RunResult& run, const RunSummary& summary);

/// The devices on which cells ran, in order of first appearance: "cpu", "cuda:1".
std::vector<std::string> devices_used(const RunResult& run);

/// "ngram", or "none, batching=static" for a cell that differs in more than the axes.
std::string proposer_label(const CellAxes& axes);

/// "tp2 pp1 ngram k=5 c=1"
std::string axes_label(const CellAxes& axes);

}  // namespace paceline
