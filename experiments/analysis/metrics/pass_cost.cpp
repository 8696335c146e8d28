#include "experiments/analysis/metrics/pass_cost.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {
namespace {

PassTimes operator+(const PassTimes& a, const PassTimes& b) {
  return {.passes = a.passes + b.passes, .steps = a.steps + b.steps, .phases = a.phases + b.phases};
}

PassSummary summary_of(const PassTimes& times, double all_ms) {
  const double total_ms = times.phases.total_ms();
  PassSummary out{.passes = times.passes, .share = all_ms > 0 ? total_ms / all_ms : 0};
  if (times.passes == 0) return out;
  const auto passes = double(times.passes);
  out.pass_ms = total_ms / passes;
  out.sequences = double(times.steps) / passes;
  out.phase_ms = times.phases * (1 / passes);
  return out;
}

/// Tokens that a decode pass gives one sequence.
std::optional<double> tokens_per_decode_step(const CellSummary& cell) {
  if (!cell.draft_coverage || !cell.mean_acceptance_length) return std::nullopt;
  return 1 + *cell.draft_coverage * (*cell.mean_acceptance_length - 1);
}

}  // namespace

std::optional<PassSummaries> summarize_passes(const CellResult& cell) {
  PassesByKind sum;
  double all_ms = 0;
  for (const RepetitionResult& r : cell.repetitions) {
    if (!r.passes) return std::nullopt;
    sum.prefill = sum.prefill + r.passes->prefill;
    sum.decode = sum.decode + r.passes->decode;
    sum.mixed = sum.mixed + r.passes->mixed;
    all_ms += r.phases.total_ms();
  }
  if (cell.repetitions.empty()) return std::nullopt;
  return PassSummaries{.prefill = summary_of(sum.prefill, all_ms),
                       .decode = summary_of(sum.decode, all_ms),
                       .mixed = summary_of(sum.mixed, all_ms),
                       .total_ms = all_ms / double(cell.repetitions.size())};
}

std::optional<double> decode_pass_ratio(const CellSummary& cell, const CellSummary& plain) {
  if (!cell.passes || !plain.passes) return std::nullopt;
  const std::optional<double>&pass_ms = cell.passes->decode.pass_ms, &plain_ms = plain.passes->decode.pass_ms;
  if (!pass_ms || plain_ms.value_or(0) <= 0) return std::nullopt;
  return *pass_ms / *plain_ms;
}

std::optional<double> break_even_length(const CellSummary& cell, const CellSummary& plain) {
  const std::optional<double> ratio = decode_pass_ratio(cell, plain);
  if (!ratio || cell.draft_coverage.value_or(0) <= 0) return std::nullopt;
  return 1 + (*ratio - 1) / *cell.draft_coverage;
}

std::optional<SpeculationBounds> speculation_bounds(const CellSummary& cell, const CellSummary& plain) {
  const std::optional<double> tokens = tokens_per_decode_step(cell);
  if (!tokens || !decode_pass_ratio(cell, plain)) return std::nullopt;
  const PassSummaries &own = *cell.passes, &its = *plain.passes;
  SpeculationBounds bounds;
  bounds.decode = *tokens / (1 + own.decode.phase_ms.draft_ms / *its.decode.pass_ms);
  const double rest_ms = own.total_ms * (1 - own.decode.share);
  const double decode_ms = its.total_ms * its.decode.share / bounds.decode;
  bounds.whole = rest_ms + decode_ms > 0 ? its.total_ms / (rest_ms + decode_ms) : bounds.decode;
  return bounds;
}

std::string costliest_phase(const CellSummary& summary) {
  if (!summary.passes || summary.passes->decode.pass_ms.value_or(0) <= 0) return "";
  const PhaseTimes& p = summary.passes->decode.phase_ms;
  const std::array<std::pair<double, const char*>, 5> phases = {{{p.draft_ms, "drafting takes"},
                                                                 {p.sample_ms, "sampling takes"},
                                                                 {p.schedule_ms, "scheduling takes"},
                                                                 {p.communicate_ms, "communication takes"},
                                                                 {p.bubble_ms, "pipeline bubbles take"}}};
  const auto largest = std::max_element(phases.begin(), phases.end());
  const double share = largest->first / *summary.passes->decode.pass_ms;
  if (share < 0.1) return "";
  return fmt::format("{} {:.0f} % of a decode pass", largest->second, 100 * share);
}

}  // namespace paceline
