#pragma once
// Checks over several keys at once: what no value says by itself.

#include <set>
#include <string>

#include "experiments/config/load.h"

namespace paceline {

/// Paths of keys whose value is not known: what stands there cannot be read, or a name that is no key may have meant
/// them. A check over several keys is left out where it needs one of these, so that a mistake gets one complaint.
using UnsoundKeys = std::set<std::string, std::less<>>;

/// The keys that unknown names in the tree may have meant, and those below a section that is no object.
UnsoundKeys keys_in_doubt(const ConfigNode& tree);

/// Complains about zipped axes that do not fit, a value that stands twice on an axis, and settings that contradict each
/// other in every cell. REQUIRES: the sound keys are in loaded.config, computed values among them.
void check_values_together(const LoadedConfig& loaded, const UnsoundKeys& unsound, Diagnostics& out);

}  // namespace paceline
