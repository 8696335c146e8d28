#pragma once
// What drafts could gain and cost: cells whose proposer knows the texts (oracle, reject_all) beside the others.

#include <vector>

#include "experiments/analysis/summary_verdict.h"
#include "experiments/analysis/verdict_view.h"

namespace paceline {

/// Whether the cell measures a bound: it drafts from what an earlier pass has shown, which no server knows.
bool is_bound(const CellResult& cell);

/// For each load, placement and k with such a cell: how fast decoding is when all drafts are kept, and when none is,
/// and which part of the former's speed the ranked proposers have. Nothing without such cells.
void add_bounds(const VerdictView& view, std::vector<VerdictSentence>& out);

}  // namespace paceline
