#pragma once
// The engine's side of device_work.h: reads the books of the ranks' backends and measures their ceilings.

#include "experiments/config/config.h"
#include "experiments/results/device_work.h"
#include "experiments/results/results.h"
#include "experiments/run/engine_load.h"

namespace paceline {

/// Since the team was made.
struct WorkSoFar {
  std::vector<RankWork> ranks;
  double cpu_s = 0;       // of this process since it began
  double cpu_wait_s = 0;  // of it, in the wait loops of the ranks' thread pools

  WorkSoFar operator-(const WorkSoFar& before) const;
};
/// Waits for all jobs and devices: call it where no time is taken. Throws what the team throws.
WorkSoFar work_so_far(RankTeam& team);

/// Of the deciding rank's device, in the load's numerics, while no rank has work: milliseconds on CPUs, about a second
/// on GPUs. What cannot be measured has no value. cell: whose draft model.
DeviceCeilings measure_ceilings(EngineLoad& load, const ExperimentConfig& cell);

}  // namespace paceline
