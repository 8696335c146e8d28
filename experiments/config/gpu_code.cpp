#include "experiments/config/gpu_code.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "kernels/error.h"

namespace paceline {
namespace {

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
