#pragma once
// What a finished run leaves for people and other programs, and what its records hold.

#include <string>
#include <vector>

#include "experiments/results/files/store.h"

namespace paceline {

/// summary.json, summary.csv, summary.md and report.html (results/README.md).
std::vector<RunDocument> run_documents(const RunResult& run);

/// The tables of results/README.md, in Markdown: one for each struct that a record holds, from the fields that it
/// lists.
std::string record_docs();

}  // namespace paceline
