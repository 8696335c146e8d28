#pragma once
// A recorded run, judged: what show, compare, report and regress work on.

#include <filesystem>

#include "experiments/results/results.h"

namespace paceline {

/// The run of read_record(), certified where its settings ask for it. Throws what read_record() throws.
RunResult read_run(const std::filesystem::path& folder);

}  // namespace paceline
