#pragma once
// The engine's side of device_work.h: reads the books of the ranks' backends and measures their ceilings.

#include "experiments/config/config.h"
#include "experiments/results/device_work.h"
#include "experiments/results/results.h"
#include "experiments/run/engine_load.h"

namespace paceline {

/// Of all ranks since the team was made. Waits for all jobs and devices: call it where no time is taken. Throws what
/// the team throws.
std::vector<RankWork> work_so_far(RankTeam& team);

/// After less before, rank by rank.
std::vector<RankWork> work_between(const std::vector<RankWork>& before, const std::vector<RankWork>& after);

/// CPU time of this process so far, and of it what the ranks' thread pools spent in wait loops. Waits for all jobs, as
/// work_so_far() does.
CpuTime cpu_time_so_far(RankTeam& team);

/// Of the deciding rank's device, in the load's numerics, while no rank has work: milliseconds on CPUs, about a second
/// on GPUs. What cannot be measured has no value. cell: whose draft model.
DeviceCeilings measure_ceilings(EngineLoad& load, const ExperimentConfig& cell);

}  // namespace paceline
