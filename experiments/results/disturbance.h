#pragma once
// What the machine and other processes took from a repetition while it was measured.

#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

namespace paceline {

/// Between the start and the end of a repetition, over the cores that the process may use. What the machine does not
/// say has no value. GPUs are not watched: nothing here speaks of their clocks or of other tenants.
struct Disturbance {
  double wall_s = 0;                         // between the two readings
  int cores = 0;                             // in the process's mask
  std::optional<double> foreign_cpu_s;       // CPU time on these cores that is not this process's
  std::optional<double> stolen_s;            // wanted by these cores and given to another virtual machine
  std::optional<double> throttled_s;         // threads held back by the CPU quota of the cgroup, summed as it counts
  std::optional<int64_t> throttled_periods;  // of the quota
  std::optional<int64_t> thermal_events;     // cores and packages that slowed down as they were too hot
  std::optional<double> clock_ghz;           // of the fastest of these cores, at the end
};

nlohmann::json disturbance_to_json(const std::optional<Disturbance>& disturbance);
/// Nothing for what is no object: older runs did not watch.
std::optional<Disturbance> disturbance_from_json(const nlohmann::json& object);

}  // namespace paceline
