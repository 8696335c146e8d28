#pragma once
// Several runs side by side: what was set differently, whether the same tokens came out, and which cells became faster.
// The first run is what the others are compared with. Pure functions of their input; any thread.
//
// Two runs are two processes, one after the other. Repetition i of one has nothing to do with repetition i of the
// other, so they are two independent samples (welch_ratio), not pairs. What drifts between the runs is in no interval:
// times are a hint, and the timing gate of `runexp regress --baseline-bin` is the judge. What does not depend on the
// clock is compared request by request.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/analysis/claims/policy.h"
#include "experiments/analysis/statistics/significance.h"
#include "experiments/results/results.h"

namespace paceline {

/// Each per repetition, except that acceptance_length is pooled over requests and steps are counted.
enum class Metric : uint8_t {
  output_tok_s,       // output tokens / wall time, prefill included
  decode_tok_s,       // 1000 / mean TPOT: tokens/s of a request after its first
  ttft_ms,            // median over requests
  tpot_ms,            // median over requests
  acceptance_length,  // 1 + accepted / drafts; bootstrap_ratio over requests
  steps,              // RunCounters::steps of the first repetition: exact, so it is the same or it is not
};
inline constexpr size_t kNumMetrics = 6;
inline constexpr std::array<Metric, kNumMetrics> kMetrics = {Metric::output_tok_s,      Metric::decode_tok_s,
                                                             Metric::ttft_ms,           Metric::tpot_ms,
                                                             Metric::acceptance_length, Metric::steps};

/// Field name, as the enumerator.
const char* to_string(Metric metric);
/// Column head: "tok/s", "TTFT".
const char* metric_title(Metric metric);

enum class Change : uint8_t {
  none,          // a side has no value
  better,        // Holm-adjusted p < 0.05 over the cells, and the ratio beyond the least effect
  worse,         //
  same,          // the whole 95 % interval within the least effect; steps: equal
  inconclusive,  // neither, or may_be_drift
};
/// In the metric's own word: "faster", "slower" for times and rates, "longer", "shorter" for acceptance lengths,
/// "fewer", "more" for steps; "same", "inconclusive", "–".
const char* change_word(Metric metric, Change change);

/// The other run's value over the first's.
struct MetricChange {
  std::optional<RatioInterval> test;  // steps: a ratio without interval
  bool may_be_drift = false;          // a time, and a side was disturbed: runs are apart (as may_be_drift, summary.h)
  std::optional<double> adjusted_p;   // holm_adjusted over the cells that have the metric in both runs, without drift
  std::optional<int> repetitions_needed;  // where times are inconclusive, if not for drift; none: over 1,000
  Change change = Change::none;
};

/// One leaf of the counters that is not what it was.
struct CounterChange {
  std::string name;  // "accepted", "output_tokens"
  nlohmann::json first, other;
};

/// A cell in one run.
struct CellSide {
  std::string id;  // empty: the run has no such cell
  CellStatus status = CellStatus::skipped;
  std::string reason;  // of failed and skipped ones
  int repetitions = 0;
  bool rankable = true;  // times of cells that own more threads than there are cores say little
  bool noisy = false;    // something disturbed its times (noise.h)
  std::array<std::optional<double>, kNumMetrics> values;  // geometric means over repetitions, as the ratios are

  // Against the first run: nothing in the first run itself and where either side is not done.
  bool compared = false;
  std::array<MetricChange, kNumMetrics> changes;
  int64_t requests_compared = 0;        // (request, repetition) pairs whose tokens were compared
  int64_t requests_different = 0;       // of these, with other tokens
  std::string first_difference;         // "repetition 0, request a: output token 5 is 7, expected 8"
  std::vector<CounterChange> counters;  // of the first repetition
  bool same_tokens() const { return compared && requests_different == 0 && first_difference.empty(); }
};

struct CellRow {
  CellAxes axes;
  std::vector<CellSide> runs;  // [num_runs]
};

/// A setting or fact that is not the same in all runs; values: [num_runs] as JSON text, "–" where it is absent.
struct KeyDifference {
  std::string key;
  std::vector<std::string> values;
};

struct CompareOptions {
  double min_effect = kLeastEffect;  // 0.02: a change below 2 % is none
};

struct ComparedRun {
  std::string id, started_at, numerics;
};

struct RunComparison {
  CompareOptions options;
  std::vector<ComparedRun> runs;
  std::vector<KeyDifference> subject;      // model, dataset, seed: then it is another experiment
  std::vector<KeyDifference> environment;  // machine, build, files read, numerics, sampling: read with care
  std::vector<KeyDifference> config;       // other settings outside the axes
  std::vector<CellRow> cells;              // in the order of the first run, then cells that only others have
};

/// Joins the cells of all runs by their axes. REQUIRES two runs or more. `subject` is filled, not judged: whether such
/// runs may be compared is the caller's decision.
RunComparison compare_runs(const std::vector<RunResult>& runs, const CompareOptions& options = {});

/// A part of compare_runs(): fills subject, environment and config. Keys of sweep, report and name are left out, and so
/// are axes: those tell cells apart, and a key swept in every run is compared cell by cell.
void compare_settings(const std::vector<RunResult>& runs, RunComparison& out);

}  // namespace paceline
