#pragma once
// Sentences of the verdict on proposers that are not shown to gain, and why.

#include <vector>

#include "experiments/analysis/summary_verdict.h"
#include "experiments/analysis/verdict_view.h"

namespace paceline {

/// For each load and proposer without a cell that is shown to be faster than its VerdictView::reference_of: the cell
/// whose interval begins highest, for the largest estimate may be the noisiest.
void add_pays_not(const VerdictView& view, std::vector<VerdictSentence>& out);

}  // namespace paceline
