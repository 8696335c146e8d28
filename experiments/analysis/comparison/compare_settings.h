#pragma once
// What was set differently, and where it ran: a part of compare_runs().

#include "experiments/analysis/comparison/compare.h"

namespace paceline {

/// Fills subject, environment and config. Keys of sweep, report and name are left out, and so are axes: those tell
/// cells apart, and a key swept in every run is compared cell by cell.
void compare_settings(const std::vector<RunResult>& runs, RunComparison& out);

}  // namespace paceline
