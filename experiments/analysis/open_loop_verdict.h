#pragma once
// Sentences of the verdict on latency: open loops, and requests that meet report.slo.

#include <vector>

#include "experiments/analysis/summary_verdict.h"
#include "experiments/analysis/verdict_view.h"

namespace paceline {

/// For each open loop the cell with the best latency, and which cells could not keep up. Nothing without open loops.
void add_open_loops(const VerdictView& view, std::vector<VerdictSentence>& out);

/// For each load the cell with the most good requests a second, or those that are not told apart. Nothing without
/// report.slo.
void add_goodput(const VerdictView& view, std::vector<VerdictSentence>& out);

}  // namespace paceline
