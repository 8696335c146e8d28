#include "kernels/cpu/cgroups.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace paceline {

namespace fs = std::filesystem;

std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const fs::path& proc, const fs::path& cgroup) {
  const fs::path of_v1 = cgroup / controller;
  std::vector<CgroupFolder> folders = {{cgroup, true}, {of_v1, false}};
  const auto add = [&](const fs::path& path, bool v2) {
    if (std::ranges::find(folders, path, &CgroupFolder::path) == folders.end()) folders.push_back({path, v2});
  };
  std::ifstream groups(proc / "self" / "cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b", "4:cpu,cpuacct:/a/b"
    const size_t controllers = line.find(':'), path_at = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path_at == std::string::npos) continue;
    const bool v2 = path_at == controllers + 1;
    const std::string list = "," + line.substr(controllers + 1, path_at - controllers - 1) + ",";
    if (!v2 && list.find("," + std::string(controller) + ",") == std::string::npos) continue;
    for (std::string path = line.substr(path_at + 1); path.size() > 1 && path.front() == '/';
         path.resize(path.rfind('/')))
      add((v2 ? cgroup : of_v1) / path.substr(1), v2);
  }
  return folders;
}

}  // namespace paceline
