#pragma once
// Where the limits and the counters of this process's cgroups lie.

#include <filesystem>
#include <string_view>
#include <vector>

namespace paceline {

struct CgroupFolder {
  std::filesystem::path path;
  bool v2 = true;  // else of version 1, whose files have other names
};

/// For a controller ("cpu", "memory") the folders of the process's cgroups and of all above them, whose limits bind as
/// well, the roots too: each once. Of version 1 those of `cgroup`/CONTROLLER. They need not exist. `proc`, `cgroup`:
/// what stands for /proc and /sys/fs/cgroup.
std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const std::filesystem::path& proc = "/proc",
                                         const std::filesystem::path& cgroup = "/sys/fs/cgroup");

}  // namespace paceline
