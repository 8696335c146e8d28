#pragma once
// Whether a run's numbers can be used as they stand.

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

class VerdictView;

/// Cells that ran while something else took a part of the machine (noise.h).
struct DisturbedCells {
  int64_t disturbed = 0, done = 0;
  const CellSummary* worst = nullptr;  // null without any
  std::string by;                      // of the worst: "other processes used 78 % of the cores"
};
DisturbedCells disturbed_cells(const VerdictView& view);

/// Reasons why not, the gravest first: a certificate failed, a baseline of cells that ran is missing, cells were
/// disturbed. A run without any is valid.
struct Validity {
  std::vector<std::string> reasons;
  bool is_valid() const { return reasons.empty(); }
};
Validity validity_of(const VerdictView& view);

}  // namespace paceline
