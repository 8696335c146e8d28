#pragma once
// Whether the ranks of a sweep can share its models: heads over tp, layers over pp.

#include <vector>

#include "experiments/config/load.h"
#include "experiments/run/sweep.h"

namespace paceline {

/// Throws ConfigError at the place where tp or pp was written when a cell's target cannot be split that way. Reads
/// config.json of each target once. A target that cannot be read is left to plan_load(), which says why.
void check_splits(const LoadedConfig& loaded, const std::vector<Cell>& cells);

}  // namespace paceline
