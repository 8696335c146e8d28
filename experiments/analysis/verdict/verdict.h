#pragma once
// The run's answer: three short sentences, then details that these leave out, most important first: which cells never
// had the concurrency that they are named by; what pays, what does not and why, what was proved, what to distrust.
// Cells that are not rankable (CellSummary::rankable) are never named as better or worse than others.

#include <string>
#include <vector>

#include "experiments/analysis/claims/validity.h"
#include "experiments/analysis/claims/view.h"

namespace paceline {

enum class VerdictKind {
  best,         // fastest cell per concurrency and its gain
  pays_not,     // a proposer that does not gain, and why
  parallel,     // what TP and PP alone do
  correctness,  // certificates
  caution,      // failed cells, oversubscription, repetitions, degenerate text
};
const char* to_string(VerdictKind kind);

struct VerdictSentence {
  VerdictKind kind;
  std::string text;  // plain text, no mark-up
  bool bad = false;  // a certificate or cell failed
};

struct RunVerdict {
  Validity validity;
  std::vector<std::string> headline;  // make_headline()
  std::vector<VerdictSentence> details;
};

RunVerdict make_verdict(const VerdictView& view);
RunVerdict make_verdict(const RunResult& run, const RunSummary& summary);

/// The one phase besides verification that costs most of a step, with its share: "drafting takes 71 % of a step".
std::string costliest_phase(const CellSummary& summary);

/// "3 flips, 3 explained by noise of up to 0.0312 at 11 positions"
std::string flips_text(const FlipCount& flips);

}  // namespace paceline
