#pragma once
// Where speculation gains most and least, by the category of the prompts.

#include <vector>

#include "experiments/analysis/summary_verdict.h"
#include "experiments/analysis/verdict_view.h"

namespace paceline {

/// For each load the cell that the verdict names as the best, or the best of those that speculate where that does not;
/// over its VerdictView::reference_of. Nothing with fewer than two categories.
void add_categories(const VerdictView& view, std::vector<VerdictSentence>& out);

}  // namespace paceline
