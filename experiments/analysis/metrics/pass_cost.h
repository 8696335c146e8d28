#pragma once
// What passes of each kind cost, and what that makes of speculation. Drafts change what a decode pass costs and how
// many there are; prefill they leave as it is. So the cost of drafts, the break-even and the bounds are of decode
// passes.

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/results/results.h"

namespace paceline {

struct CellSummary;

/// Passes of one kind, pooled over a cell's repetitions.
struct PassSummary {
  int64_t passes = 0;
  double share = 0;
  std::optional<double> pass_ms, sequences;
  PhaseTimes phase_ms;

  template <class Visit>
  static void fields(Visit&& visit) {
    using P = PassSummary;
    visit("passes", &P::passes, "");
    visit("share", &P::share, "of the time of all phases");
    visit("pass_ms", &P::pass_ms, "mean; null: no such pass");
    visit("sequences", &P::sequences, "mean number of sequences that a pass gives tokens");
    visit(
        "phase_ms", [](const P& p) { return p.pass_ms ? std::optional(p.phase_ms) : std::nullopt; },
        "per pass, without `other`");
  }
};

struct PassSummaries {
  PassSummary prefill, decode, mixed;
  double total_ms = 0;  // all phases, with what lies between passes; mean over repetitions

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("prefill", &PassSummaries::prefill, "");
    visit("decode", &PassSummaries::decode, "");
    visit("mixed", &PassSummaries::mixed, "");
  }
};

/// None: nothing was measured, or a repetition was recorded before passes were told apart.
std::optional<PassSummaries> summarize_passes(const CellResult& cell);

/// Time of a decode pass of `cell` over that of one of `plain`; none where either is not known.
std::optional<double> decode_pass_ratio(const CellSummary& cell, const CellSummary& plain);

/// The mean acceptance length at which `cell` would decode as fast as `plain`, its coverage and costs as they are:
/// 1 + (decode_pass_ratio - 1) / coverage. May lie above k + 1, which nothing reaches, or at 1 and below: then any
/// acceptance would do. None without drafts.
std::optional<double> break_even_length(const CellSummary& cell, const CellSummary& plain);

/// What speculation would gain if verifying were free: a decode pass costs what `plain`'s does, and drafting.
struct SpeculationBounds {
  double decode = 0;  // of decode_speedup: tokens a decode pass gives a sequence / (1 + draft time / plain's pass)
  double whole = 0;   // of speedup: decode passes at that bound, everything else as measured
};
std::optional<SpeculationBounds> speculation_bounds(const CellSummary& cell, const CellSummary& plain);

/// The one phase besides verification that costs most of a decode pass, with its share: "drafting takes 71 % of a
/// decode pass". Empty where none has a tenth of it.
std::string costliest_phase(const CellSummary& cell);

}  // namespace paceline
