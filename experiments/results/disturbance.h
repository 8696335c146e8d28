#pragma once
// What the machine and other processes took from a repetition while it was measured.

#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

#include "experiments/results/fields.h"

namespace paceline {

/// Between the start and the end of a repetition, over the cores that the process may use. What the machine does not
/// say has no value. GPUs are not watched: nothing here speaks of their clocks or of other tenants.
struct Disturbance {
  double wall_s = 0;
  int cores = 0;
  std::optional<double> foreign_cpu_s, stolen_s, throttled_s;
  std::optional<int64_t> throttled_periods, thermal_events;
  std::optional<double> clock_ghz;

  template <class Visit>
  static void fields(Visit&& visit) {
    using D = Disturbance;
    visit("wall_s", &D::wall_s, "that was watched");
    visit("cores", &D::cores, "in the process's mask");
    visit("foreign_cpu_s", &D::foreign_cpu_s, "CPU time on these cores that is not the process's");
    visit("stolen_s", &D::stolen_s, "wanted by these cores and given to another virtual machine");
    visit("throttled_s", &D::throttled_s, "threads held back by the CPU quota of the cgroup, summed as it counts");
    visit("throttled_periods", &D::throttled_periods, "of the quota");
    visit("thermal_events", &D::thermal_events, "cores and packages that slowed down as they were too hot");
    visit("clock_ghz", &D::clock_ghz, "of the fastest of these cores, at the end");
    visit(
        "gpus", [](const D&) { return nlohmann::json(nullptr); }, "null: not watched");
  }
};

}  // namespace paceline
