#pragma once
// What cells of stated acceptance were run for: how good would drafts have to be?

#include <vector>

#include "experiments/analysis/summary_verdict.h"
#include "experiments/analysis/verdict_view.h"

namespace paceline {

/// For each set of cells that differ in the stated length only: between which acceptance lengths the gain of
/// speculation is shown to cross 1, or that this is not shown. Nothing without such cells.
void add_forced(const VerdictView& view, std::vector<VerdictSentence>& out);

}  // namespace paceline
