#include "experiments/config/devices.h"

#include <fmt/format.h>

#include "engine/util/counted.h"

namespace paceline {
namespace {

int num_ranks(const EngineConfig& engine) { return engine.parallel.tp * engine.parallel.pp; }

int64_t device_of(const EngineConfig& engine, int rank) {
  return engine.devices.empty() ? rank : engine.devices[size_t(rank)];
}

}  // namespace

bool on_cuda(const EngineConfig& engine, const Gpus& gpus) {
  return engine.backend == "cuda" || (engine.backend == "auto" && gpus.num_devices > 0);
}

std::vector<std::string> rank_devices(const EngineConfig& engine, const Gpus& gpus) {
  std::vector<std::string> devices;
  for (int rank = 0; rank < num_ranks(engine); ++rank)
    devices.push_back(on_cuda(engine, gpus) ? fmt::format("cuda:{}", device_of(engine, rank)) : "cpu");
  return devices;
}

std::optional<ConfigConflict> device_conflict(const EngineConfig& engine, const Gpus& gpus) {
  const auto conflict = [](const char* field, std::string reason) {
    return ConfigConflict{
        field, {"engine.backend", "engine.devices", "engine.parallel.tp", "engine.parallel.pp"}, std::move(reason)};
  };
  if (!on_cuda(engine, gpus)) {
    if (engine.devices.empty()) return std::nullopt;
    return conflict("engine.devices", "devices are chosen for backend cuda only: leave them out, or use backend cuda");
  }
  const int ranks = num_ranks(engine), present = gpus.num_devices;
  const std::string list = fmt::format("[{}]", fmt::join(engine.devices, ", "));
  const std::string wanted =
      fmt::format("tp {} x pp {} takes {} CUDA devices", engine.parallel.tp, engine.parallel.pp, ranks);
  if (!engine.devices.empty() && size_t(ranks) > engine.devices.size())
    return conflict("engine.devices",
                    fmt::format("{}, engine.devices {} names {}: name {} more, or use fewer ranks", wanted, list,
                                engine.devices.size(), size_t(ranks) - engine.devices.size()));
  if (engine.devices.empty() && present > 0 && ranks > present)
    return conflict("engine.backend", fmt::format("{}, found {}: use fewer ranks, or backend cpu", wanted, present));
  for (int rank = 0; present > 0 && rank < ranks; ++rank) {
    const int64_t device = device_of(engine, rank);
    if (device >= present)
      return conflict("engine.devices", fmt::format("engine.devices {}: found {}, no number {}: count from 0, as "
                                                    "CUDA_VISIBLE_DEVICES leaves them",
                                                    list, counted(present, "CUDA device"), device));
  }
  if (present > 0 && ranks > 1 && !gpus.nccl)
    return conflict("engine.backend",
                    "several ranks on GPUs need NCCL, and this build has none: install libnccl-dev and build again, or "
                    "use tp 1 and pp 1");
  return std::nullopt;
}

}  // namespace paceline
