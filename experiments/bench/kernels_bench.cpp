// Speed of the CPU ops beside what the machine can do at all: plain reads of the same memory, and fused
// multiply-adds. Every gemm row states its share of both.
//
//   kernels_bench --benchmark_filter='Gemm|Read|Fma' --benchmark_repetitions=9
//
// Environment: PACELINE_BENCH_THREADS (default: usable cores); PACELINE_BENCH_ISA, "scalar" to "avx512-bf16" (default:
// fastest_isa()).

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <Eigen/Dense>
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "experiments/bench/bench.h"
#include "kernels/backend.h"
#include "kernels/cpu/ceilings.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/thread_pool.h"

namespace paceline {
namespace {

using namespace ceilings;

/// Of BackendOptions.
int isa() {
  const std::string name = bench_setting("ISA");
  if (name.empty()) return -1;
  for (const Isa isa : kIsas)
    if (isa_name(isa) == name) return int(isa);
  std::fprintf(stderr, "PACELINE_BENCH_ISA=%s: use scalar, avx2, avx512 or avx512-bf16\n", name.c_str());
  std::exit(2);
}

void touch(ThreadPool& pool, const MappedMemory& memory) {
  const size_t piece = size_t{1} << 20;
  pool.parallel_for(int64_t(memory.bytes() / piece), [&](int64_t task, int) {
    float* to = memory.floats() + size_t(task) * piece / 4;
    std::fill(to, to + piece / 4, 1.0f);
  });
}

/// The best of several passes over 84 MB (the size of target-42m in bf16), once per process.
double read_bandwidth() {
  static const double best = [] {
    ThreadPool pool(bench_threads());
    const MappedMemory memory(size_t{84} << 20);
    touch(pool, memory);
    double most = 0;
    const Region region{static_cast<const char*>(memory.data()), memory.bytes()};
    for (int i = 0; i < 20; ++i) most = std::max(most, best_read_rate(pool, {&region, 1}));
    return most;
  }();
  return best;
}

/// Floating-point operations per second of all threads together.
double fma_peak() {
  static const double best = [] {
    ThreadPool pool(bench_threads());
    double most = 0;
    for (int i = 0; i < 10; ++i) most = std::max(most, fma_rate(pool));
    return most;
  }();
  return best;
}

Backend& backend() {
  static const std::unique_ptr<Backend> made = make_backend("cpu", {.threads = bench_threads(), .isa = isa()});
  return *made;
}

MatView rows(int m, int cols) {
  static std::map<std::pair<int, int>, void*> kept;
  void*& data = kept[{m, cols}];
  if (!data) {
    data = backend().alloc(size_t(m) * size_t(cols) * 4);
    for (int i = 0; i < m * cols; ++i) static_cast<float*>(data)[i] = float(i % 17) * 0.01f;
  }
  return f32_view(static_cast<float*>(data), m, cols);
}

struct Shape {
  const char* name;
  int n, k;
  bool glu;
  int copies;  // so that a pass over all of them exceeds the last-level cache, as a model does
};
constexpr Shape kShapes[] = {{"qkv", 1024, 512, false, 60},     {"o", 512, 512, false, 120},
                             {"gate_up", 3072, 512, true, 20},  {"down", 512, 1536, false, 40},
                             {"head", 8193, 512, false, 8},     {"small", 128, 64, false, 1},
                             {"small_head", 8193, 64, false, 1}};

const std::vector<Weight>& weights(const Shape& shape, DType dtype) {
  static std::map<std::pair<const char*, DType>, std::vector<Weight>> kept;
  std::vector<Weight>& all = kept[{shape.name, dtype}];
  if (all.empty()) {
    const std::vector<float> values(size_t(shape.n) * size_t(shape.k), 0.01f);
    const HostWeight whole{values.data(), DType::f32, shape.n, shape.k, shape.k};
    HostWeight half = whole;
    half.rows /= 2;
    const HostWeight parts[] = {half, half};
    for (int i = 0; i < shape.copies; ++i)
      all.push_back(shape.glu ? backend().pack(parts, {.dtype = dtype, .pair_panels = true})
                              : backend().pack({&whole, 1}, {.dtype = dtype}));
  }
  return all;
}

/// What the backend has done since `before`, in `seconds`.
void count_gemms(benchmark::State& state, const Traffic& before, double seconds) {
  const Traffic done = backend().traffic() - before;
  const double bytes_s = double(done.weight_bytes) / seconds, flops_s = double(done.flops) / seconds;
  state.counters["GB/s"] = bytes_s * 1e-9;
  state.counters["GFLOP/s"] = flops_s * 1e-9;
  state.counters["of_read"] = bytes_s / read_bandwidth();
  if (fma_peak() > 0) state.counters["of_fma"] = flops_s / fma_peak();
}

void gemm_once(const Shape& shape, DType dtype, int m, int64_t number) {
  const std::vector<Weight>& w = weights(shape, dtype);
  backend().gemm({.x = rows(m, shape.k),
                  .w = w[size_t(number) % w.size()].get(),
                  .y = rows(m, shape.glu ? shape.n / 2 : shape.n),
                  .glu = shape.glu});
}

void run_gemm(benchmark::State& state, const Shape& shape, DType dtype, int m) {
  gemm_once(shape, dtype, m, 0);  // packs outside the timed loop
  const Traffic before = backend().traffic();
  const auto begin = Clock::now();
  int64_t calls = 0;
  for (auto _ : state) gemm_once(shape, dtype, m, calls++);
  count_gemms(state, before, seconds_since(begin));
}

/// The same product by Eigen in float32 on one thread, as it multiplies in the baseline instruction set of this file:
/// what a program without kernels of its own gets.
void run_eigen_gemm(benchmark::State& state, const Shape& shape, int m) {
  using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const RowMajor w = RowMajor::Random(shape.n, shape.k), x = RowMajor::Random(m, shape.k);
  RowMajor y(m, shape.n);
  for (auto _ : state) {
    y.noalias() = x * w.transpose();
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * m * shape.n * shape.k, benchmark::Counter::kIsIterationInvariantRate);
}

/// Every gemm of a target-42m step, in order: 12 layers and the head, 84 MB in bf16.
void run_model_gemms(benchmark::State& state, DType dtype, int m) {
  const std::span<const Shape> of_layer(kShapes, 4);
  const Shape& head = kShapes[4];
  for (const Shape& shape : std::span(kShapes, 5)) gemm_once(shape, dtype, m, 0);  // packs outside the timed loop
  const Traffic before = backend().traffic();
  const auto begin = Clock::now();
  for (auto _ : state) {
    for (int layer = 0; layer < 12; ++layer)
      for (const Shape& shape : of_layer) gemm_once(shape, dtype, m, layer);
    gemm_once(head, dtype, m, 0);
  }
  count_gemms(state, before, seconds_since(begin));
}

/// num_seqs sequences of `context` cached tokens, q_len new rows each; heads and dims of target-42m.
void run_attention(benchmark::State& state, int num_seqs, int context, int q_len) {
  constexpr int kHeads = 8, kKvHeads = 4, kDim = 64, kBlock = 16;
  const int blocks_each = (context + q_len + kBlock - 1) / kBlock;
  KvView kv{.dtype = DType::f32, .block_size = kBlock, .num_kv_heads = kKvHeads, .k_dim = kDim, .v_dim = kDim};
  kv.v = &kv;
  const size_t bytes = kv_block_bytes(kv) / 2 * size_t(blocks_each * num_seqs);
  kv.k = backend().alloc(bytes);
  kv.v = backend().alloc(bytes);
  std::fill_n(static_cast<float*>(kv.k), bytes / 4, 0.1f);
  std::fill_n(static_cast<float*>(kv.v), bytes / 4, 0.1f);
  std::vector<SeqSpan> seqs;
  std::vector<int32_t> kv_len, block;
  for (int s = 0; s < num_seqs; ++s) {
    seqs.push_back({.first_row = s * q_len, .num_rows = q_len, .block_begin = int32_t(block.size())});
    for (int b = 0; b < blocks_each; ++b) block.push_back(s * blocks_each + b);
    for (int r = 0; r < q_len; ++r) kv_len.push_back(context + r + 1);
  }
  const MatView q = rows(num_seqs * q_len, kHeads * kDim),
                out = rows(num_seqs * q_len, kHeads * kDim + 1).col_range(0, kHeads * kDim);
  const Traffic before = backend().traffic();
  const auto begin = Clock::now();
  for (auto _ : state)
    backend().attention({.q = q,
                         .out = out,
                         .num_heads = kHeads,
                         .scale = 0.125f,
                         .seqs = seqs,
                         .kv_len = kv_len,
                         .block = block,
                         .kv = kv});
  const double seconds = seconds_since(begin);
  const Traffic done = backend().traffic() - before;
  state.counters["GB/s"] = double(done.kv_bytes) / seconds * 1e-9;
  state.counters["GFLOP/s"] = double(done.flops) / seconds * 1e-9;
  backend().free(kv.k);
  backend().free(kv.v);
}

void run_fork_join(benchmark::State& state, int threads) {
  ThreadPool pool(threads);
  std::vector<int64_t> hits(size_t(threads) * 8, 0);
  for (auto _ : state) pool.parallel_for(threads, [&](int64_t task, int) { ++hits[size_t(task) * 8]; });
}

void run_read(benchmark::State& state, size_t bytes) {
  ThreadPool pool(bench_threads());
  const MappedMemory memory(bytes);
  touch(pool, memory);
  const Region region{static_cast<const char*>(memory.data()), memory.bytes()};
  double bytes_s = 0;
  for (auto _ : state) bytes_s += read_rate<Prefetch::off>(pool, {&region, 1});
  state.counters["GB/s"] = bytes_s / double(state.iterations()) * 1e-9;
}

void run_pack(benchmark::State& state, DType dtype) {
  const std::vector<uint16_t> values(size_t{8192} * 512, 0x3f80);
  const HostWeight part{values.data(), DType::bf16, 8192, 512, 512};
  for (auto _ : state) benchmark::DoNotOptimize(backend().pack({&part, 1}, {.dtype = dtype}));
  state.counters["GB/s"] =
      benchmark::Counter(double(values.size()) * 2e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void run_norm(benchmark::State& state, int m) {
  static const std::vector<float> weight(512, 1.0f);
  const MatView x = rows(m, 512), out = rows(m, 513).col_range(0, 512);
  for (auto _ : state) backend().norm({.residual = x, .weight = weight.data(), .out = out});
}

void register_all() {
  const auto add = [](const std::string& name, auto... arguments) {
    return benchmark::RegisterBenchmark(name.c_str(), arguments...)->UseRealTime();
  };
  for (const size_t mib : {1, 8, 84}) add(fmt::format("Read/{}MiB", mib), run_read, mib << 20);
  if (best_isa() >= Isa::avx2)
    add("Fma", [](benchmark::State& state) {
      for (auto _ : state) benchmark::DoNotOptimize(fma_chains(1000));
      state.counters["GFLOP/s"] = fma_peak() * 1e-9;
    });
  if (best_isa() >= Isa::avx512_bf16)
    add("BfloatDot", [](benchmark::State& state) {
      for (auto _ : state) benchmark::DoNotOptimize(chains<Arithmetic::bfloat_pairs>(1000));
      ThreadPool pool(bench_threads());
      state.counters["GFLOP/s"] = chain_rate<Arithmetic::bfloat_pairs>(pool) * 1e-9;
    });
  for (const Shape& shape : kShapes)
    for (const int m : {1, 6, 64})
      add(fmt::format("Eigen/{}/{}", shape.name, m), run_eigen_gemm, shape, m)->Unit(benchmark::kMicrosecond);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const std::string_view type = dtype_name(dtype);
    for (const int m : {1, 2, 4, 6, 8, 12, 16, 24, 32, 64, 512})
      add(fmt::format("Model/{}/{}", type, m), run_model_gemms, dtype, m)->Unit(benchmark::kMicrosecond);
    for (const Shape& shape : kShapes)
      for (const int m : {1, 2, 4, 6, 8, 12, 16, 32, 64, 512})
        add(fmt::format("Gemm/{}/{}/{}", shape.name, type, m), run_gemm, shape, dtype, m)
            ->Unit(benchmark::kMicrosecond);
    add(fmt::format("Pack/{}", type), run_pack, dtype);
  }
  for (const auto& [name, seqs, context, q_len] : {std::tuple{"decode", 1, 100, 1},
                                                   {"decode", 1, 1000, 1},
                                                   {"decode", 1, 8000, 1},
                                                   {"decode", 16, 1000, 1},
                                                   {"verify", 1, 1000, 6},
                                                   {"verify", 1, 8000, 6},
                                                   {"prefill", 1, 0, 512},
                                                   {"prefill", 1, 3584, 512}})
    add(fmt::format("Attention/{}/{}x{}+{}", name, seqs, context, q_len), run_attention, seqs, context, q_len)
        ->Unit(benchmark::kMicrosecond);
  for (const int threads : {2, 3}) add(fmt::format("ForkJoin/{}", threads), run_fork_join, threads);
  for (const int m : {1, 512}) add(fmt::format("Norm/{}", m), run_norm, m);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  paceline::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
