#pragma once
// How many cores this process may keep busy.

namespace paceline {

/// The smaller of the affinity mask and the cgroup's CPU quota (rounded down), at least 1.
int usable_cores();

}  // namespace paceline
