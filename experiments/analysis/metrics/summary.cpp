#include "experiments/analysis/metrics/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "engine/util/json_io.h"
#include "experiments/analysis/claims/claim.h"
#include "experiments/analysis/statistics/noise.h"
#include "speculative/proposer_entry.h"

namespace paceline {

namespace {

std::optional<double> ratio(int64_t numerator, int64_t denominator) {
  if (denominator == 0) return std::nullopt;
  return static_cast<double>(numerator) / static_cast<double>(denominator);
}

std::vector<double> mean_tpot_per_repetition(const CellResult& cell) {
  std::vector<double> means;
  for (const RepetitionResult& r : cell.repetitions) {
    means.push_back(mean(tpot_of(r)).value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  return means;
}

std::set<RequestKey> request_set(const RepetitionResult& r) {
  std::set<RequestKey> keys;
  for (const RequestRecord& q : r.requests) keys.insert(key_of(q));
  return keys;
}

bool same_requests(const CellResult& a, const CellResult& b) {
  const size_t pairs = std::min(a.repetitions.size(), b.repetitions.size());
  for (size_t i = 0; i < pairs; ++i) {
    if (request_set(a.repetitions[i]) != request_set(b.repetitions[i])) return false;
  }
  return pairs > 0;
}

/// Lengths, temperature and the like; where a record does not say, the same.
bool same_sampling(const CellResult& a, const CellResult& b) {
  const nlohmann::json* const of_a = find_value(a.requested, "sampling");
  const nlohmann::json* const of_b = find_value(b.requested, "sampling");
  return !of_a || !of_b || *of_a == *of_b;
}

void count_acceptance(const RequestRecord& q, std::vector<std::vector<int64_t>>& histogram) {
  if (!q.depth.empty() && q.depth.size() != q.drafted.size()) return;
  for (size_t i = 0; i < std::min(q.drafted.size(), q.accepted.size()); ++i) {
    if (q.accepted[i] < 0 || q.accepted[i] > q.depth_at(i)) continue;
    const auto depth = static_cast<size_t>(q.depth_at(i));
    if (histogram.size() <= depth) histogram.resize(depth + 1);
    histogram[depth].resize(depth + 1);
    ++histogram[depth][static_cast<size_t>(q.accepted[i])];
  }
}

void add_phases(const CellResult& cell, CellSummary& out) {
  PhaseTimes sum;
  for (const RepetitionResult& r : cell.repetitions) sum = sum + r.phases;
  const double total = sum.total_ms();
  if (total > 0) out.busy = (sum.draft_ms + sum.verify_ms + sum.sample_ms) / total;
  if (out.counters.target_forwards == 0) return;
  const double steps = static_cast<double>(out.counters.target_forwards);
  out.phase_ms_per_step = sum * (1 / steps);
  out.step_ms = total / steps;
}

void add_devices(const CellResult& cell, CellSummary& out) {
  std::vector<RankWork> ranks;
  double wall_s = 0;
  for (const RepetitionResult& r : cell.repetitions) {
    if (r.ranks.empty() || (!ranks.empty() && r.ranks.size() != ranks.size())) return;  // not measured throughout
    ranks.resize(r.ranks.size());
    for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] += r.ranks[rank];
    wall_s += r.wall_s;
  }
  const int deciding_rank = (cell.axes.pp - 1) * cell.axes.tp;
  out.devices = summarize_devices(ranks, deciding_rank, wall_s, out.counters.target_forwards, cell.ceilings);
}

void add_acceptance(CellSummary& out) {
  const RunCounters& c = out.counters;
  out.mean_acceptance_length = acceptance_length(c.accepted, c.drafts);
  out.draft_acceptance_rate = ratio(c.accepted, c.drafted);
  out.draft_coverage = ratio(c.drafts, c.verify_steps);
  if (c.drafts > 0 && c.verify_steps == 0) {  // a server states its drafts, not its other steps
    out.drafted_per_kept = ratio(c.drafted, c.accepted);
  } else if (c.drafts > 0) {
    out.rows_per_step = 1 + *ratio(c.drafted, c.verify_steps);
    out.mean_draft_depth =
        ratio(std::accumulate(c.proposed_by_position.begin(), c.proposed_by_position.end(), int64_t{0}), c.drafts);
    out.drafted_per_kept = ratio(c.drafted, c.accepted);
  }
  out.tokens_per_target_forward = ratio(out.output_tokens, c.steps);
  out.sequences_per_forward = ratio(c.steps, c.target_forwards);
  if (c.drafts == 0) return;
  for (size_t i = 0; i < c.accepted_by_position.size(); ++i) {
    out.acceptance_per_position.push_back(*ratio(c.accepted_by_position[i], c.drafts));
    int64_t reached = 0;  // steps that had a draft at i and kept all before it
    for (size_t depth = i + 1; depth < out.acceptance_histogram.size(); ++depth) {
      const std::vector<int64_t>& row = out.acceptance_histogram[depth];
      for (size_t accepted = i; accepted < row.size(); ++accepted) reached += row[accepted];
    }
    out.acceptance_per_position_conditional.push_back(
        ratio(c.accepted_by_position[i], reached).value_or(std::numeric_limits<double>::quiet_NaN()));
  }
}

/// It speculates by name and did what plain decoding does, or the other way round, as a server may; "": neither.
std::string why_not_what_it_is_called(const CellResult& cell) {
  const RunCounters pooled = pooled_counters(cell);
  const bool is_known = pooled.steps > 0 || pooled.verify_steps > 0;  // not of a server that says nothing
  if (cell.axes.drafts()) return is_known && pooled.drafts == 0 ? "never drafted" : "";
  return pooled.drafted > 0 ? "drafted without a proposer" : "";
}

std::string why_not_rankable(const CellResult& cell) {
  if (cell.status != CellStatus::done) return to_string(cell.status);
  if (cell.certificate.status == CertificateStatus::fail) return "certificate failed";
  if (cell.forced) return "stated acceptance";
  if (is_bound(cell)) return "a bound";
  if (cell.random_weights && cell.axes.drafts()) return "random weights";
  if (cell.oversubscribed) return "oversubscribed";
  return why_not_what_it_is_called(cell);
}

void compare_with_baseline(const CellResult& cell, const CellResult& baseline, const CellSummary& base,
                           CellSummary& out) {
  const bool asks_the_same = same_sampling(cell, baseline);
  if (!asks_the_same || !same_requests(cell, baseline)) {
    if (out.not_rankable.empty())
      out.not_rankable = asks_the_same ? "other requests than the baseline's" : "other sampling than the baseline's";
    out.rankable = false;
    return;
  }
  out.pairing = pairing_of(cell, baseline);
  if (!out.open_loop)
    out.speedup = ratio_of_repetitions(out.output_tok_s_per_repetition, base.output_tok_s_per_repetition, out.pairing);
  out.decode_speedup = decode_ratio(cell, baseline, out.pairing);
  if (&cell == &baseline) {
    out.outcome = Outcome::baseline;
    return;
  }
  out.baseline_apart_s = measured_earlier_s(baseline, cell);
  out.baseline_far = is_far_apart(out.baseline_apart_s, out.pairing, std::min(out.repetitions, base.repetitions));
  out.baseline_drifts = may_be_drift(out, base, out.baseline_far);
  out.break_even_acceptance_length = break_even_length(out, base);
  if (const std::optional<SpeculationBounds> bounds = speculation_bounds(out, base)) {
    if (!out.open_loop) out.speedup_bound = bounds->whole;
    out.decode_speedup_bound = bounds->decode;
  }
}

}  // namespace

bool is_bound(const CellResult& cell) {
  const ProposerEntry* const entry = find_proposer(cell.axes.proposer);
  return entry && (entry->bound == DraftBound::most_gain || entry->bound == DraftBound::most_cost);
}

std::optional<double> tpot_ms(const RequestRecord& request) {
  if (request.num_tokens() < 2 || !std::isfinite(request.ttft_ms)) return std::nullopt;
  return (request.e2e_ms - request.ttft_ms) / static_cast<double>(request.num_tokens() - 1);
}

std::vector<double> tpot_of(const RepetitionResult& r) {
  std::vector<double> tpot;
  for (const RequestRecord& q : r.requests) {
    if (const std::optional<double> of_request = tpot_ms(q)) tpot.push_back(*of_request);
  }
  return tpot;
}

std::vector<double> of_requests(const RepetitionResult& r, double RequestRecord::*member) {
  std::vector<double> values;
  for (const RequestRecord& q : r.requests) values.push_back(q.*member);
  return values;
}

std::optional<RatioInterval> decode_ratio(const CellResult& cell, const CellResult& over, Pairing pairing) {
  return ratio_of_repetitions(mean_tpot_per_repetition(over), mean_tpot_per_repetition(cell), pairing);
}

bool is_far_apart(std::optional<double> apart_s, Pairing pairing, int repetitions) {
  if (!apart_s) return false;
  return pairing == Pairing::none || (repetitions == 1 && std::fabs(*apart_s) >= kFarApart_s);
}

bool may_be_drift(const CellSummary& a, const CellSummary& b, bool are_far_apart) {
  return are_far_apart && !(a.noise.empty() && b.noise.empty());
}

std::vector<std::string> devices_used(const RunResult& run) {
  std::vector<std::string> used;
  for (const CellResult& cell : run.cells) {
    const auto devices = cell.effective.find("devices");
    if (!cell.effective.is_object() || devices == cell.effective.end() || !devices->is_array()) continue;
    for (const auto& device : *devices)
      if (device.is_string() && std::find(used.begin(), used.end(), device.get<std::string>()) == used.end())
        used.push_back(device.get<std::string>());
  }
  return used;
}

std::string proposer_label(const CellAxes& axes) {
  return axes.variant.empty() ? axes.proposer : fmt::format("{}, {}", axes.proposer, axes.variant);
}

std::string axes_label(const CellAxes& axes) {
  std::string label = fmt::format("tp{} pp{} {}", axes.tp, axes.pp, proposer_label(axes));
  if (axes.num_speculative_tokens) label += fmt::format(" k={}", *axes.num_speculative_tokens);
  return axes.concurrency > 0 ? label + fmt::format(" c={}", axes.concurrency) : label;  // 0: no closed loop
}

CellSummary summarize_cell(const CellResult& cell) {
  CellSummary out;
  out.not_rankable = why_not_rankable(cell);
  out.noise = noise_of(cell);
  out.rankable = out.not_rankable.empty();
  if (cell.status != CellStatus::done) return out;
  out.repetitions = static_cast<int>(cell.repetitions.size());
  out.counters = pooled_counters(cell);
  std::vector<double> ttft, e2e, tpot, itl;
  const auto add = [](std::vector<double>& all, const std::vector<double>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  std::set<std::string> hashes;
  int64_t degenerate = 0;
  const int num_devices = cell.axes.tp * cell.axes.pp;
  std::vector<double> requests_per_minute;  // of each repetition
  for (const RepetitionResult& r : cell.repetitions) {
    const int64_t tokens = output_tokens_of(r), requests = std::ssize(r.requests);
    out.output_tokens += tokens;
    out.num_requests += requests;
    const auto per_second = [&](int64_t count) {
      return r.wall_s > 0 ? static_cast<double>(count) / r.wall_s : std::numeric_limits<double>::quiet_NaN();
    };
    out.output_tok_s_per_repetition.push_back(per_second(tokens));
    requests_per_minute.push_back(60 * per_second(requests));
    if (const std::string hash = output_hash(r); hashes.insert(hash).second) out.output_hashes.push_back(hash);
    add(ttft, of_requests(r, &RequestRecord::ttft_ms));
    add(e2e, of_requests(r, &RequestRecord::e2e_ms));
    add(tpot, tpot_of(r));
    for (const RequestRecord& q : r.requests) {
      add(itl, q.itl_ms);
      degenerate += q.degenerate ? 1 : 0;
      count_acceptance(q, out.acceptance_histogram);
    }
  }
  if (const auto mean = geometric_mean(requests_per_minute)) out.requests_per_device_minute = *mean / num_devices;
  out.output_tok_s = geometric_mean(out.output_tok_s_per_repetition);
  out.output_tok_s_interval = geometric_mean_interval(out.output_tok_s_per_repetition);
  if (out.output_tok_s) out.tok_s_per_device = *out.output_tok_s / num_devices;
  out.ttft_ms = percentiles(ttft);
  out.e2e_ms = percentiles(e2e);
  out.tpot_ms = percentiles(tpot);
  if (out.tpot_ms.p50.value_or(0) > 0) out.tok_s_per_user = 1000 / *out.tpot_ms.p50;
  out.itl_ms = percentiles(itl);
  out.degenerate_share = ratio(degenerate, out.num_requests);
  add_acceptance(out);
  if (!cell.axes.drafts()) out.draft_coverage.reset();  // no proposer, nothing to cover
  add_phases(cell, out);
  out.passes = summarize_passes(cell);
  add_devices(cell, out);
  out.open_loop = summarize_open_loop(cell);
  return out;
}

RunSummary summarize(const RunResult& run) {
  RunSummary summary{count_cells(run.cells), {}};
  std::unordered_map<std::string, size_t> index_of;
  for (size_t i = 0; i < run.cells.size(); ++i) {
    const CellResult& cell = run.cells[i];
    index_of.emplace(cell.id, i);
    summary.cells.push_back(summarize_cell(cell));
    summary.cells.back().cell = i;
    if (cell.status == CellStatus::done) summary.cells.back().goodput = goodput_of(cell, run.slo);
  }
  for (size_t i = 0; i < run.cells.size(); ++i) {
    const CellResult& cell = run.cells[i];
    const auto baseline = index_of.find(cell.baseline_id);
    if (cell.status != CellStatus::done) continue;
    const bool compared = baseline != index_of.end() && run.cells[baseline->second].status == CellStatus::done;
    summary.cells[i].categories = summarize_categories(cell, compared ? &run.cells[baseline->second] : nullptr);
    if (!compared) continue;
    const size_t b = baseline->second;
    compare_with_baseline(cell, run.cells[b], summary.cells[b], summary.cells[i]);
  }
  conclude_rows(summary);
  return summary;
}

}  // namespace paceline
