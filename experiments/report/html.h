#pragma once
// The run's report as one HTML file: no network, readable without script, light, dark and print.

#include <string>

#include "experiments/analysis/summary.h"

namespace paceline {

/// The whole document. Cells that are not rankable appear in every table and, faded, in the charts, and in no verdict
/// but the one that counts them. Under 1 MB for 60 cells.
std::string report_html(const RunResult& run, const RunSummary& summary);

}  // namespace paceline
