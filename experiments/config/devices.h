#pragma once
// Where the ranks of a cell run, and whether this build has code for that.

#include <optional>
#include <string>
#include <vector>

#include "engine/comm/nccl_comm.h"
#include "experiments/config/config.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/probe.h"

namespace paceline {

/// What this build and this machine have.
struct Gpus {
  int num_devices = num_cuda_devices();
  bool nccl = has_nccl();
};

/// On GPUs: engine.backend cuda, or auto where there are any.
bool on_cuda(const EngineConfig& engine, const Gpus& gpus = {});

/// "cpu" or "cuda:N" of each rank, by engine.devices where it says so, else in order.
std::vector<std::string> rank_devices(const EngineConfig& engine, const Gpus& gpus = {});

/// Why there is no place for the cell's ranks. Without any GPU that is for the load to say.
std::optional<ConfigConflict> device_conflict(const EngineConfig& engine, const Gpus& gpus = {});

/// "8.0, 9.0 exactly, 9.0 and newer": what `architectures` (CudaFacts::architectures) run on, in words.
std::string covered_capabilities(const std::string& architectures);

/// Why this build refuses the GPU, one line; none: it does not. "12.0 needs code that this build lacks (it has …)".
/// `architectures`: "80-real 90a-real 90-virtual". Machine code (real) runs within its major version from its minor one
/// on, PTX (virtual) on all that is newer, and both with an "a" on that very capability alone; a number without a word
/// is both. Empty `architectures` say nothing.
std::optional<std::string> refused_gpu(const std::string& architectures, const CudaDeviceFacts& device);

/// The first of a cell's ranks' devices ("cpu", "cuda:1") that this build refuses: "cuda:1: NVIDIA T4 has …". None: it
/// refuses none that the driver tells of.
std::optional<std::string> refused_device(const CudaFacts& cuda, const std::vector<std::string>& rank_devices);

/// Throws Error(device), with what to do, if this build has no code for one of them.
void check_gpu_code(const std::vector<std::string>& rank_devices);

}  // namespace paceline
