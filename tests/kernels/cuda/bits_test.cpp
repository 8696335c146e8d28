// Strict products and attention keep their bits from version to version, so recorded token hashes stay true: hashes of
// both against tests/data/cuda/strict_bits.txt. PACELINE_WRITE_BITS=FILE writes that file anew.

#include <cstdlib>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/fnv1a.h"
#include "tests/kernels/backend_fixture.h"
#include "tests/kernels/paged_batch.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

using Hashes = std::map<std::string, std::string>;  // by what was computed

/// Multiples of 2^-14 within ±2, zeros of both signs among them: the same on every machine.
std::vector<float> plain_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const uint32_t bits = uint32_t(random());
    value = float(int32_t(bits >> 16) - 32768) / 16384.0f;
    if (bits % 16 == 0) value = bits & 16 ? -0.0f : 0.0f;
  }
  return values;
}

StoredMatrix plain_matrix(int64_t rows, int64_t cols, DType dtype, uint32_t seed) {
  StoredMatrix matrix(rows, cols, dtype, seed);
  const std::vector<float> values = plain_values(size_t(rows * cols), seed);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) matrix.set(i, j, values[size_t(i * cols + j)]);
  return matrix;
}

std::string hash_of(const std::vector<float>& values) {
  Fnv1a hash;
  hash.add(values.data(), values.size() * sizeof(float));
  return hash.hex();
}

/// Row counts on both sides of each place where another kernel or shape may take over.
constexpr int kRowCounts[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 24, 25, 32, 33, 48, 49, 64, 65, 96, 97, 128, 129, 256, 257};
constexpr int kMostRows = 257;

void hash_products(Backend& backend, DType dtype, int n, int k, Hashes& hashes) {
  const StoredMatrix first = plain_matrix(n / 2, k, dtype, 1), second = plain_matrix(n / 2, k, dtype, 2);
  const HostWeight parts[] = {first.host(), second.host()};
  const DeviceArray bias(backend, plain_values(size_t(n), 3));
  std::vector<float> x = plain_values(size_t(kMostRows) * size_t(k), 4);
  std::vector<float> before = plain_values(size_t(kMostRows) * size_t(n), 5);
  std::fill_n(x.begin() + k, k, -0.0f);  // a row of zeros: sums begin at +0
  std::fill_n(before.begin() + n, n, -0.0f);
  for (const int chunks : {8, 4, 2, 1}) {
    const Weight plain = backend.pack(parts, {.dtype = dtype, .k_chunks = chunks});
    const Weight gated = chunks == kStrictChunks ? backend.pack(parts, {.dtype = dtype, .pair_panels = true}) : nullptr;
    for (const int m : kRowCounts) {
      const GuardedRows in(backend, m, k, {x.begin(), x.begin() + std::ptrdiff_t(m) * k});
      const std::vector<float> start(before.begin(), before.begin() + std::ptrdiff_t(m) * n);
      const auto note = [&](const char* what, GuardedRows& out) {
        hashes[fmt::format("product {} {} x {}, {} chunks, {} rows, {}", dtype_name(dtype), n, k, chunks, m, what)] =
            hash_of(out.read());
      };
      GuardedRows sum(backend, m, n), biased(backend, m, n), added(backend, m, n, start), glu(backend, m, n / 2);
      backend.gemm({.x = in.view(), .w = plain.get(), .y = sum.view()});
      note("plain", sum);
      backend.gemm({.x = in.view(), .w = plain.get(), .bias = bias.data(), .y = biased.view()});
      note("biased", biased);
      backend.gemm({.x = in.view(), .w = plain.get(), .y = added.view(), .add = true});
      note("added", added);
      if (!gated) continue;
      backend.gemm({.x = in.view(), .w = gated.get(), .y = glu.view(), .glu = true});
      note("gated", glu);
    }
  }
}

struct AttentionShape {
  int num_heads, num_kv_heads, dim, block_size, window;
  DType dtype;
};

void hash_attention(Backend& backend, const AttentionShape& shape, const std::string& name,
                    const std::vector<std::pair<int, int>>& cached_and_new, Hashes& hashes) {
  const PagedBatch batch(cached_and_new, shape.block_size, 0);
  const PagedKv kv(backend, batch.num_blocks, shape.block_size, shape.num_kv_heads, shape.dim, shape.dim, shape.dtype);
  std::vector<int32_t> slots = batch.old_slot;
  slots.insert(slots.end(), batch.slot.begin(), batch.slot.end());
  const int kv_cols = shape.num_kv_heads * shape.dim, q_cols = shape.num_heads * shape.dim;
  const GuardedRows k(backend, int(slots.size()), kv_cols, plain_values(slots.size() * size_t(kv_cols), 6));
  const GuardedRows v(backend, int(slots.size()), kv_cols, plain_values(slots.size() * size_t(kv_cols), 7));
  backend.store_kv({.k = k.view(), .v = v.view(), .slot = slots, .kv = kv.view()});
  const size_t rows = size_t(batch.num_rows());
  const GuardedRows q(backend, batch.num_rows(), q_cols, plain_values(rows * size_t(q_cols), 8));
  GuardedRows out(backend, batch.num_rows(), q_cols);
  backend.attention({.q = q.view(),
                     .out = out.view(),
                     .num_heads = shape.num_heads,
                     .scale = 0.0625f,
                     .window = shape.window,
                     .seqs = batch.seqs,
                     .kv_len = batch.kv_len,
                     .block = batch.block,
                     .kv = kv.view()});
  hashes[fmt::format("attention {} {}/{} heads of {}, blocks of {}, window {}, {}", dtype_name(shape.dtype),
                     shape.num_heads, shape.num_kv_heads, shape.dim, shape.block_size, shape.window, name)] =
      hash_of(out.read());
}

Hashes all_hashes(Backend& backend) {
  Hashes hashes;
  hash_products(backend, DType::bf16, 256, 1024, hashes);
  hash_products(backend, DType::bf16, 1056, 2048, hashes);
  hash_products(backend, DType::f16, 256, 1024, hashes);
  hash_products(backend, DType::f32, 96, 512, hashes);
  const std::pair<const char*, std::vector<std::pair<int, int>>> batches[] = {
      {"1 key", {{0, 1}}},
      {"a row behind 63", {{63, 1}}},
      {"a row behind 64", {{64, 1}}},
      {"6 rows behind 253", {{253, 6}}},
      {"a row behind 4,095", {{4095, 1}}},
      {"17 rows behind 1,000", {{1000, 17}}},
      {"a prompt of 300", {{0, 300}}},
      {"200 rows behind 700", {{700, 200}}},
      {"one long and three short", {{3000, 4}, {40, 4}, {64, 1}, {0, 7}}},
      {"16 of 128", std::vector<std::pair<int, int>>(16, {127, 6})},
  };
  const AttentionShape shapes[] = {{32, 8, 128, 16, 0, DType::bf16},  {8, 4, 64, 16, 0, DType::bf16},
                                   {4, 4, 64, 32, 0, DType::bf16},    {8, 1, 128, 16, 0, DType::bf16},
                                   {8, 2, 64, 16, 100, DType::bf16},  {8, 4, 64, 16, 0, DType::f32},
                                   {32, 8, 128, 16, 200, DType::f32}, {8, 2, 80, 16, 0, DType::f16}};
  for (const AttentionShape& shape : shapes)
    for (const auto& [name, cached_and_new] : batches) hash_attention(backend, shape, name, cached_and_new, hashes);
  return hashes;
}

TEST(Strict, BitsAreThoseOfTheRecordOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto backend = make_backend("cuda:0", {});
  const Hashes found = all_hashes(*backend);
  if (const char* const file = std::getenv("PACELINE_WRITE_BITS")) {
    std::ofstream out(file);
    for (const auto& [name, hash] : found) out << hash << ' ' << name << '\n';
  }
  Hashes record;
  std::ifstream in(source_dir() / "tests" / "data" / "cuda" / "strict_bits.txt");
  for (std::string hash, name; in >> hash && std::getline(in >> std::ws, name);) record[name] = hash;
  EXPECT_EQ(record.size(), found.size());
  int num_changed = 0;
  for (const auto& [name, hash] : found)
    if (record[name] != hash && ++num_changed <= 20) ADD_FAILURE() << name << ": " << hash << ", was " << record[name];
  EXPECT_EQ(num_changed, 0);
}

}  // namespace
}  // namespace paceline::test
