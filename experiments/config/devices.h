#pragma once
// Where the ranks of a cell run.

#include <optional>
#include <string>
#include <vector>

#include "engine/comm/nccl_comm.h"
#include "experiments/config/config.h"
#include "kernels/cuda/cuda_backend.h"

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

}  // namespace paceline
