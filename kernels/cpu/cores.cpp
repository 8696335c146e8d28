#include "kernels/cpu/cores.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sched.h>
#include <string>
#include <thread>

#include "kernels/cpu/cgroups.h"

namespace paceline {
namespace {

int affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

/// Version 2: "max 100000" or "150000 100000".
double quota_of(const CgroupFolder& folder) {
  double quota = 0, period = 0;
  if (folder.v2) {
    std::ifstream file(folder.path / "cpu.max");
    std::string text;
    if (!(file >> text >> period) || text == "max" || period <= 0) return kNoQuota;
    return std::strtod(text.c_str(), nullptr) / period;
  }
  if (!(std::ifstream(folder.path / "cpu.cfs_quota_us") >> quota) || quota <= 0) return kNoQuota;
  if (!(std::ifstream(folder.path / "cpu.cfs_period_us") >> period) || period <= 0) return kNoQuota;
  return quota / period;
}

double cgroup_quota() {
  double smallest = kNoQuota;
  for (const CgroupFolder& folder : cgroup_folders("cpu")) smallest = std::min(smallest, quota_of(folder));
  return smallest;
}

}  // namespace

CoreLimits core_limits() {
  const double quota = cgroup_quota();
  return {.affinity = affinity_cores(), .quota = quota < kNoQuota ? std::optional(quota) : std::nullopt};
}

int usable_cores() {
  const CoreLimits limits = core_limits();
  const bool bound = limits.quota && *limits.quota < limits.affinity;
  return std::max(1, bound ? int(*limits.quota) : limits.affinity);
}

}  // namespace paceline
