#include "experiments/config/devices.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "kernels/error.h"

namespace paceline {
namespace {

int num_ranks(const EngineConfig& engine) { return engine.parallel.tp * engine.parallel.pp; }

int64_t device_of(const EngineConfig& engine, int rank) {
  return engine.devices.empty() ? rank : engine.devices[size_t(rank)];
}

constexpr int kOldestMajor = 8;  // bfloat16 in tensor cores

struct CompiledCode {
  int major = 0, minor = 0;
  bool exact = false, machine_code = true, ptx = true;

  bool runs_on(int of_major, int of_minor) const {
    if (exact) return of_major == major && of_minor == minor;
    if (machine_code && of_major == major && of_minor >= minor) return true;
    return ptx && (of_major > major || (of_major == major && of_minor >= minor));
  }
  std::string text() const {
    const std::string name = fmt::format("{}.{}", major, minor);
    if (exact) return name + " exactly";
    return ptx ? name + " and newer" : fmt::format("{} to {}.9", name, major);
  }
};

std::vector<CompiledCode> compiled_code(const std::string& architectures) {
  std::vector<CompiledCode> all;
  std::istringstream words(architectures);
  for (std::string word; words >> word;) {
    int number = 0;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), number);
    if (parsed.ec != std::errc()) continue;  // "native": what the building machine had
    const std::string rest = word.substr(size_t(parsed.ptr - word.data()));
    CompiledCode code{.major = number / 10, .minor = number % 10};
    code.exact = rest.starts_with("a");
    code.machine_code = !rest.ends_with("-virtual");
    code.ptx = !rest.ends_with("-real");
    all.push_back(code);
  }
  return all;
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

std::string covered_capabilities(const std::string& architectures) {
  std::vector<std::string> texts;
  for (const CompiledCode& code : compiled_code(architectures)) texts.push_back(code.text());
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::optional<std::string> refused_gpu(const std::string& architectures, const CudaDeviceFacts& device) {
  const std::string name = fmt::format("{} has compute capability {}.{}", device.name, device.major, device.minor);
  if (device.major < kOldestMajor) return fmt::format("{}: {}.0 or newer is needed", name, kOldestMajor);
  const std::vector<CompiledCode> all = compiled_code(architectures);
  if (all.empty()) return std::nullopt;
  for (const CompiledCode& code : all)
    if (code.runs_on(device.major, device.minor)) return std::nullopt;
  return fmt::format("{}, for which this build has no code: it has {} (CMAKE_CUDA_ARCHITECTURES \"{}\")", name,
                     covered_capabilities(architectures), architectures);
}

std::optional<std::string> refused_device(const CudaFacts& cuda, const std::vector<std::string>& rank_devices) {
  for (const CudaDeviceFacts& device : cuda.devices) {
    const std::string name = fmt::format("cuda:{}", device.index);
    if (std::find(rank_devices.begin(), rank_devices.end(), name) == rank_devices.end()) continue;
    if (!device.error.empty()) continue;  // the load says so
    if (const std::optional<std::string> why = refused_gpu(cuda.architectures, device))
      return fmt::format("{}: {}", name, *why);
  }
  return std::nullopt;
}

void check_gpu_code(const std::vector<std::string>& rank_devices) {
  const auto is_gpu = [](const std::string& device) { return device.starts_with("cuda:"); };
  if (!std::any_of(rank_devices.begin(), rank_devices.end(), is_gpu)) return;
  if (const auto refused = refused_device(probe_cuda(ProbeDepth::listed), rank_devices))
    fail(ExitCode::device, "{}; leave it out with engine.devices, or build for it (-DCMAKE_CUDA_ARCHITECTURES)",
         *refused);
}

}  // namespace paceline
