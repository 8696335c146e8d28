#pragma once
// Whether the ranks of a sweep can share its models: heads over tp, layers over pp.

#include <vector>

#include "experiments/config/file/load.h"
#include "experiments/run/plan/sweep.h"

namespace paceline {

/// Which cells must be fit to run: a sweep goes on while there is one that can.
enum class SplitRule : uint8_t { every_cell, some_cell };

/// Throws ConfigError at the places where tp or pp was written when targets cannot be split that way, as `rule` says.
/// Reads config.json of each target once. A target that cannot be read is left to plan_load(), which says why.
void check_splits(const LoadedConfig& loaded, const std::vector<Cell>& cells, SplitRule rule);

}  // namespace paceline
