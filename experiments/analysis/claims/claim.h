#pragma once
// What a run shows, concluded once: terminal, JSON, Markdown and HTML say a claim in their own form and decide nothing.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

class VerdictView;
struct Claim;

/// What a claim sets a cell against. A new kind is a row of the table in claim.cpp: summary.json and `runexp show RUN
/// CELL` say the claims of all kinds; only those that sentences, charts or tables ask for have a name here.
struct ClaimKind {
  const char* name;  // in summary.json
  /// Adds the claims of this kind about a cell. Ignores open loops, whose rate is what was sent, but over_baseline.
  void (*add)(const VerdictView& view, const CellSummary& s, std::vector<Claim>& claims);

  static const ClaimKind over_baseline;  // a cell over its baseline: what its row says
  static const ClaimKind over_plain;     // a speculative cell over its plain twin: equal but for speculation
  static const ClaimKind over_one_rank;  // a cell of several ranks over its twin of one: equal but for placement
  static const ClaimKind in_category;    // as over_plain, decoding of the requests of one category
};

/// The speed of one cell over that of another.
struct Claim {
  const ClaimKind* kind = nullptr;
  const CellSummary* cell = nullptr;
  const CellSummary* over = nullptr;  // of over_plain, where no plain twin ran: the baseline
  std::string category;               // of in_category
  RatioInterval ratio;  // tok/s of whole requests; TPOT in_category and of open loops, whose rate is what was sent
  std::optional<RatioInterval> decode;      // TPOT
  Outcome outcome = Outcome::inconclusive;  // what `ratio` shows by itself, for a row
  Outcome shown = Outcome::inconclusive;    // ... among `among` ratios, for a sentence (policy.h)
  int among = 1;
  std::optional<double> adjusted_p;   // of `shown`
  std::optional<double> far_apart_s;  // measured_earlier_s of `over`, where that is to be told

  /// Significant, but less than kLeastEffect: then `shown` is inconclusive.
  bool is_small() const { return shown == Outcome::inconclusive && adjusted_p && *adjusted_p < kFalseClaims; }
};

/// In words, for a row: "faster"; where no sentence may say so "faster (uncorrected)" (for `among` comparisons) or
/// "faster by less than 2 %".
std::string outcome_text(const Claim& claim);

/// All of a run, kind by kind, in the order of the plan; of open loops only those over the baseline. Sentences pick
/// from all pairs of cells that a claim is about, whatever its kind: of ranked cells one family, of others another; of
/// categories likewise.
std::vector<Claim> make_claims(const VerdictView& view);

/// Sets the outcomes of cells, which their rows say.
void conclude_rows(RunSummary& summary);

/// All claims of a run, of whatever kind, as one list: `claims` of summary.json (results/README.md).
nlohmann::json claims_to_json(const VerdictView& view);

}  // namespace paceline
