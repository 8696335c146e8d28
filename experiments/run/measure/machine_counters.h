#pragma once
// The kernel's counters of CPU time, quota and heat, read before and after a repetition.

#include <filesystem>

#include "experiments/results/device_work.h"

namespace paceline {

/// Where the counters lie. Tests lay out folders of their own.
struct CounterRoots {
  std::filesystem::path proc = "/proc";                    // stat, self/cgroup
  std::filesystem::path cgroup = "/sys/fs/cgroup";         // v2, or v1 with its folder cpu
  std::filesystem::path cpus = "/sys/devices/system/cpu";  // cpu<i>/{cpufreq,thermal_throttle}
};

/// The counters at one moment, since the machine began. What cannot be read has no value.
struct MachineCounters {
  double at_s = 0;       // monotonic clock
  double own_cpu_s = 0;  // of all threads of this process
  int cores = 0;         // in the calling thread's mask; busy_s and stolen_s are over these
  std::optional<double> busy_s, stolen_s, throttled_s;
  std::optional<int64_t> throttled_periods, thermal_events;
  std::optional<double> clock_ghz;
};

/// Never throws for a file that is missing or strange.
MachineCounters read_machine_counters(const CounterRoots& roots = {});

/// What happened from one moment to a later one. CPU time is counted in ticks (10 ms on most machines), so times below
/// a few of these say nothing.
Disturbance disturbance_between(const MachineCounters& before, const MachineCounters& after);

}  // namespace paceline
