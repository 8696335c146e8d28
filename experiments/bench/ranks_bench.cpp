// Speed of what ranks on GPUs do together: the sum over ranks, the residual and the norm after a row-split product, as
// ours in one kernel, and as NCCL's sum with our norm after it. Devices cuda:0, cuda:1, …; two and, where there are,
// four.
//
//   ranks_bench
//
// SumNorm/ranks/rows and NcclSumNorm/…, whose calls may wait for the host: rows of 4,096 float32 values, 16 KiB each.
// The time is that of the slowest rank, a call in many, the mean of 20 rounds.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/comm/rank_team.h"
#include "experiments/bench/bench.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/yardstick/device_timer.h"
#include "kernels/cuda/yardstick/nccl_sums.h"

namespace paceline {
namespace {

constexpr int kCols = 4096, kCalls = 200;

/// Ranks, and rows of each on its device.
class Ranks {
 public:
  Ranks(int count, int rows) : team_(options(count)), seconds_(size_t(count)), rows_(size_t(count)) {
    team_.run_on_all([&](Rank& rank) {
      const auto alloc = [&](int m) {
        const size_t bytes = size_t(m) * kCols * sizeof(float);
        const std::vector<float> values(bytes / sizeof(float), 0.01f);
        auto* const data = static_cast<float*>(rank.backend->alloc(bytes));
        rank.backend->upload(data, values.data(), bytes);
        return f32_view(data, m, kCols);
      };
      rows_[size_t(rank.index)] = {alloc(rows), alloc(rows), alloc(rows), alloc(rows), alloc(1)};
    });
  }
  /// Seconds that a call takes on the slowest rank. sums: null, or NCCL's.
  double time(NcclSums* sums) {
    team_.run_on_all([&](Rank& rank) {
      const Rows& mine = rows_[size_t(rank.index)];
      CUstream_st* const stream = cuda_stream(*rank.backend).stream;
      const NormArgs norm{
          .residual = mine.residual, .delta = mine.delta, .weight = mine.weight.f32_row(0), .out = mine.out};
      const auto call = [&] {
        NormArgs args = norm;
        if (sums)
          sums->sum(rank.index, mine.part.f32_row(0), mine.delta.f32_row(0), size_t(mine.part.rows) * kCols, stream);
        else if (!(args.sum = rank.shards->next_sum(norm.delta)))
          fail(ExitCode::comm, "devices do not reach each other's memory: there is no sum within norms here");
        rank.backend->norm(args);
      };
      try {
        device_seconds(stream, 16, call);
        seconds_[size_t(rank.index)] = device_seconds(stream, kCalls, call) / kCalls;
      } catch (...) {
        if (sums) sums->abort();
        throw;
      }
    });
    return *std::max_element(seconds_.begin(), seconds_.end());
  }

 private:
  struct Rows {
    MatView residual, part, delta, out, weight;
  };
  static TeamOptions options(int count) {
    TeamOptions options{.placement = {.tp = count}};
    for (int rank = 0; rank < count; ++rank) options.placement.devices.push_back("cuda:" + std::to_string(rank));
    return options;
  }

  RankTeam team_;
  std::vector<double> seconds_;
  std::vector<Rows> rows_;
};

void sum_norm(benchmark::State& state, int count, int rows, bool by_nccl) {
  Ranks ranks(count, rows);
  const auto sums = by_nccl ? std::make_unique<NcclSums>(count) : nullptr;
  for (auto _ : state) state.SetIterationTime(ranks.time(sums.get()));
}

void register_all() {
  for (const int count : {2, 4}) {
    if (count > num_cuda_devices()) break;
    for (const int rows : {1, 2, 4})
      for (const bool by_nccl : {false, true})
        benchmark::RegisterBenchmark(
            ((by_nccl ? "NcclSumNorm/" : "SumNorm/") + std::to_string(count) + "/" + std::to_string(rows)).c_str(),
            sum_norm, count, rows, by_nccl)
            ->UseManualTime()
            ->Iterations(20)
            ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  return paceline::bench_main("ranks_bench", [&] {
    benchmark::Initialize(&argc, argv);
    if (paceline::num_cuda_devices() < 2)
      paceline::fail(paceline::ExitCode::device, "needs two CUDA devices, found {}", paceline::num_cuda_devices());
    paceline::register_all();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  });
}
