#include "kernels/cpu/cores.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sched.h>
#include <string>
#include <thread>

namespace paceline {
namespace {

int affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

/// cgroup v2: "max 100000" or "150000 100000"
double quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return kNoQuota;
  return std::strtod(quota.c_str(), nullptr) / period;
}

double quota_v1(const std::string& folder) {
  double quota = 0, period = 0;
  if (!(std::ifstream(folder + "/cpu.cfs_quota_us") >> quota) || quota <= 0) return kNoQuota;
  if (!(std::ifstream(folder + "/cpu.cfs_period_us") >> period) || period <= 0) return kNoQuota;
  return quota / period;
}

/// A parent's quota binds its children, so the smallest on the way to the root counts.
double cgroup_quota() {
  double smallest = std::min(quota_v2("/sys/fs/cgroup"), quota_v1("/sys/fs/cgroup/cpu"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t controllers = line.find(':');
    const size_t path_at = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path_at == std::string::npos) continue;
    const bool v2 = path_at == controllers + 1;
    const bool cpu = line.substr(controllers + 1, path_at - controllers - 1).find("cpu") == 0;
    if (!v2 && !cpu) continue;
    for (std::string path = line.substr(path_at + 1); path.size() > 1; path.resize(path.rfind('/')))
      smallest = std::min(smallest, v2 ? quota_v2("/sys/fs/cgroup" + path) : quota_v1("/sys/fs/cgroup/cpu" + path));
  }
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
