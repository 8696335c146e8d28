// Speed of the CUDA ops beside what the device can do at all (a plain read of its memory, its matrix units) and beside
// cuBLASLt, in one run. Shapes of Llama-3-8B on cuda:0.
//
//   cuda_bench --benchmark_filter='Gemm|Fast|Attention|Norm|Draw' --benchmark_min_time=0.1
//
// Debian's library takes the time as a plain number of seconds, without the unit that newer ones ask for.
// Fast: the products of fast numerics, cuBLASLt's with the float32 sums, gates and roundings that a step needs.
// Counters: of_read: bytes / time over the measured read. cublas: cuBLASLt's time over ours, the same product in turn
// (more than 1: ours is faster; ours makes its operand from float32 rows within the time).

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "experiments/bench/bench.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/probe.h"
#include "kernels/cuda/yardstick/cublas_product.h"
#include "kernels/cuda/yardstick/device_timer.h"

namespace paceline {
namespace {

constexpr size_t kMoreThanCaches = size_t{256} << 20;  // bytes of weights that are gone through in turn

Backend& backend(Numerics numerics = Numerics::strict) {
  static const std::unique_ptr<Backend> strict = make_backend("cuda:0", {});
  if (numerics == Numerics::strict) return *strict;
  static const std::unique_ptr<Backend> fast = make_backend("cuda:0", {.numerics = Numerics::fast});
  return *fast;
}
CUstream_st* stream(Numerics numerics = Numerics::strict) { return cuda_stream(backend(numerics)).stream; }

double read_rate() {
  static const double rate = measure_cuda_memory(0).read_bytes_s;
  return rate;
}

/// Runs the state's iterations, each some calls of a backend long; returns seconds a call.
double time_calls(benchmark::State& state, const std::function<void()>& call, Numerics numerics = Numerics::strict) {
  constexpr int kCalls = 16;
  device_seconds(stream(numerics), kCalls, call);
  double total = 0.0;
  int64_t rounds = 0;
  for (auto _ : state) {
    const double seconds = device_seconds(stream(numerics), kCalls, call) / kCalls;
    state.SetIterationTime(seconds);
    total += seconds;
    ++rounds;
  }
  return total / double(rounds);
}

/// Bfloat16 values between -2 and 2, other than zero, the same in every run.
std::vector<uint16_t> some_values(size_t count) {
  std::mt19937 random(7);
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values) value = uint16_t(random() & 0x80ffu) | 0x3f00u;
  return values;
}

/// Device memory of this run, zeros.
MatView rows(int m, int cols, const char* purpose) {
  static std::map<std::tuple<int, int, std::string>, float*> kept;
  float*& data = kept[{m, cols, purpose}];
  if (!data) data = static_cast<float*>(backend().alloc(size_t(m) * size_t(cols) * sizeof(float)));
  return f32_view(data, m, cols);
}

struct Shape {
  const char* name;
  int n, k;
  bool glu;
};
constexpr Shape kDown = {"down", 4096, 14336, false};  // reads what gate_up gives
constexpr Shape kShapes[] = {{"qkv", 6144, 4096, false},
                             {"o", 4096, 4096, false},
                             {"gate_up", 28672, 4096, true},
                             kDown,
                             {"head", 128256, 4096, false}};

const std::vector<Weight>& weights(const Shape& shape, Numerics numerics) {
  static std::map<std::pair<std::string, Numerics>, std::vector<Weight>> kept;
  std::vector<Weight>& all = kept[{shape.name, numerics}];
  if (!all.empty()) return all;
  const std::vector<uint16_t> values(size_t(shape.n) * size_t(shape.k), 0x3c00);  // 0.0078 in bfloat16
  const HostWeight whole{values.data(), DType::bf16, shape.n, shape.k, shape.k};
  HostWeight half = whole;
  half.rows /= 2;
  const HostWeight parts[] = {half, half};
  const size_t bytes = values.size() * sizeof(values[0]);
  for (size_t i = 0; i < 1 + kMoreThanCaches / bytes; ++i)
    all.push_back(shape.glu ? backend(numerics).pack(parts, {.pair_panels = true})
                            : backend(numerics).pack({&whole, 1}, {}));
  return all;
}

/// Rows as a norm leaves them: gates of zeros would take the path of numbers that are seldom met.
MatView rows_of_values(int m, int cols) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(size_t(m) * size_t(cols));
  for (float& value : values) value = normal(random);
  const MatView x = rows(m, cols, "x");
  backend().upload(x.data, values.data(), values.size() * sizeof(float));
  return x;
}

void gemm(benchmark::State& state, const Shape& shape, int m, Numerics numerics) {
  const std::vector<Weight>& w = weights(shape, numerics);
  const MatView x = rows_of_values(m, shape.k), y = rows(m, shape.glu ? shape.n / 2 : shape.n, "y");
  const PackedWeight* const reader = shape.glu ? weights(kDown, numerics).front().get() : nullptr;
  size_t calls = 0;
  Backend& device = backend(numerics);
  const double seconds = time_calls(
      state,
      [&] { device.gemm({.x = x, .w = w[calls++ % w.size()].get(), .y = y, .glu = shape.glu, .reader = reader}); },
      numerics);
  const double bytes = 2.0 * shape.n * shape.k, flops = 2.0 * m * shape.n * shape.k;
  state.counters["GB/s"] = bytes / seconds * 1e-9;
  state.counters["of_read"] = bytes / seconds / read_rate();
  state.counters["TFLOP/s"] = flops / seconds * 1e-12;

  CublasProduct yardstick(m, shape.n, shape.k, stream());
  std::vector<void*> plain;
  const size_t plain_bytes = size_t(shape.n) * size_t(shape.k) * 2;
  for (size_t i = 0; i < w.size(); ++i) plain.push_back(backend().alloc(plain_bytes));
  size_t at = 0;
  const auto other = [&] { yardstick.run(plain[at++ % plain.size()]); };
  device_seconds(stream(), 8, other);
  state.counters["cublas"] = device_seconds(stream(), 64, other) / 64 / seconds;
  for (void* data : plain) backend().free(data);
}

/// q_len new rows behind each context.
void attention(benchmark::State& state, const std::vector<int>& contexts, int q_len) {
  constexpr int kHeads = 32, kKvHeads = 8, kDim = 128, kBlock = 16;
  const int num_seqs = int(contexts.size());
  const auto pages_of = [&](int context) { return (context + q_len + kBlock - 1) / kBlock; };
  int num_pages = 0;
  double positions = 0, pairs = 0;  // read; of a query and a key
  for (const int context : contexts) {
    num_pages += pages_of(context);
    positions += context + q_len;
    pairs += q_len * (context + 0.5 * q_len);
  }
  KvView kv{.dtype = DType::bf16, .block_size = kBlock, .num_kv_heads = kKvHeads, .k_dim = kDim, .v_dim = kDim};
  kv.v = &kv;
  const size_t bytes = kv_block_bytes(kv) / 2 * size_t(num_pages);
  const size_t layers = 1 + kMoreThanCaches / (2 * bytes);
  std::vector<KvView> pages(layers, kv);
  const std::vector<uint16_t> some = some_values(bytes / sizeof(uint16_t));
  for (KvView& layer : pages)
    for (void** data : {&layer.k, &layer.v}) backend().upload(*data = backend().alloc(bytes), some.data(), bytes);
  std::vector<SeqSpan> seqs;
  std::vector<int32_t> kv_len, block;
  for (int s = 0; s < num_seqs; ++s) {
    seqs.push_back({.first_row = s * q_len, .num_rows = q_len, .block_begin = int32_t(block.size())});
    for (int page = 0; page < pages_of(contexts[size_t(s)]); ++page) block.push_back(int32_t(block.size()));
    for (int r = 0; r < q_len; ++r) kv_len.push_back(contexts[size_t(s)] + r + 1);
  }
  const MatView q = rows(num_seqs * q_len, kHeads * kDim, "q");
  const std::vector<float> queries(size_t(q.rows) * size_t(q.cols), 0.5f);
  backend().upload(q.data, queries.data(), queries.size() * sizeof(float));
  const MatView out = rows(num_seqs * q_len, kHeads * kDim, "out");
  size_t calls = 0;
  const double seconds = time_calls(state, [&] {
    backend().attention({.q = q,
                         .out = out,
                         .num_heads = kHeads,
                         .scale = 0.088f,
                         .seqs = seqs,
                         .kv_len = kv_len,
                         .block = block,
                         .kv = pages[calls++ % layers]});
  });
  const double read = 2.0 * positions * kKvHeads * kDim * 2.0;
  state.counters["GB/s"] = read / seconds * 1e-9;
  state.counters["of_read"] = read / seconds / read_rate();
  state.counters["TFLOP/s"] = 4.0 * pairs * kHeads * kDim / seconds * 1e-12;
  for (const KvView& layer : pages) backend().free(layer.k), backend().free(layer.v);
}

void norm(benchmark::State& state, int m) {
  constexpr int kCols = 4096;
  const MatView x = rows(m, kCols, "x"), out = rows(m, kCols, "out"), weight = rows(1, kCols, "weight");
  time_calls(state, [&] { backend().norm({.residual = x, .weight = weight.f32_row(0), .out = out}); });
}

void draw(benchmark::State& state, int m, const DrawParams& params) {
  constexpr int kVocab = 128256;
  const MatView logits = rows(m, kVocab, "logits");
  std::vector<SampleRow> wanted;
  for (int row = 0; row < m; ++row) wanted.push_back({.logits_row = row, .params = params, .origin = row});
  std::vector<int32_t> token(size_t(m), 0);
  time_calls(state,
             [&] { backend().sample({.logits = logits, .vocab_size = kVocab, .rows = wanted, .token = token}); });
}

void register_all() {
  const auto add = [](const std::string& name, auto... args) {
    benchmark::RegisterBenchmark(name.c_str(), args...)->UseManualTime()->Unit(benchmark::kMicrosecond);
  };
  for (const Shape& shape : kShapes)
    for (const int m : {1, 6, 8, 9, 16, 17, 24, 32, 33, 48, 64, 96, 128, 512, 2048})
      add(fmt::format("Gemm/{}/{}", shape.name, m), gemm, shape, m, Numerics::strict);
  for (const Shape& shape : kShapes)
    for (const int m : {65, 128, 256, 512, 1024, 2048})
      add(fmt::format("Fast/{}/{}", shape.name, m), gemm, shape, m, Numerics::fast);
  for (const auto& [name, seqs, context, q_len] : {std::tuple{"decode", 1, 1024, 1},
                                                   {"decode", 16, 4096, 1},
                                                   {"decode", 64, 4096, 1},
                                                   {"decode", 16, 16384, 1},
                                                   {"decode", 1, 4096, 1},
                                                   {"decode", 1, 8192, 1},
                                                   {"decode", 1, 16384, 1},
                                                   {"decode", 1, 32768, 1},
                                                   {"decode", 1, 131064, 1},
                                                   {"decode", 4, 8192, 1},
                                                   {"decode", 8, 4096, 1},
                                                   {"verify", 1, 1024, 6},
                                                   {"verify", 16, 4096, 6},
                                                   {"verify", 16, 4096, 8},
                                                   {"verify", 1, 32768, 6},
                                                   {"verify", 1, 131064, 6},
                                                   {"verify", 8, 4096, 6},
                                                   {"prefill", 1, 0, 512},
                                                   {"prefill", 1, 0, 2048}})
    add(fmt::format("Attention/{}/{}x{}+{}", name, seqs, context, q_len), attention,
        std::vector<int>(size_t(seqs), context), q_len);
  std::vector<int> uneven(15, 1024);
  uneven.push_back(131'064);
  add("Attention/uneven/15x1024,1x131064+1", attention, uneven, 1);
  for (const int m : {1, 6, 64, 2048}) add("Norm/" + std::to_string(m), norm, m);
  for (const int m : {1, 8, 64}) {
    add("Draw/greedy/" + std::to_string(m), draw, m, DrawParams{});
    add("Draw/temperature/" + std::to_string(m), draw, m, DrawParams{.temperature = 0.8f});
    add("Draw/top_k_top_p/" + std::to_string(m), draw, m, DrawParams{.temperature = 0.8f, .top_k = 50, .top_p = 0.95f});
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  return paceline::bench_main("cuda_bench", [&] {
    benchmark::Initialize(&argc, argv);
    paceline::register_all();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  });
}
