#pragma once
// The details of the verdict, a file each. Every add_* puts its sentences last in `out`, none where nothing is to say.

#include <string>
#include <vector>

#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/verdict/verdict.h"

namespace paceline {

/// For each load, placement and k with a bound (is_bound()): how fast decoding is when all drafts are kept, and when
/// none is, and which part of the former's speed the ranked proposers have.
void add_bounds(const VerdictView& view, std::vector<VerdictSentence>& out);

/// Where speculation gains most and least, by the category of the prompts: for each load the cell that the verdict
/// names as the best, or the best of those that speculate where that does not, over its VerdictView::reference_of; and
/// the best cell of each category. Nothing with fewer than two categories.
void add_categories(const VerdictView& view, std::vector<VerdictSentence>& out);

/// How good drafts would have to be: for each set of cells that differ in their stated acceptance length only, between
/// which lengths the gain of speculation is shown to cross 1, or that this is not shown.
void add_forced(const VerdictView& view, std::vector<VerdictSentence>& out);

/// For each open loop the cell with the best latency, and which cells could not keep up.
void add_open_loops(const VerdictView& view, std::vector<VerdictSentence>& out);

/// For each load the cell with the most good requests a second (report.slo), or those that are not told apart.
void add_goodput(const VerdictView& view, std::vector<VerdictSentence>& out);

/// For each load and proposer without a cell that is shown to be faster than its VerdictView::reference_of: the cell
/// whose interval begins highest, for the largest estimate may be the noisiest.
void add_pays_not(const VerdictView& view, std::vector<VerdictSentence>& out);
/// Whether one of these sentences is about the cell.
bool is_told_of_as_not_paying(const VerdictView& view, const LoadGroup& group, const CellSummary& s);

/// What to distrust of the run itself.
void add_cautions(const VerdictView& view, std::vector<VerdictSentence>& out);

// Empty where they have nothing to say.

/// What a run that ended early leaves open, without a full stop.
std::string unfinished_text(const VerdictView& view);

/// Which concurrencies name cells that never had as many requests at once, and what they had.
std::vector<std::string> concurrency_sentences(const VerdictView& view);

}  // namespace paceline
