#pragma once
// What `runexp regress` found, in the forms that CI systems read. Pure text; the command writes the files.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/analysis/comparison/timing_gate.h"
#include "experiments/results/files/baseline.h"
#include "experiments/results/results.h"
#include "kernels/error.h"

namespace paceline {

/// A cell under the exact gate.
struct ExactVerdict {
  std::string id;
  CellStatus status = CellStatus::done;  // of this run
  std::string reason;                    // of failed and skipped ones
  double wall_s = 0;                     // over its repetitions
  std::string not_lossless;  // how its tokens differ from its reference's in this very run; empty: they do not
  std::vector<BaselineDifference> differences;
  bool is_absent = false;  // the baseline has it, and this run has not
};

struct GateReport {
  std::string name;        // of the experiment
  std::string started_at;  // UTC, ISO 8601
  std::string baseline;    // file or run that the exact facts are from; empty: no exact gate
  std::string made_on;     // hardware of the baseline and of this run, where they differ: "X; this run: Y"
  std::vector<ExactVerdict> exact;
  int64_t left_out = 0;      // cells of the baseline that --only leaves out
  std::string baseline_bin;  // empty: no timing gate
  std::vector<TimingVerdict> timing;
  std::string timing_note;  // what was timed, or why nothing was
  bool strict = false;      // a pass on a machine that others kept busy is none
  std::string error;        // why the gates could not judge, one line; then nothing else is said
};

/// Every cell of the run and of the baseline, in plan order, those of the baseline alone last.
std::vector<ExactVerdict> exact_verdicts(const RunResult& run, const nlohmann::json& baseline);

/// correctness when an exact fact differs or a cell is not lossless, else timing when a cell is slower, else
/// inconclusive when strict and a cell was judged by disturbed pairs, else ok.
ExitCode gate_exit_code(const GateReport& report);

/// Differences, timings and a last line that sums up.
std::string gate_text(const GateReport& report);
std::string gate_markdown(const GateReport& report);

/// JUnit as Jenkins' junit-10.xsd has it: <testsuites>, a <testsuite> for each gate, a <testcase> for each cell with
/// <failure>, <error> (the cell failed) or <skipped>.
std::string gate_junit(const GateReport& report);

/// One "::error …::…" line for each cell that fails, "::warning …" for advice, as GitHub's workflow commands want them:
/// % CR LF escaped in messages, and : , in properties as well.
std::string github_annotations(const GateReport& report);

/// github-action-benchmark's customSmallerIsBetter: [{"name", "unit", "value", "range", "extra"}], for each finished
/// cell the mean over repetitions of the median TPOT and TTFT in ms (range: ± standard deviation) and its steps. Noisy
/// cells (noise.h) have no times here.
nlohmann::json benchmark_entries(const RunResult& run);

}  // namespace paceline
