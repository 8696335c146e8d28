#include "engine/util/machine.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <linux/types.h>
#include <sstream>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/cgroups.h"

namespace paceline {
namespace {

/// struct sched_attr of <linux/sched/types.h>, which newer C libraries define, too.
struct SchedAttr {
  __u32 size, sched_policy;
  __u64 sched_flags;
  __s32 sched_nice;
  __u32 sched_priority;
  __u64 sched_runtime, sched_deadline, sched_period;  // ns
};

/// A number from a one-line file; `none` when the file is absent or says "max".
size_t read_limit(const std::filesystem::path& path, size_t none) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value && value > 0 ? size_t(value) : none;
}

}  // namespace

size_t memory_limit_bytes() {
  const size_t physical = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGE_SIZE));
  size_t limit = physical;
  for (const CgroupFolder& folder : cgroup_folders("memory"))
    limit = std::min(limit, read_limit(folder.path / (folder.v2 ? "memory.max" : "memory.limit_in_bytes"), physical));
  return limit;
}

size_t available_memory_bytes() {
  const size_t limit = memory_limit_bytes();
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    std::istringstream fields(line);
    std::string key;
    size_t kib = 0;
    if (fields >> key >> kib && key == "MemAvailable:") return std::min(limit, kib * 1024);
  }
  return limit;
}

ProcessMemory process_memory(int pid) {
  ProcessMemory memory;
  std::ifstream status("/proc/" + (pid == 0 ? "self" : std::to_string(pid)) + "/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream fields(line);
    std::string key;
    size_t kib = 0;
    fields >> key >> kib;
    if (key == "VmRSS:") memory.resident_bytes = kib * 1024;
    if (key == "VmHWM:") memory.peak_resident_bytes = kib * 1024;
  }
  return memory;
}

double process_cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return double(used.tv_sec) + 1e-9 * double(used.tv_nsec);
}

void ask_for_short_slices() {
  SchedAttr attr{};
  if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0) return;
  attr.sched_runtime = 100'000;
  syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace paceline
