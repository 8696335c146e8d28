#include "experiments/run/measure/machine_counters.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <numeric>
#include <sched.h>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "engine/util/machine.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

/// The number in a file of one line.
std::optional<double> number_in(const fs::path& file) {
  std::ifstream in(file);
  double value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

void add(std::optional<double>& sum, double more) { sum = sum.value_or(0) + more; }

/// /proc/stat: "cpu3 user nice system idle iowait irq softirq steal …", in ticks. User time holds that of guests.
void read_cpu_times(const fs::path& file, const std::vector<int>& cpus, MachineCounters& out) {
  const double tick_s = 1.0 / double(std::max(1L, ::sysconf(_SC_CLK_TCK)));
  std::ifstream in(file);
  for (std::string line; std::getline(in, line) && line.starts_with("cpu");) {
    std::istringstream fields(line.substr(3));
    if (line.size() < 4 || line[3] == ' ') continue;  // the sum of all
    int cpu = -1;
    enum Column { user, nice, system, idle, iowait, irq, softirq, steal, num_columns };
    std::array<double, num_columns> ticks{};
    fields >> cpu;
    for (double& value : ticks) fields >> value;
    if (!fields || !std::binary_search(cpus.begin(), cpus.end(), cpu)) continue;
    // A machine that counts nothing says nothing.
    if (std::accumulate(ticks.begin(), ticks.end(), 0.0) <= 0) continue;
    add(out.busy_s, tick_s * (ticks[user] + ticks[nice] + ticks[system] + ticks[irq] + ticks[softirq]));
    add(out.stolen_s, tick_s * ticks[steal]);
  }
}

/// cpu.stat of one cgroup: v2 counts microseconds, v1 nanoseconds.
void read_throttling(const fs::path& file, MachineCounters& out) {
  std::ifstream in(file);
  std::string key;
  for (double value = 0; in >> key >> value;) {
    if (key == "nr_throttled") out.throttled_periods = out.throttled_periods.value_or(0) + int64_t(value);
    if (key == "throttled_usec") add(out.throttled_s, value * 1e-6);
    if (key == "throttled_time") add(out.throttled_s, value * 1e-9);
  }
}

/// Of the process's cgroup and all above it, whose quotas bind as well.
void read_cgroups(const CounterRoots& roots, MachineCounters& out) {
  read_throttling(roots.cgroup / "cpu.stat", out);
  std::ifstream groups(roots.proc / "self" / "cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b", "4:cpu,cpuacct:/a/b"
    const size_t controllers = line.find(':'), path_at = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path_at == std::string::npos) continue;
    const bool v2 = path_at == controllers + 1;
    const std::string list = "," + line.substr(controllers + 1, path_at - controllers - 1) + ",";
    if (!v2 && list.find(",cpu,") == std::string::npos) continue;
    const fs::path root = v2 ? roots.cgroup : roots.cgroup / "cpu";
    for (std::string path = line.substr(path_at + 1); path.size() > 1 && path.front() == '/';
         path.resize(path.rfind('/')))
      read_throttling(root / path.substr(1) / "cpu.stat", out);
    if (!v2) read_throttling(root / "cpu.stat", out);
  }
}

void read_heat_and_clock(const fs::path& root, const std::vector<int>& cpus, MachineCounters& out) {
  for (const int cpu : cpus) {
    const fs::path folder = root / ("cpu" + std::to_string(cpu));
    for (const char* const count : {"core_throttle_count", "package_throttle_count"})
      if (const auto events = number_in(folder / "thermal_throttle" / count))
        out.thermal_events = out.thermal_events.value_or(0) + int64_t(*events);
    if (const auto khz = number_in(folder / "cpufreq" / "scaling_cur_freq"))
      out.clock_ghz = std::max(out.clock_ghz.value_or(0), *khz * 1e-6);
  }
}

template <class Value>
std::optional<Value> between(const std::optional<Value>& before, const std::optional<Value>& after) {
  if (!before || !after) return std::nullopt;
  return std::max(Value{0}, *after - *before);
}

}  // namespace

MachineCounters read_machine_counters(const CounterRoots& roots) {
  MachineCounters out;
  const std::vector<int> cpus = allowed_cpus();
  out.cores = int(cpus.size());
  read_heat_and_clock(roots.cpus, cpus, out);
  read_cgroups(roots, out);
  read_cpu_times(roots.proc / "stat", cpus, out);
  out.own_cpu_s = process_cpu_seconds();
  out.at_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return out;
}

Disturbance disturbance_between(const MachineCounters& before, const MachineCounters& after) {
  Disturbance out{.wall_s = after.at_s - before.at_s,
                  .cores = after.cores,
                  .foreign_cpu_s = between(before.busy_s, after.busy_s),
                  .stolen_s = between(before.stolen_s, after.stolen_s),
                  .throttled_s = between(before.throttled_s, after.throttled_s),
                  .throttled_periods = between(before.throttled_periods, after.throttled_periods),
                  .thermal_events = between(before.thermal_events, after.thermal_events),
                  .clock_ghz = after.clock_ghz};
  if (out.foreign_cpu_s) out.foreign_cpu_s = std::max(0.0, *out.foreign_cpu_s - (after.own_cpu_s - before.own_cpu_s));
  return out;
}

}  // namespace paceline
