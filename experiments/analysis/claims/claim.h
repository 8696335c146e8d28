#pragma once
// What a run shows, concluded once: terminal, JSON, Markdown and HTML say a claim in their own form and decide nothing.

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/analysis/summary.h"

namespace paceline {

enum class ClaimKind : uint8_t {
  over_plain,     // a speculative cell over its plain twin: equal in placement and in all else that was asked for
  over_one_rank,  // a cell of several ranks over its twin of one: equal in all that was asked for but placement
};
const char* to_string(ClaimKind kind);

/// The speed of one cell over that of another.
struct Claim {
  ClaimKind kind = ClaimKind::over_plain;
  const CellSummary* cell = nullptr;
  const CellSummary* over = nullptr;        // of over_plain, where no plain twin ran: the baseline
  RatioInterval ratio;                      // tok/s of whole requests
  std::optional<RatioInterval> decode;      // TPOT
  Outcome outcome = Outcome::inconclusive;  // what `ratio` shows: faster, slower or inconclusive
  std::optional<double> far_apart_s;        // measured_earlier_s of `over`, where that is to be told
};

class VerdictView;

/// All of a run, kind by kind, in the order of the plan; none of open loops, whose rate is what was sent.
std::vector<Claim> make_claims(const VerdictView& view);

}  // namespace paceline
