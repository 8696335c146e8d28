#pragma once
// The run's answer: three short sentences, then details, each a fact that neither these nor a row of the table show:
// what failed first, then what pays, what does not and why, what to distrust. Cells that are not rankable
// (CellSummary::rankable) are never named as better or worse than others.

#include <string>
#include <vector>

#include "experiments/analysis/claims/view.h"

namespace paceline {

enum class VerdictKind {
  best,         // fastest cell per concurrency and its gain
  pays_not,     // a proposer that does not gain, and why
  parallel,     // what TP and PP alone do
  correctness,  // certificates
  caution,      // a missing baseline, oversubscription, repetitions, degenerate text
};
const char* to_string(VerdictKind kind);

struct VerdictSentence {
  VerdictKind kind;
  std::string text;  // plain text, no mark-up
  bool bad = false;  // a certificate or cell failed
};

/// Whether a run's numbers can be used as they stand.
struct Validity {
  /// Why not, the gravest first: a certificate failed, a baseline of cells that ran is missing, something else took a
  /// part of the machine while cells ran (noise.h).
  std::vector<std::string> reasons;
  bool disturbed = false;  // the last of these

  bool is_valid() const { return reasons.empty(); }
};

inline constexpr size_t kMostHeadlines = 3;
inline constexpr size_t kMostHeadlineWords = 30;

struct RunVerdict {
  Validity validity;
  /// What a reader needs before anything else, in kMostHeadlines sentences of kMostHeadlineWords at most: how far a run
  /// came that ended early; the fastest cell and its gain, or that none is shown, of open loops the highest rate that
  /// keeps report.slo, or the lowest latency; whether the run is valid and lossless, before the gain where it is not
  /// valid; and the first of these that there is: prompts sent again to a proposer that remembers them, a concurrency
  /// that was not reached, goodput, saturation, the fastest cell under another load where it is another, over which
  /// loads speculation pays, what more ranks give, a proposer that does not pay, the best cell per user and per device.
  std::vector<std::string> headline;
  std::vector<VerdictSentence> details;
};

RunVerdict make_verdict(const VerdictView& view);
RunVerdict make_verdict(const RunResult& run, const RunSummary& summary);

size_t num_words(const std::string& text);

}  // namespace paceline
