#include "experiments/run/plan/ceilings.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "kernels/cpu/cpu_weight.h"

namespace paceline {
namespace {

constexpr int32_t kPartRows = 1024;

/// Memory of a backend.
class Buffer {
 public:
  Buffer(Backend& backend, size_t bytes) : backend_(backend), data_(backend.alloc(bytes)) {}
  ~Buffer() { backend_.free(data_); }
  Buffer(const Buffer&) = delete;
  float* floats() const { return static_cast<float*>(data_); }

 private:
  Backend& backend_;
  void* data_;
};

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
  const Buffer x(backend, square * sizeof(float)), y(backend, square * sizeof(float));
  for (size_t at = 0; at < square; at += part_values)
    backend.upload(x.floats() + at, values.data(), part_values * sizeof(float));
  const GemmArgs product{
      .x = f32_view(x.floats(), size, size), .w = weight.get(), .y = f32_view(y.floats(), size, size)};
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

}  // namespace paceline
