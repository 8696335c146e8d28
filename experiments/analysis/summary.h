#pragma once
// From records to metrics. Every metric is defined here once; docs/metrics.md and results/README.md repeat the words.
//
// Counts are pooled over the repetitions of a cell; ratios to the baseline are paired by repetition.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/analysis/categories.h"
#include "experiments/analysis/cell_ratio.h"
#include "experiments/analysis/claims/policy.h"
#include "experiments/analysis/goodput.h"
#include "experiments/analysis/open_loop.h"
#include "experiments/analysis/pass_cost.h"
#include "experiments/analysis/statistics.h"
#include "experiments/results/results.h"

namespace paceline {

/// Above this, a row of a single repetition, which pairs with nothing, says when its baseline was measured.
inline constexpr double kFarApart_s = 600;

struct CellSummary {
  size_t cell = 0;  // index into RunResult::cells
  int repetitions = 0;
  int64_t num_requests = 0;   // over all repetitions
  int64_t output_tokens = 0;  // over all repetitions

  /// Geometric mean over repetitions of (output tokens / wall_s), prefill included: then speedup is the exact ratio.
  std::optional<double> output_tok_s;
  std::vector<double> output_tok_s_per_repetition;
  std::optional<Interval> output_tok_s_interval;  // 95 %, over repetitions
  std::optional<double> tok_s_per_device;         // output_tok_s / (tp · pp)
  std::optional<double> tok_s_per_user;           // 1000 / median TPOT: the pace at which a request's tokens come
  /// Finished requests per minute and rank: what a device gets done.
  std::optional<double> requests_per_device_minute;
  /// output_tok_s over that of the baseline cell, the same requests; see ratio_of_repetitions. None in an open loop,
  /// whose rate is what was sent.
  std::optional<RatioInterval> speedup;
  /// (mean TPOT of the baseline) / (mean TPOT of the cell).
  std::optional<RatioInterval> decode_speedup;
  /// Over the baseline: SpeculationBounds::whole and ::decode. The first is none in an open loop.
  std::optional<double> speedup_bound, decode_speedup_bound;
  Pairing pairing = Pairing::by_repetition;  // with the baseline
  /// How much earlier the baseline was measured (measured_earlier_s); none: not known, or no baseline.
  std::optional<double> baseline_apart_s;
  bool baseline_far = false;  // is_far_apart
  /// Over the baseline: break_even_length.
  std::optional<double> break_even_acceptance_length;

  /// 1 + accepted / drafts: tokens a verify step that had drafts gives, bonus included, in [1, k+1].
  std::optional<double> mean_acceptance_length;
  std::optional<double> draft_acceptance_rate;  // accepted / drafted, 0..1
  std::vector<double> acceptance_per_position;  // [k] steps with more than i accepted / drafts: unconditional
  std::vector<double> acceptance_per_position_conditional;  // [k] of the steps that reached i; NaN: none did
  std::optional<double> draft_coverage;                     // drafts / verify_steps; no value for "none"
  std::optional<double> rows_per_step;              // 1 + drafted / verify_steps: rows of the target, per sequence
  std::optional<double> mean_draft_depth;           // positions that the drafts of a step reach: k of a full chain
  std::optional<double> drafted_per_kept;           // drafted / accepted
  std::optional<double> tokens_per_target_forward;  // output tokens / steps: per sequence, 1 without speculation
  std::optional<double> sequences_per_forward;      // steps / target_forwards: the batch size in effect
  std::vector<std::vector<int64_t>> acceptance_histogram;  // [depth][accepted] verify steps; row 0: without drafts

  Percentiles ttft_ms, e2e_ms;
  Percentiles tpot_ms;                     // (e2e - ttft) / (output tokens - 1), requests with at least two tokens
  Percentiles itl_ms;                      // gaps between emissions, not tokens
  std::optional<double> degenerate_share;  // requests whose output ends in a repetition
  std::optional<OpenLoopSummary> open_loop;
  std::optional<Goodput> goodput;           // where report.slo is given
  std::vector<CategorySummary> categories;  // empty with fewer than two

  PhaseTimes phase_ms_per_step;   // per target pass
  std::optional<double> step_ms;  // all phases together, per target pass, prefill passes too
  std::optional<PassSummaries> passes;
  std::optional<double> busy;  // (draft + verify + sample) / all phases, on the deciding rank
  DeviceSummary devices;
  RunCounters counters;                    // pooled
  std::vector<std::string> output_hashes;  // different ones over the repetitions; strict gives exactly one

  bool is_saturated() const { return open_loop && open_loop->saturated.value_or(false); }

  bool rankable = false;            // done, lossless, drafted, not oversubscribed, certificate not failed
  std::string not_rankable;         // why not
  std::string noise;                // what disturbed the cell's times (noise.h); empty: it is not noisy
  Outcome outcome = Outcome::none;  // what speedup shows; in an open loop, decode_speedup
};

struct RunSummary : CellCounts {
  std::vector<CellSummary> cells;  // one for each of RunResult::cells, same order
};

/// (e2e - ttft) / (output tokens - 1); none for fewer than two tokens.
std::optional<double> tpot_ms(const RequestRecord& request);

/// tpot_ms() of the requests that have one.
std::vector<double> tpot_of(const RepetitionResult& repetition);

/// Mean TPOT of `over` over that of `cell`, with an interval over repetitions.
std::optional<RatioInterval> decode_ratio(const CellResult& cell, const CellResult& over, Pairing pairing);

/// Whether the time between a cell and its reference (measured_earlier_s) is to be told: they were not measured by
/// turns nor in halves, or there is a single repetition and they are kFarApart_s or more apart.
bool is_far_apart(std::optional<double> apart_s, Pairing pairing, int repetitions);

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
