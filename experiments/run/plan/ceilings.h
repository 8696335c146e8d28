#pragma once
// What a machine can do at most, measured by the loops that the benchmarks judge speeds by (kernels/cpu/ceilings.h,
// kernels/cuda/probe.h).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/weights/shard_weights.h"
#include "kernels/backend.h"
#include "kernels/cpu/ceilings.h"

namespace paceline {

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

}  // namespace paceline
