#pragma once
// Cells without a result, by the reason that they have in common.

#include <string>
#include <vector>

#include "experiments/results/results.h"

namespace paceline {

/// Why a cell has no result. A skipped one could not run, one that was left out was to run and the run's end came
/// first.
enum class MissingKind { failed, left_out, skipped };

struct MissingCells {
  std::string reason;
  std::vector<const CellResult*> cells;  // in plan order, at least one; they belong to the run
};

/// The cells of the run without a result of this kind, one element a reason, in plan order of the first cell of each.
std::vector<MissingCells> missing_cells(const RunResult& run, MissingKind kind);

}  // namespace paceline
