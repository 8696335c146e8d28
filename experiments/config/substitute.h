#pragma once
// ${name} and ${env:X:-default} in the strings of a configuration.

#include <map>
#include <string>

#include "experiments/config/tree.h"

namespace paceline {

/// Replaces every substitution below `root`, except in "vars" and "profiles" themselves. `${name}` takes the variable
/// of that name from `root`'s "vars" (a string that is nothing but `${name}` becomes the variable's value with its
/// type); `${env:X}` takes an environment variable, `${env:X:-text}` with a default; `$${` is a literal `${`. A path
/// that starts with a variable is relative to the file where the variable was written. Bounded: 16 levels, 64 KiB a
/// string, 100,000 substitutions. Complaints go to `diagnostics`. Returns the environment variables that gave a value.
std::map<std::string, std::string> substitute_variables(ConfigNode& root, Diagnostics& diagnostics);

}  // namespace paceline
