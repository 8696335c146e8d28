#pragma once
// The cells of a run as a table: at the end of a run, in summary.md and on the page.

#include "experiments/analysis/metrics/summary.h"
#include "experiments/report/text/table.h"

namespace paceline {

/// One row a cell, failed and skipped ones too; columns that tell nothing of this run are left out.
Table cell_table(const RunResult& run, const RunSummary& summary);

/// Rows beside what others measured; without rows where the run has none.
Table published_table(const RunResult& run, const RunSummary& summary);

}  // namespace paceline
