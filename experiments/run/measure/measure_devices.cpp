#include "experiments/run/measure/measure_devices.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "engine/comm/work_scope.h"
#include "engine/util/machine.h"
#include "experiments/run/plan/ceilings.h"
#include "kernels/cuda/probe.h"

namespace paceline {
namespace {

constexpr int kRounds = 3;

std::optional<double> measured(double rate) { return rate > 0 ? std::optional(rate) : std::nullopt; }

/// More than any cache holds is enough.
std::vector<ceilings::Region> first_regions(const ShardWeights& weights) {
  constexpr size_t kEnough = size_t{512} << 20;
  std::vector<ceilings::Region> regions;
  size_t total = 0;
  for (const ceilings::Region& region : packed_regions(weights)) {
    if (total >= kEnough) break;
    regions.push_back({region.data, std::min(region.bytes, kEnough - total)});
    total += regions.back().bytes;
  }
  return regions;
}

std::optional<double> read_rate(ThreadPool& pool, const ShardWeights& weights) {
  const std::vector<ceilings::Region> regions = first_regions(weights);
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

}  // namespace

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
  const Placement& placement = load.team().options().placement;
  const bool on_gpus =
      !placement.devices.empty() && cuda_index(placement.devices[size_t(placement.deciding_rank())]) >= 0;
  return on_gpus ? cuda_ceilings(load.team().options()) : cpu_ceilings(load, cell);
}

}  // namespace paceline
