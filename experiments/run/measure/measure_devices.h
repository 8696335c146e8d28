#pragma once
// What the devices and the machine can do at most, by the loops that the benchmarks judge speeds by
// (kernels/cpu/ceilings.h, kernels/cuda/probe.h), and what they did: the engine's side of device_work.h.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/rank_team.h"
#include "engine/weights/shard_weights.h"
#include "experiments/config/config.h"
#include "experiments/results/device_work.h"
#include "kernels/backend.h"
#include "kernels/cpu/ceilings.h"

namespace paceline {

class EngineLoad;

/// Per second, of all threads of a pool together; 0: not measured, for this processor lacks the instructions.
struct CpuRates {
  int threads = 0;
  double read_bytes_s = 0;  // plain reads of the given memory, all of it, once a round
  double fma_flops_s = 0;   // chains of float32 FMAs
  double dot_flops_s = 0;   // chains of bfloat16 dot products
};
/// The best of `rounds`. The regions are touched before.
CpuRates measure_cpu(ThreadPool& pool, std::span<const ceilings::Region> regions, int rounds);

/// Where a rank's packed weights lie in host memory; none on other devices.
std::vector<ceilings::Region> packed_regions(const ShardWeights& weights);

/// Operations per second of the backend's own GEMM: y = x · Wᵀ, all [size, size], bfloat16 weights of random values,
/// the rounding of x included; the best of a few. In fast numerics that is cuBLASLt's. size: a multiple of 1024. Takes
/// up to 13 · size² bytes of the device, 2 · size² more in fast numerics, and 6144 · size of the host. Throws
/// Error(device).
double measure_matrix_rate(Backend& backend, int32_t size);
/// On a backend of its own on `device`; also throws where the device takes longer than 5 s, or has no such numerics.
double measure_matrix_rate(const std::string& device, Numerics numerics, int32_t size);
/// What it measures on GPUs.
const char* matrix_name(Numerics numerics);

/// Of the sampling rank's device, in the load's numerics, while no rank has work: milliseconds on CPUs, about a second
/// on GPUs. What cannot be measured has no value. cell: whose draft model.
DeviceCeilings measure_ceilings(EngineLoad& load, const ExperimentConfig& cell);

/// Since the team was made.
struct WorkSoFar {
  std::vector<RankWork> ranks;
  double cpu_s = 0;       // of this process since it began
  double cpu_wait_s = 0;  // of it, in the wait loops of the ranks' thread pools

  WorkSoFar operator-(const WorkSoFar& before) const;
};
/// Waits for all jobs and devices: call it where no time is taken. Throws what the team throws.
WorkSoFar work_so_far(RankTeam& team);

/// Where the counters lie. Tests lay out folders of their own.
struct CounterRoots {
  std::filesystem::path proc = "/proc";                    // stat, self/cgroup
  std::filesystem::path cgroup = "/sys/fs/cgroup";         // v2, or v1 with its folder cpu
  std::filesystem::path cpus = "/sys/devices/system/cpu";  // cpu<i>/{cpufreq,thermal_throttle}
};

/// The kernel's counters of CPU time, quota and heat at one moment, since the machine began. What cannot be read has no
/// value.
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
