#pragma once
// What a finished run leaves for people and other programs.

#include <vector>

#include "experiments/results/files/store.h"

namespace paceline {

/// summary.json, summary.csv, summary.md and report.html (results/README.md).
std::vector<RunDocument> run_documents(const RunResult& run);

}  // namespace paceline
