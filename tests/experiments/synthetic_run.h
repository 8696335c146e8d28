#pragma once
// A made-up but consistent run in the shape of configs/ngram_tp2.json, for tests of summary and reports.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "experiments/results/results.h"
#include "kernels/fnv1a.h"

namespace paceline::test {

struct SyntheticOptions {
  int repetitions = 3;
  int requests = 12;
  int output_tokens = 48;
  std::vector<int> concurrencies = {1};
  /// Of a plain cell's time; prompts then cost the same in every cell of its placement, and times are exactly what
  /// synthetic_step() and synthetic_prefill_ms() say. None: a prompt costs about a decode pass, and times scatter.
  std::optional<double> prefill_share;
  double row_cost = 0.03;  // of a draft's row in a decode pass, over the row without
  double ngram_chance = 0.78;
  bool with_trouble = true;  // a failed and a skipped cell, an oversubscribed placement
};

inline uint64_t next_random(uint64_t& state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return state >> 33;
}

/// What a decode pass of a cell costs.
inline PhaseTimes synthetic_step(const CellAxes& axes, double row_cost = SyntheticOptions().row_cost) {
  const bool plain = axes.proposer == "none", draft = axes.proposer == "draft";
  const int k = axes.num_speculative_tokens.value_or(0);
  const double verify_ms = 6.0 / std::pow(1.7, axes.tp - 1) * (1 + row_cost * k);
  return {.draft_ms = draft   ? 0.5 * k
                      : plain ? 0
                              : 0.02,
          .verify_ms = verify_ms,
          .sample_ms = 0.12,
          .schedule_ms = 0.08,
          .communicate_ms = axes.tp > 1 ? 0.35 : 0.01,
          .bubble_ms = axes.pp > 1 ? verify_ms * 0.4 : 0,
          .other_ms = 0.05};
}

/// What a prompt costs where options.prefill_share is given.
inline double synthetic_prefill_ms(const CellAxes& axes, const SyntheticOptions& options) {
  const double decode_ms = synthetic_step({.tp = axes.tp, .pp = axes.pp}).total_ms() * (options.output_tokens - 1);
  return decode_ms * *options.prefill_share / (1 - *options.prefill_share);
}

/// One request whose verify steps draft `k` tokens in a share `coverage` of steps, each accepted with `chance`.
inline RequestRecord synthetic_request(int index, int tokens, int k, double coverage, double chance, double step_ms,
                                       std::optional<double> prefill_ms, uint64_t& random, RunCounters& c) {
  const auto uniform = [&random] { return static_cast<double>(next_random(random) % 100000) / 1e5; };
  RequestRecord q{
      .id = fmt::format("q{}", index), .dataset_index = index, .category = "question", .prompt_tokens = 240};
  for (int i = 0; i < tokens; ++i) q.output.push_back(100 + (index * 31 + i * i * 7) % 5000);
  q.ttft_ms = prefill_ms ? *prefill_ms : 20 + step_ms * (1 + uniform());
  q.e2e_ms = q.ttft_ms;
  q.tokens_per_emission = {1};
  c.steps += 1;
  c.target_forwards += 1;
  for (int done = 1; done < tokens;) {
    const int draft_len = k > 0 && uniform() < coverage ? std::min(k, tokens - done - 1) : 0;
    int accepted = 0;
    while (accepted < draft_len && uniform() < chance) ++accepted;
    for (int i = 0; i < draft_len; ++i) ++c.proposed_by_position[static_cast<size_t>(i)];
    for (int i = 0; i < accepted; ++i) ++c.accepted_by_position[static_cast<size_t>(i)];
    q.drafted.push_back(draft_len);
    q.accepted.push_back(accepted);
    q.tokens_per_emission.push_back(accepted + 1);
    q.itl_ms.push_back(step_ms * (prefill_ms ? 1 : 0.9 + 0.2 * uniform()));
    q.e2e_ms += q.itl_ms.back();
    done += accepted + 1;
    c.steps += 1;
    c.verify_steps += 1;
    c.target_forwards += 1;
    c.drafts += draft_len > 0 ? 1 : 0;
    c.drafted += draft_len;
    c.accepted += accepted;
  }
  q.finish_reason = "length";
  q.degenerate = index == 3;
  return q;
}

inline CellResult synthetic_cell(int index, const CellAxes& axes, const SyntheticOptions& options) {
  CellResult cell{.index = index, .axes = axes};
  cell.id = fmt::format("tp{}_pp{}_{}{}_c{}", axes.tp, axes.pp, axes.proposer,
                        axes.num_speculative_tokens ? fmt::format("_k{}", *axes.num_speculative_tokens) : "",
                        axes.concurrency);
  cell.identity = fnv1a64_hex(cell.id);
  cell.requested = {{"measure", {{"repetitions", options.repetitions}}}};
  cell.baseline_id = fmt::format("tp{}_pp{}_none_c{}", axes.tp, axes.pp, axes.concurrency);
  const bool plain = axes.proposer == "none", draft = axes.proposer == "draft";
  const int k = axes.num_speculative_tokens.value_or(0);
  const PhaseTimes step = synthetic_step(axes, options.row_cost);
  std::optional<double> prefill_ms;
  if (options.prefill_share) prefill_ms = synthetic_prefill_ms(axes, options);
  uint64_t random = static_cast<uint64_t>(index) * 7919 + 17;
  for (int r = 0; r < options.repetitions; ++r) {
    RepetitionResult rep;
    rep.counters.proposed_by_position.resize(static_cast<size_t>(k));
    rep.counters.accepted_by_position.resize(static_cast<size_t>(k));
    for (int i = 0; i < options.requests; ++i) {
      rep.requests.push_back(synthetic_request(i, options.output_tokens, k, draft ? 1.0 : 0.72,
                                               draft ? 0.7 : options.ngram_chance, step.total_ms(), prefill_ms, random,
                                               rep.counters));
      rep.wall_s += rep.requests.back().e2e_ms / 1000 / axes.concurrency;
    }
    if (!prefill_ms) rep.wall_s *= 1 + 0.01 * static_cast<double>(next_random(random) % 5);
    const double n = static_cast<double>(rep.counters.target_forwards);
    const int64_t prompts = options.requests, decode_passes = rep.counters.target_forwards - prompts;
    const auto of_passes = [](const PhaseTimes& pass, int64_t passes) {
      PassTimes out{.passes = passes, .steps = passes, .phases = pass * double(passes)};
      out.phases.other_ms = 0;
      return out;
    };
    rep.phases = step * double(prefill_ms ? decode_passes : rep.counters.target_forwards);
    if (prefill_ms) rep.phases.verify_ms += *prefill_ms * double(prompts);
    rep.passes = {.prefill = of_passes(prefill_ms ? PhaseTimes{.verify_ms = *prefill_ms} : step, prompts),
                  .decode = of_passes(step, decode_passes),
                  .mixed = {}};
    rep.counters.kv_blocks_peak = 19;
    rep.ranks.resize(static_cast<size_t>(axes.tp * axes.pp));
    for (RankWork& rank : rep.ranks) {
      rank.verify = {
          .traffic = {.weight_bytes = static_cast<uint64_t>(14e6 * n) / static_cast<uint64_t>(axes.tp * axes.pp),
                      .flops = static_cast<uint64_t>(13e6 * n * (k + 1))},
          .seconds = step.verify_ms * n / 1000};
      rank.comm_bytes = axes.tp > 1 ? static_cast<int64_t>(2e4 * n) : 0;
    }
    cell.repetitions.push_back(std::move(rep));
  }
  cell.ceilings.read_bytes_s = 20e9;
  cell.ceilings.matrix_flops_s = 200e9;
  cell.ceilings.matrix = "float32 FMAs";
  cell.effective = {
      {"tp", axes.tp}, {"pp", axes.pp}, {"proposer", axes.proposer}, {"dtype", "bfloat16"}, {"numerics", "strict"}};
  cell.certificate = {
      .status = plain ? CertificateStatus::baseline : CertificateStatus::pass,
      .method = "token-exact against " + cell.baseline_id,
      .tokens_checked = plain ? 0 : int64_t{options.requests} * options.output_tokens * options.repetitions};
  return cell;
}

inline RunResult synthetic_run(const SyntheticOptions& options = {}) {
  RunResult run;
  run.info = {.name = "ngram_tp2",
              .id = "2026-11-21T093012Z_ngram_tp2_7f3a",
              .profile = "quick",
              .config_path = "configs/ngram_tp2.json",
              .argv = {"build/release/runexp", "configs/ngram_tp2.json", "--profile", "quick", "--set",
                       "sampling.stop=[\"a b\"]"},
              .config_hash = "7f3a00112233aabb",
              .started_at = "2026-11-21T09:30:12Z",
              .status = "done",
              .seed = 1,
              .numerics = "strict"};
  run.environment = {{"cpu_model", "Example CPU <2 cores> & more"}, {"isa", {"avx2", "fma"}}, {"cores_available", 2},
                     {"memory_total_bytes", 8589934592LL},          {"binary_hash", "00ff"},  {"git_commit", ""}};
  run.config_resolved = {{"name", "ngram_tp2"}, {"load", {{"concurrency", 1}}}};
  run.wall_s = 97.4;
  for (int concurrency : options.concurrencies) {
    for (int tp : {1, 2}) {
      for (int pp : {1, 2}) {
        for (const char* proposer : {"none", "ngram", "draft"}) {
          std::vector<std::optional<int>> ks = {1, 3, 5};
          if (std::string(proposer) == "none") ks = {std::nullopt};
          for (const auto& k : ks) {
            const CellAxes axes{
                .tp = tp, .pp = pp, .proposer = proposer, .num_speculative_tokens = k, .concurrency = concurrency};
            CellResult cell = synthetic_cell(static_cast<int>(run.cells.size()), axes, options);
            if (options.with_trouble) {
              cell.oversubscribed = tp * pp > 2;
              if (tp == 2 && pp == 1 && k == 3 && axes.proposer == "draft") {
                cell.status = CellStatus::failed;
                cell.reason = "rank 1 did not answer within 30 s <deadline>";
                cell.repetitions.clear();
              }
              if (tp == 1 && pp == 2 && k == 5 && axes.proposer == "draft") {
                cell.status = CellStatus::skipped;
                cell.reason = "excluded by sweep.exclude[0]";
                cell.repetitions.clear();
              }
            }
            run.cells.push_back(std::move(cell));
          }
        }
      }
    }
  }
  return run;
}

}  // namespace paceline::test
