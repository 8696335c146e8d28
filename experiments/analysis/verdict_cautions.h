#pragma once
// Sentences of the verdict on the run itself: how far it came, and what to distrust.

#include <string>
#include <vector>

#include "experiments/analysis/summary_verdict.h"
#include "experiments/analysis/verdict_view.h"

namespace paceline {

/// What a run that ended early leaves open, without a full stop. Empty for a run that came to its end.
std::string unfinished_text(const VerdictView& view);
/// The same as a sentence that stands before everything else.
std::string unfinished_sentence(const VerdictView& view);

/// Which concurrencies name cells that never had as many requests at once, and what they had; stands before every
/// sentence on speed. Empty where every name holds.
std::vector<std::string> concurrency_sentences(const VerdictView& view);

/// How many cells were disturbed (noise.h), and by what; stands before every sentence on speed. Empty without any.
std::string noise_sentence(const VerdictView& view);

void add_cautions(const VerdictView& view, std::vector<VerdictSentence>& out);

}  // namespace paceline
