#pragma once
// Runs whose cells' speeds are set by hand, and what the verdict says of them.

#include <string>
#include <vector>

#include "experiments/analysis/verdict/verdict.h"

namespace paceline::test {

/// A cell of one request of 100 tokens, one repetition for each rate in tokens/s. Verify steps of a proposer draft k
/// tokens each and accept one.
inline CellResult cell_of(const std::string& id, const CellAxes& axes, const std::vector<double>& rates) {
  CellResult cell{.id = id, .axes = axes};
  cell.identity = id;
  cell.requested = {
      {"measure", {{"repetitions", rates.size()}}},
      {"engine", {{"parallel", {{"tp", axes.tp}, {"pp", axes.pp}}}, {"scheduler", {{"batching", "continuous"}}}}}};
  const bool drafts = axes.proposer != "none";
  for (const double rate : rates) {
    RepetitionResult r;
    RequestRecord q{.id = "q"};
    q.output.resize(100);
    q.ttft_ms = 1;
    q.e2e_ms = 1e5 / rate;
    r.requests.push_back(q);
    r.wall_s = 100 / rate;
    const int64_t steps = drafts ? 50 : 100;
    r.counters = {.steps = steps, .verify_steps = steps, .target_forwards = steps};
    if (drafts) {
      r.counters.drafts = r.counters.accepted = steps;
      r.counters.drafted = steps * axes.num_speculative_tokens.value_or(1);
    }
    r.phases.verify_ms = r.wall_s * 1e3;
    r.passes = PassesByKind{.decode = {.passes = steps, .steps = steps, .phases = r.phases}};
    cell.repetitions.push_back(std::move(r));
  }
  cell.certificate.status = drafts ? CertificateStatus::pass : CertificateStatus::baseline;
  cell.certificate.tokens_checked = drafts ? 100 : 0;
  cell.baseline_id = "plain";
  return cell;
}

inline CellResult plain(const std::vector<double>& rates) { return cell_of("plain", {}, rates); }
inline CellResult ngram(int k, const std::vector<double>& rates) {
  return cell_of(fmt::format("ngram{}", k), {.proposer = "ngram", .num_speculative_tokens = k}, rates);
}
inline CellResult placed(CellResult cell, int tp, int pp) {
  cell.axes.tp = tp;
  cell.axes.pp = pp;
  cell.requested["engine"]["parallel"] = {{"tp", tp}, {"pp", pp}};
  cell.id += fmt::format("_tp{}_pp{}", tp, pp);
  return cell;
}

/// Other processes used half of the two cores in its first repetition.
inline CellResult disturbed(CellResult cell) {
  cell.repetitions[0].disturbance = Disturbance{.wall_s = 1,
                                                .cores = 2,
                                                .foreign_cpu_s = 1,
                                                .stolen_s = {},
                                                .throttled_s = {},
                                                .throttled_periods = {},
                                                .thermal_events = {},
                                                .clock_ghz = {}};
  return cell;
}

inline CellResult not_run(CellResult cell) {
  cell.status = CellStatus::skipped;
  cell.not_run = true;
  cell.reason = "not run: interrupted";
  cell.repetitions.clear();
  return cell;
}

inline RunResult run_of(std::vector<CellResult> cells) {
  RunResult run;
  run.cells = std::move(cells);
  return run;
}

inline std::vector<std::string> details(const RunResult& run) {
  std::vector<std::string> out;
  for (const VerdictSentence& v : make_verdict(run, summarize(run)).details) out.push_back(v.text);
  return out;
}
/// The headline's, then the details.
inline std::vector<std::string> sentences(const RunResult& run) {
  std::vector<std::string> out = make_verdict(run, summarize(run)).headline;
  for (std::string& text : details(run)) out.push_back(std::move(text));
  return out;
}
inline std::string verdict(const RunResult& run) { return fmt::format("{}", fmt::join(sentences(run), "\n")); }

inline const std::vector<double> kSlow = {100, 101, 99}, kFast = {150, 152, 149}, kNearFast = {148, 153, 147};

/// As configs/tp_pp_speculative.json: every row over one rank, so that a row of two ranks holds the gain of both.
struct OverOneRank {
  CellResult one = asked(plain(kSlow), "none"), two = asked(placed(plain({200, 202, 198}), 2, 1), "none");

  static CellResult asked(CellResult cell, const char* proposer) {
    cell.requested["speculation"] = {{"proposer", proposer}};
    return cell;
  }
  static CellResult drafts(const std::vector<double>& rates) { return asked(placed(ngram(3, rates), 2, 1), "ngram"); }
};

}  // namespace paceline::test
