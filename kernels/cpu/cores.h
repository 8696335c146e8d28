#pragma once
// How many cores this process may keep busy.

#include <optional>

namespace paceline {

struct CoreLimits {
  int affinity = 1;             // cores in the process's mask
  std::optional<double> quota;  // the smallest of its cgroups; nothing: no quota
};
CoreLimits core_limits();

/// The smaller of the affinity mask and the cgroup's CPU quota (rounded down), at least 1.
int usable_cores();

}  // namespace paceline
