#pragma once
// Cells that no other one beats in both: what one user sees, and what a device gives.

#include <optional>
#include <utility>
#include <vector>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

class VerdictView;

/// Of closed and offline loops: tokens per second of a user (1000 / median TPOT in ms) and per device. Of open ones:
/// median E2E in ms, the less the better, and per second and device the requests that meet report.slo, else those that
/// were sent where the engine keeps up, and that were finished where not.
struct ParetoPoint {
  double user = 0, device = 0;
};
std::optional<ParetoPoint> pareto_point(const CellResult& cell, const CellSummary& s);

struct Frontier {
  bool is_open = false;                   // of open loops
  std::vector<const CellSummary*> cells;  // ranked and not saturated, by rising `user`
};

/// Of closed and of open loops, as far as the run has them.
std::vector<Frontier> make_frontiers(const VerdictView& view);

}  // namespace paceline
