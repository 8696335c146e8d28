#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

#include "engine/comm/nccl_comm.h"
#include "engine/model/model_spec.h"
#include "engine/util/clock.h"
#include "engine/util/gguf.h"
#include "engine/util/machine.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/doctor/doctor.h"
#include "experiments/results/files/environment.h"
#include "kernels/cpu/mapped_memory.h"
#include "speculative/eagle3_spec.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

/// What measuring GPUs may take together; opening them is not in it.
constexpr double kGpuBudget_s = 6.0;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

void add_models_below(const fs::path& folder, const std::string& prefix, std::vector<FoundFile>& models) {
  for (const fs::path& dir : checkpoints_below(folder)) {
    FoundFile model{.name = prefix + dir.filename().string(), .error = {}};
    try {
      if (!is_eagle3_folder(dir)) load_model_spec(dir);  // what a head must fit is its target
    } catch (const Error& error) {
      model.error = error.what();
    }
    models.push_back(std::move(model));
  }
}

/// By making a file and taking it away again.
ResultsPlace look_at_results(const fs::path& root) {
  ResultsPlace place{.folder = root.string()};
  std::error_code error;
  fs::path there = fs::absolute(root, error).lexically_normal();
  while (!there.empty() && !fs::exists(there, error) && there != there.parent_path()) there = there.parent_path();
  if (!fs::is_directory(there, error)) {
    place.error = fmt::format("{}: {} is no folder", place.folder, there.string());
    return place;
  }
  const fs::path probe = there / fmt::format(".runexp-doctor-{}", getpid());
  const int file = open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written = file >= 0 && write(file, "x", 1) == 1 && fsync(file) == 0;
  if (!written)
    place.error = fmt::format("{}: {} cannot be written: {}", place.folder, there.string(), std::strerror(errno));
  if (file >= 0) {
    close(file);
    unlink(probe.c_str());
  }
  const fs::space_info space = fs::space(there, error);
  if (!error) place.free_bytes = space.available;
  return place;
}

void measure_processor(DoctorFacts& facts) {
  constexpr size_t kMost = size_t{256} << 20, kFewest = size_t{16} << 20;
  constexpr int kRounds = 5;
  const size_t bytes = std::max(kFewest, std::min(kMost, facts.memory_limit_bytes / 16)) / kFewest * kFewest;
  ThreadPool pool(facts.usable_cores);
  const MappedMemory memory(bytes);
  char* const data = static_cast<char*>(memory.data());
  constexpr size_t kPage = 4096;
  pool.parallel_for(int64_t(bytes / kPage), [&](int64_t page, int) { data[size_t(page) * kPage] = 1; });
  const ceilings::Region region{data, bytes};
  facts.cpu_read_bytes = bytes;
  facts.cpu = measure_cpu(pool, {&region, 1}, kRounds);
}

GpuRates measure_gpu(const CudaDeviceFacts& device) {
  constexpr size_t kRoomOfLarge = size_t{3} << 30;
  const std::string name = fmt::format("cuda:{}", device.index);
  GpuRates rates;
  try {
    rates.memory = measure_cuda_memory(device.index);
    rates.matrix_size = device.free_bytes > kRoomOfLarge ? 8192 : 2048;
    rates.matrix_flops_s = measure_matrix_rate(name, Numerics::strict, rates.matrix_size);
  } catch (const Error& error) {
    rates.error = error.what();
    return rates;
  }
  try {
    rates.fast_matrix_flops_s = measure_matrix_rate(name, Numerics::fast, rates.matrix_size);
  } catch (const Error& error) {
    rates.fast_error = error.what();
  }
  return rates;
}

void measure_gpus(DoctorFacts& facts) {
  const auto begin = Clock::now();
  const auto time_left = [&] { return seconds_since(begin) < kGpuBudget_s; };
  const auto answers = [](const CudaDeviceFacts& device) {
    return device.error.empty() && !device.prohibited && device.major >= 8;
  };
  for (const CudaDeviceFacts& device : facts.cuda.devices)
    if (time_left()) facts.gpus.push_back(answers(device) ? measure_gpu(device) : GpuRates{});
  const int count = int(facts.cuda.devices.size());
  for (int distance = 1; distance < count; ++distance) {
    for (int from = 0; from < count; ++from) {
      const int to = (from + distance) % count;
      if (!time_left() || !answers(facts.cuda.devices[size_t(from)]) || !answers(facts.cuda.devices[size_t(to)]))
        continue;
      GpuLink link{.from = from, .to = to};
      try {
        link.rate = measure_cuda_link(from, to);
      } catch (const Error& error) {
        link.error = error.what();
      }
      facts.links.push_back(std::move(link));
    }
  }
}

}  // namespace

std::vector<fs::path> checkpoints_below(const fs::path& folder) {
  std::vector<fs::path> entries = sorted_entries(folder);
  std::erase_if(entries, [](const fs::path& entry) {
    std::error_code ignored;  // a config.json that links to itself
    if (fs::exists(entry / "config.json", ignored)) return false;
    return !is_gguf_path(entry) || !fs::is_regular_file(entry, ignored) || is_later_gguf_part(entry);
  });
  return entries;
}

DoctorFacts collect_doctor_facts(const fs::path& results_root) {
  DoctorFacts facts;
  facts.environment = collect_environment();
  for (const Isa isa : kIsas) {
    if (build_has(isa)) facts.built.push_back(isa);
    if (machine_has(isa)) facts.of_machine.push_back(isa);
  }
  facts.used = fastest_isa();
  facts.cores = core_limits();
  facts.usable_cores = usable_cores();
  facts.memory_limit_bytes = memory_limit_bytes();
  const fs::path builtin = find_builtin_root(fs::current_path() / "config.json");
  if (!builtin.empty()) {
    add_models_below(builtin / "models", "builtin:", facts.models);
    for (const fs::path& file : sorted_entries(builtin / "workloads"))
      if (file.extension() == ".jsonl") facts.datasets.push_back({"builtin:" + file.stem().string(), {}});
  }
  if (const char* const folder = std::getenv("PACELINE_MODELS")) {
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) facts.models.push_back({folder, "PACELINE_MODELS names no folder"});
    add_models_below(folder, std::string(folder) + "/", facts.models);
  }
  facts.results = look_at_results(results_root);
  facts.nccl = nccl_version();
  facts.cuda = probe_cuda(ProbeDepth::opened);
  measure_processor(facts);
  measure_gpus(facts);
  return facts;
}

}  // namespace paceline
