#pragma once
// The steps of load_config() (load.h), in their order: variables, what the command line changes, checks over several
// keys, keys without effect.

#include <map>
#include <set>
#include <string>

#include "experiments/config/file/load.h"

namespace paceline {

/// Replaces every substitution below `root`, except in "vars" and "profiles" themselves. `${name}` takes the variable
/// of that name from `root`'s "vars" (a string that is nothing but `${name}` becomes the variable's value with its
/// type); `${env:X}` takes an environment variable, `${env:X:-text}` with a default; `$${` is a literal `${`. A path
/// that starts with a variable is relative to the file where the variable was written. Bounded: 16 levels, 64 KiB a
/// string, 100,000 substitutions. Complaints go to `diagnostics`. Returns the environment variables that gave a value.
std::map<std::string, std::string> substitute_variables(ConfigNode& root, Diagnostics& diagnostics);

/// Lays the profile, then every --axis, then every --set over loaded.tree and parses --only. Each argument is checked
/// by itself; one that cannot be read does not hide what is wrong with the others. False where one names no profile or
/// no key, so that a value which it was to set is not known.
bool apply_overrides(LoadedConfig& loaded, const ConfigOverrides& overrides, Diagnostics& diagnostics);

/// Paths of keys whose value is not known: what stands there cannot be read, or a name that is no key may have meant
/// them. A check over several keys is left out where it needs one of these, so that a mistake gets one complaint.
using UnsoundKeys = std::set<std::string, std::less<>>;

/// The keys that unknown names in the tree may have meant, and those below a section that is no object.
UnsoundKeys keys_in_doubt(const ConfigNode& tree);

/// Complains about zipped axes that do not fit, a value that stands twice on an axis, and settings that contradict each
/// other in every cell. REQUIRES: the sound keys are in loaded.config, computed values among them.
void check_values_together(const LoadedConfig& loaded, const UnsoundKeys& unsound, Diagnostics& out);

/// Complains about each key that the file itself or the command line sets although no cell of the sweep reads it: a
/// rate of arrivals in a closed loop. Inherited values are somebody else's; nor is a key meant that what decides about
/// it was overridden later than itself (--set load.mode=offline over a file with a concurrency), or that a profile of
/// the file may bring to life. REQUIRES: no resolved configuration, which names every key. Nothing is said of a key
/// that is unsound or that depends on an unsound one.
void check_void_keys(const LoadedConfig& loaded, const UnsoundKeys& unsound, Diagnostics& out);

}  // namespace paceline
