#pragma once
// Sentences of the verdict on latency: open loops, and requests that meet report.slo.

#include <vector>

#include "experiments/analysis/summary_verdict.h"

namespace paceline {

/// For each open loop the cell with the best latency, and which cells could not keep up. Nothing without open loops.
void add_open_loops(const RunResult& run, const RunSummary& summary, std::vector<VerdictSentence>& out);

/// For each load the cell with the largest goodput. Nothing without report.slo.
void add_goodput(const RunResult& run, const RunSummary& summary, std::vector<VerdictSentence>& out);

/// Where the best cell gains most and least, by the category of the prompts. Nothing with fewer than two categories.
void add_categories(const RunResult& run, const RunSummary& summary, std::vector<VerdictSentence>& out);

}  // namespace paceline
