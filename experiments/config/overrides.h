#pragma once
// What the command line changes in an experiment's file: --profile, --axis, --set, --only.

#include "experiments/config/load.h"

namespace paceline {

/// Lays the profile, then every --axis, then every --set over loaded.tree and parses --only. Each argument is checked
/// by itself; one that cannot be read does not hide what is wrong with the others. False where one names no profile or
/// no key, so that a value which it was to set is not known.
bool apply_overrides(LoadedConfig& loaded, const ConfigOverrides& overrides, Diagnostics& diagnostics);

}  // namespace paceline
