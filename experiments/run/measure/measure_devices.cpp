#include "experiments/run/measure/measure_devices.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <fstream>
#include <memory>
#include <numeric>
#include <sched.h>
#include <sstream>
#include <unistd.h>
#include <utility>

#include "engine/comm/work_scope.h"
#include "engine/util/machine.h"
#include "experiments/config/devices.h"
#include "experiments/run/engine_load.h"
#include "kernels/cpu/cgroups.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cuda/probe.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

constexpr int32_t kPartRows = 1024;

/// In [-1, 1): zeros would flatter a device that saves power on them.
std::vector<float> random_floats(size_t count) {
  std::vector<float> values(count);
  uint64_t state = 1;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = float(int32_t(state >> 32)) * 0x1p-31f;
  }
  return values;
}

constexpr int kRounds = 3;

std::optional<double> measured(double rate) { return rate > 0 ? std::optional(rate) : std::nullopt; }

std::optional<double> read_rate(ThreadPool& pool, const ShardWeights& weights) {
  size_t left = size_t{512} << 20;  // more than any cache holds
  std::vector<ceilings::Region> regions = packed_regions(weights);
  for (ceilings::Region& region : regions) {
    region.bytes = std::min(region.bytes, left);
    left -= region.bytes;
  }
  std::erase_if(regions, [](const ceilings::Region& region) { return region.bytes == 0; });
  double best = 0.0;
  for (int round = 0; round < kRounds && !regions.empty(); ++round)
    best = std::max(best, ceilings::best_read_rate(pool, regions));
  return measured(best);
}

DeviceCeilings cpu_ceilings(EngineLoad& load, const ExperimentConfig& cell) {
  const TeamOptions& team = load.team().options();
  ThreadPool pool(team.threads_per_rank, !load.team().oversubscribed());
  DeviceCeilings out;
  out.read_bytes_s = read_rate(pool, *(*load.weights())[size_t(load.team().deciding_rank())]);
  if (const ShardWeights* const draft = load.draft_weights(cell)) out.draft_read_bytes_s = read_rate(pool, *draft);
  const DType dtype = load.plan().dtype;
  double best = 0.0;
  for (int round = 0; round < kRounds; ++round) best = std::max(best, ceilings::gemm_rate(pool, dtype));
  out.matrix_flops_s = measured(best);
  out.matrix = ceilings::multiplies_pairs(dtype) ? "bfloat16 dot products" : "float32 FMAs";
  return out;
}

DeviceCeilings cuda_ceilings(const TeamOptions& team) {
  constexpr int32_t kSize = 8192;
  const Placement& placement = team.placement;
  const int deciding = placement.deciding_rank();
  const std::string& name = placement.devices[size_t(deciding)];
  DeviceCeilings out;
  const auto attempt = [](const auto& measure) {
    try {
      measure();
    } catch (const Error&) {  // no room beside the cell's own memory, say: a ceiling less
    }
  };
  attempt([&] {
    const CudaMemoryRates memory = measure_cuda_memory(cuda_index(name));
    out.read_bytes_s = out.draft_read_bytes_s = measured(memory.read_bytes_s);
    out.copy_bytes_s = measured(memory.copy_bytes_s);
  });
  attempt([&] {
    out.matrix_flops_s = measured(measure_matrix_rate(name, team.numerics, kSize));
    out.matrix = fmt::format("{} of {}³", matrix_name(team.numerics), kSize);
  });
  if (placement.num_ranks() == 1) return out;
  const int neighbour = deciding > 0 ? deciding - 1 : deciding + 1;
  attempt([&] {
    out.link_bytes_s =
        measured(measure_cuda_link(cuda_index(name), cuda_index(placement.devices[size_t(neighbour)])).bytes_s);
  });
  return out;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

/// The number in a file of one line.
std::optional<double> number_in(const fs::path& file) {
  std::ifstream in(file);
  double value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

void add(std::optional<double>& sum, double more) { sum = sum.value_or(0) + more; }

/// /proc/stat: "cpu3 user nice system idle iowait irq softirq steal …", in ticks. User time holds that of guests.
void read_cpu_times(const fs::path& file, const std::vector<int>& cpus, MachineCounters& out) {
  const double tick_s = 1.0 / double(std::max(1L, ::sysconf(_SC_CLK_TCK)));
  std::ifstream in(file);
  for (std::string line; std::getline(in, line) && line.starts_with("cpu");) {
    std::istringstream fields(line.substr(3));
    if (line.size() < 4 || line[3] == ' ') continue;  // the sum of all
    int cpu = -1;
    enum Column { user, nice, system, idle, iowait, irq, softirq, steal, num_columns };
    std::array<double, num_columns> ticks{};
    fields >> cpu;
    for (double& value : ticks) fields >> value;
    if (!fields || !std::binary_search(cpus.begin(), cpus.end(), cpu)) continue;
    // A machine that counts nothing says nothing.
    if (std::accumulate(ticks.begin(), ticks.end(), 0.0) <= 0) continue;
    add(out.busy_s, tick_s * (ticks[user] + ticks[nice] + ticks[system] + ticks[irq] + ticks[softirq]));
    add(out.stolen_s, tick_s * ticks[steal]);
  }
}

/// cpu.stat of one cgroup: v2 counts microseconds, v1 nanoseconds.
void read_throttling(const fs::path& file, MachineCounters& out) {
  std::ifstream in(file);
  std::string key;
  for (double value = 0; in >> key >> value;) {
    if (key == "nr_throttled") out.throttled_periods = out.throttled_periods.value_or(0) + int64_t(value);
    if (key == "throttled_usec") add(out.throttled_s, value * 1e-6);
    if (key == "throttled_time") add(out.throttled_s, value * 1e-9);
  }
}

void read_cgroups(const CounterRoots& roots, MachineCounters& out) {
  for (const CgroupFolder& folder : cgroup_folders("cpu", roots.proc, roots.cgroup))
    read_throttling(folder.path / "cpu.stat", out);
}

void read_heat_and_clock(const fs::path& root, const std::vector<int>& cpus, MachineCounters& out) {
  for (const int cpu : cpus) {
    const fs::path folder = root / ("cpu" + std::to_string(cpu));
    for (const char* const count : {"core_throttle_count", "package_throttle_count"})
      if (const auto events = number_in(folder / "thermal_throttle" / count))
        out.thermal_events = out.thermal_events.value_or(0) + int64_t(*events);
    if (const auto khz = number_in(folder / "cpufreq" / "scaling_cur_freq"))
      out.clock_ghz = std::max(out.clock_ghz.value_or(0), *khz * 1e-6);
  }
}

template <class Value>
std::optional<Value> between(const std::optional<Value>& before, const std::optional<Value>& after) {
  if (!before || !after) return std::nullopt;
  return std::max(Value{0}, *after - *before);
}

}  // namespace

CpuRates measure_cpu(ThreadPool& pool, std::span<const ceilings::Region> regions, int rounds) {
  CpuRates best{.threads = pool.num_threads()};
  for (int round = 0; round < rounds; ++round) {
    best.read_bytes_s = std::max(best.read_bytes_s, ceilings::best_read_rate(pool, regions));
    best.fma_flops_s = std::max(best.fma_flops_s, ceilings::fma_rate(pool));
    best.dot_flops_s = std::max(best.dot_flops_s, ceilings::chain_rate<ceilings::Arithmetic::bfloat_pairs>(pool));
  }
  return best;
}

std::vector<ceilings::Region> packed_regions(const ShardWeights& weights) {
  std::vector<ceilings::Region> regions;
  const auto add = [&](const Weight& weight) {
    const auto* packed = dynamic_cast<const CpuWeight*>(weight.get());
    if (packed) regions.push_back({packed->memory.data, packed->bytes});
  };
  if (weights.embed != weights.head) add(weights.embed);
  for (const LayerWeights& layer : weights.layers) {
    for (const Weight* weight : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) add(*weight);
  }
  add(weights.head);
  return regions;
}

double measure_matrix_rate(Backend& backend, int32_t size) {
  constexpr int kRounds = 5;
  PACELINE_CHECK(size > 0 && size % kPartRows == 0, "size {} is no multiple of {}", size, kPartRows);
  const size_t part_values = size_t(kPartRows) * size_t(size);
  const std::vector<float> values = random_floats(part_values);
  Weight weight;
  {
    std::vector<uint16_t> rounded(part_values);
    for (size_t i = 0; i < part_values; ++i) rounded[i] = uint16_t(std::bit_cast<uint32_t>(values[i]) >> 16);
    const std::vector<HostWeight> parts(
        size_t(size / kPartRows),
        {.data = rounded.data(), .dtype = DType::bf16, .rows = kPartRows, .cols = size, .row_stride = size});
    weight = backend.pack(parts, {.dtype = DType::bf16});
  }
  const size_t square = size_t(size) * size_t(size);
  const auto release = [&](float* data) { backend.free(data); };
  const auto buffer = [&] {
    return std::unique_ptr<float, decltype(release)>(static_cast<float*>(backend.alloc(square * sizeof(float))),
                                                     release);
  };
  const auto x = buffer(), y = buffer();
  for (size_t at = 0; at < square; at += part_values)
    backend.upload(x.get() + at, values.data(), part_values * sizeof(float));
  const GemmArgs product{.x = f32_view(x.get(), size, size), .w = weight.get(), .y = f32_view(y.get(), size, size)};
  double best = 0.0;
  for (int round = 0; round <= kRounds; ++round) {
    const auto begin = ceilings::Clock::now();
    backend.gemm(product);
    backend.sync();
    if (round > 0) best = std::max(best, 2.0 * double(square) * double(size) / ceilings::seconds_since(begin));
  }
  return best;
}

double measure_matrix_rate(const std::string& device, Numerics numerics, int32_t size) {
  constexpr double kDeadline_s = 5.0;
  const std::atomic<bool> nobody_failed{false};
  const auto backend = make_backend(
      device, {.threads = 1, .peers = {.failed = &nobody_failed, .timeout_s = kDeadline_s}, .numerics = numerics});
  return measure_matrix_rate(*backend, size);
}

const char* matrix_name(Numerics numerics) {
  return numerics == Numerics::fast ? "cuBLASLt's bfloat16 GEMM" : "our bfloat16 GEMM";
}

WorkSoFar WorkSoFar::operator-(const WorkSoFar& before) const {
  PACELINE_CHECK(before.ranks.size() == ranks.size(), "{} ranks before, {} after", before.ranks.size(), ranks.size());
  WorkSoFar out{.cpu_s = cpu_s - before.cpu_s, .cpu_wait_s = cpu_wait_s - before.cpu_wait_s};
  for (size_t rank = 0; rank < ranks.size(); ++rank) out.ranks.push_back(ranks[rank] - before.ranks[rank]);
  return out;
}

WorkSoFar work_so_far(RankTeam& team) {
  const auto of_ranks = std::make_shared<std::vector<std::pair<RankWork, double>>>(size_t(team.num_ranks()));
  team.post_on_all([of_ranks](Rank& rank) {
    rank.backend->sync();
    const CommStats stats = comm_stats(rank);
    (*of_ranks)[size_t(rank.index)] = {{.verify = rank.backend->work(WorkKind::target),
                                        .draft = rank.backend->work(WorkKind::draft),
                                        .sample = rank.backend->work(WorkKind::decide),
                                        .comm_bytes = int64_t(stats.bytes),
                                        .comm_wait_s = stats.collective_wait_s + stats.receive_wait_s},
                                       rank.backend->wait_seconds()};
  });
  WorkSoFar out{.cpu_s = process_cpu_seconds()};
  for (const auto& [work, waited_s] : *of_ranks) {
    out.ranks.push_back(work);
    out.cpu_wait_s += waited_s;
  }
  return out;
}

DeviceCeilings measure_ceilings(EngineLoad& load, const ExperimentConfig& cell) {
  return on_cuda(cell.engine) ? cuda_ceilings(load.team().options()) : cpu_ceilings(load, cell);
}

MachineCounters read_machine_counters(const CounterRoots& roots) {
  MachineCounters out;
  const std::vector<int> cpus = allowed_cpus();
  out.cores = int(cpus.size());
  read_heat_and_clock(roots.cpus, cpus, out);
  read_cgroups(roots, out);
  read_cpu_times(roots.proc / "stat", cpus, out);
  out.own_cpu_s = process_cpu_seconds();
  out.at_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return out;
}

Disturbance disturbance_between(const MachineCounters& before, const MachineCounters& after) {
  Disturbance out{.wall_s = after.at_s - before.at_s,
                  .cores = after.cores,
                  .foreign_cpu_s = between(before.busy_s, after.busy_s),
                  .stolen_s = between(before.stolen_s, after.stolen_s),
                  .throttled_s = between(before.throttled_s, after.throttled_s),
                  .throttled_periods = between(before.throttled_periods, after.throttled_periods),
                  .thermal_events = between(before.thermal_events, after.thermal_events),
                  .clock_ghz = after.clock_ghz};
  if (out.foreign_cpu_s) out.foreign_cpu_s = std::max(0.0, *out.foreign_cpu_s - (after.own_cpu_s - before.own_cpu_s));
  return out;
}

}  // namespace paceline
