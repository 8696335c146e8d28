// Strict numerics: the bits of a row depend on nothing but the row (docs/numerics.md), on the CPU for every instruction
// set and number of threads, on a GPU where there is one.

#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/backend_fixture.h"

namespace paceline::test {
namespace {

std::vector<Isa> isas_here() {
  std::vector<Isa> found;
  for (const Isa isa : kIsas)
    if (kernels_for(isa)) found.push_back(isa);
  return found;
}

std::unique_ptr<Backend> cpu(int threads, Isa isa = best_isa()) {
  return make_backend("cpu", {.threads = threads, .isa = int(isa)});
}

/// One of each kind of device that is here.
std::vector<std::string> devices_here() {
  std::vector<std::string> found = {"cpu"};
  if (num_cuda_devices() > 0) found.push_back("cuda:0");
  return found;
}

/// Computes output rows [first, first + count) of a fixed input as one batch.
using BatchOp = std::function<std::vector<float>(int first, int count)>;

/// Number of rows whose bits in a batch differ from their bits alone.
int rows_that_depend_on_the_batch(const BatchOp& op, int num_rows, int cols, const std::vector<int>& batch_sizes) {
  std::vector<std::vector<float>> alone;
  for (int r = 0; r < num_rows; ++r) alone.push_back(op(r, 1));
  int differ = 0;
  for (const int size : batch_sizes)
    for (int first = 0; first + size <= num_rows; first += size) {
      const std::vector<float> batch = op(first, size);
      for (int r = 0; r < size; ++r)
        differ += std::memcmp(&batch[size_t(r * cols)], alone[size_t(first + r)].data(), size_t(cols) * 4) != 0;
    }
  return differ;
}

std::vector<int> sizes_1_to_64() {
  std::vector<int> sizes(64);
  std::iota(sizes.begin(), sizes.end(), 1);
  return sizes;
}

struct GemmCase {
  DType dtype = DType::bf16;
  int n = 40;
  int k = 77;
  bool glu = false;
  int k_chunks = kStrictChunks;
};

class GemmRunner {
 public:
  GemmRunner(Backend& backend, const GemmCase& c, int num_rows)
      : backend_(backend),
        case_(c),
        x_(random_values(size_t(num_rows * c.k), 5)),
        bias_(backend, random_values(size_t(c.n), 6)) {
    const StoredMatrix a(c.n / 2, c.k, c.dtype, 1), b(c.n / 2, c.k, c.dtype, 2);
    const HostWeight parts[] = {a.host(), b.host()};
    weight_ = backend.pack(parts, {.dtype = c.dtype, .k_chunks = c.k_chunks, .pair_panels = c.glu});
  }
  int cols() const { return case_.glu ? case_.n / 2 : case_.n; }
  std::vector<float> operator()(int first, int count) const {
    const std::vector<float> rows(x_.begin() + first * case_.k, x_.begin() + (first + count) * case_.k);
    GuardedRows in(backend_, count, case_.k, rows), out(backend_, count, cols());
    backend_.gemm({.x = in.view(), .w = weight_.get(), .bias = bias_.data(), .y = out.view(), .glu = case_.glu});
    return out.read();
  }

 private:
  Backend& backend_;
  GemmCase case_;
  std::vector<float> x_;
  DeviceArray bias_;
  Weight weight_;
};

const std::vector<GemmCase> kGemmCases = {GemmCase{}, GemmCase{.n = 608, .k = 1000, .glu = true},
                                          GemmCase{.dtype = DType::f32, .n = 64, .k = 128},
                                          GemmCase{.dtype = DType::f16, .glu = true}};

void check_gemm_rows(Backend& backend, std::vector<int> sizes, const std::vector<GemmCase>& cases = kGemmCases) {
  sizes.push_back(300);
  for (const GemmCase& c : cases) {
    const GemmRunner gemm(backend, c, 300);
    EXPECT_EQ(rows_that_depend_on_the_batch(std::cref(gemm), 300, gemm.cols(), sizes), 0) << backend.describe();
  }
}

TEST(Strict, GemmRowsDoNotDependOnTheBatch) {
  for (const Isa isa : isas_here())
    check_gemm_rows(*cpu(2, isa), isa == Isa::scalar ? std::vector<int>{1, 2, 7, 13} : sizes_1_to_64());
}

TEST(Strict, GemmRowsDoNotDependOnTheBatchOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto gpu = make_backend("cuda:0", {});
  check_gemm_rows(*gpu, {1, 6, 7, 8, 9, 16, 17, 24, 25, 31, 32, 33, 64, 150});
  // whole chunks and tiles, as real models have them, in one block of rows and in several
  check_gemm_rows(*gpu, {32, 129, 160, 256}, {{.n = 256, .k = 1024}, {.n = 416, .k = 2048, .glu = true}});
  // more tiles than 264 teams of warps (528 of half as many) have turns for: two teams share one where rows
  // are few
  check_gemm_rows(
      *gpu, {6, 9, 17, 25, 40, 129},
      {{.n = 6000, .k = 2200}, {.n = 11000, .k = 1024, .glu = true}, {.n = 11000, .k = 1056, .k_chunks = 4}});
}

TEST(Strict, ChainsHaveTheBitsOfTheCpuOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto gpu = make_backend("cuda:0", {});
  const auto here = cpu(2);
  for (const GemmCase& c :
       {GemmCase{.dtype = DType::f32, .n = 200, .k = 300}, GemmCase{.dtype = DType::f16, .glu = true}})
    EXPECT_TRUE(same_bits(GemmRunner(*gpu, c, 29)(0, 29), GemmRunner(*here, c, 29)(0, 29))) << dtype_name(c.dtype);
}

TEST(Strict, TheCheckerSeesAKernelThatDependsOnTheNumberOfRows) {
  const auto backend = cpu(2);
  const GemmCase c{.dtype = DType::f32, .k = 200};
  const GemmRunner whole(*backend, c, 64);
  // the planted kernel: from 8 rows on, K is summed in two halves
  const StoredMatrix a(c.n / 2, c.k, c.dtype, 1), b(c.n / 2, c.k, c.dtype, 2);
  const HostWeight left[] = {a.col_range(0, 100), b.col_range(0, 100)};
  const HostWeight right[] = {a.col_range(100, 100), b.col_range(100, 100)};
  const Weight halves[] = {backend->pack(left, {.dtype = DType::f32}), backend->pack(right, {.dtype = DType::f32})};
  const std::vector<float> x = random_values(size_t(64 * c.k), 5), bias = random_values(size_t(c.n), 6);
  const BatchOp planted = [&](int first, int count) {
    if (count < 8) return whole(first, count);
    std::vector<float> rows(x.begin() + first * c.k, x.begin() + (first + count) * c.k), sum(size_t(count * c.n), 0.0f);
    GuardedRows in(*backend, count, c.k, rows), out(*backend, count, c.n);
    for (int half = 0; half < 2; ++half) {
      backend->gemm({.x = in.view().col_range(100 * half, 100), .w = halves[half].get(), .y = out.view()});
      const std::vector<float> part = out.read();
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += bias[i % size_t(c.n)];
    return sum;
  };
  EXPECT_GT(rows_that_depend_on_the_batch(planted, 64, c.n, {8, 16}), 0);
}

TEST(Strict, GemmBitsAreEqualAcrossThreadsAndInstructionSets) {
  for (const GemmCase& c : {GemmCase{}, GemmCase{.dtype = DType::f32, .n = 512, .k = 300},
                            GemmCase{.dtype = DType::f16, .n = 96, .k = 512, .glu = true}})
    for (const int rows : {1, 6, 29}) {
      const auto first = cpu(1);
      const std::vector<float> want = GemmRunner(*first, c, rows)(0, rows);
      for (const Isa isa : isas_here())
        for (const int threads : {1, 2, 3}) {
          const auto backend = cpu(threads, isa);
          EXPECT_TRUE(same_bits(GemmRunner(*backend, c, rows)(0, rows), want))
              << isa_name(isa) << " threads " << threads;
        }
    }
}

TEST(Strict, SubnormalNumbersAreZerosForBfloatOnEveryInstructionSet) {
  const int n = 32, k = 64, rows = 5;
  StoredMatrix w(n, k, DType::bf16, 1);
  std::vector<float> x = random_values(size_t(rows * k), 2);
  // weights, rows and products on both sides of 2^-126
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j) w.set(i, j, std::ldexp(w.value[size_t(i * k + j)], (i * k + j) % 140 - 130));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], i / k % 2 ? -126 : -64);
  for (int j = 1; j < k; j += 2) x[size_t(j)] = math::bits_float(0x007fffffu);  // as bfloat16 2^-126
  const HostWeight part = w.host();
  std::vector<float> want;
  for (const Isa isa : isas_here()) {
    const auto backend = cpu(1, isa);
    const Weight packed = backend->pack({&part, 1}, {});
    GuardedRows in(*backend, rows, k, x), out(*backend, rows, n);
    backend->gemm({.x = in.view(), .w = packed.get(), .y = out.view()});
    const std::vector<float> got = out.read();
    if (want.empty()) want = got;
    EXPECT_TRUE(same_bits(got, want)) << isa_name(isa);
  }
}

TEST(Strict, ShardSumsAddUpToTheUnshardedBits) {
  for (const std::string& device : devices_here())
    for (const auto& [k, m] : {std::pair{64, 7}, {512, 7}, {8 * 37, 7}, {512, 70}, {8 * 37, 140}}) {
      const auto backend = make_backend(device, {.threads = 2});
      const int n = 48;
      const StoredMatrix w(n, k, DType::bf16, 3);
      const std::vector<float> x = random_values(size_t(m * k), 4);
      GuardedRows in(*backend, m, k, x), out(*backend, m, n);
      const auto run = [&](int begin, int count, int chunks) {
        const HostWeight part = w.col_range(begin, count);
        const Weight packed = backend->pack({&part, 1}, {.k_chunks = chunks});
        backend->gemm({.x = in.view().col_range(begin, count), .w = packed.get(), .y = out.view()});
        return out.read();
      };
      const auto add = [](std::vector<float> a, const std::vector<float>& b) {
        for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
        return a;
      };
      const std::vector<float> whole = run(0, k, 8);
      std::function<std::vector<float>(int, int, int)> tree = [&, k = k](int begin, int count, int shards) {
        if (shards == 1) return run(begin, count, 8 * count / k);
        return add(tree(begin, count / 2, shards / 2), tree(begin + count / 2, count / 2, shards / 2));
      };
      for (const int tp : {2, 4, 8}) EXPECT_TRUE(same_bits(tree(0, k, tp), whole)) << "k " << k << " tp " << tp;
      EXPECT_FALSE(same_bits(add(run(0, k / 2, 8), run(k / 2, k / 2, 8)), whole)) << "chunking has no effect, k " << k;
    }
}

/// All row-wise ops in a row, one batch.
std::vector<float> row_ops(Backend& backend, const std::vector<float>& x, int d, int first, int count) {
  const std::vector<float> rows(x.begin() + first * d, x.begin() + (first + count) * d);
  GuardedRows residual(backend, count, d, rows), out(backend, count, d);
  DeviceArray weight(backend, random_values(size_t(d), 8)), bias(backend, random_values(size_t(d), 9));
  backend.norm({.residual = residual.view(), .delta = residual.view(), .weight = weight.data(), .out = out.view()});
  backend.norm({.kind = NormKind::layer,
                .residual = residual.view(),
                .delta = out.view(),
                .weight = weight.data(),
                .bias = bias.data(),
                .out = out.view()});
  for (const Activation a : {Activation::gelu, Activation::silu, Activation::gelu_tanh})
    backend.activation({.x = out.view(), .activation = a});
  std::vector<double> inv_freq;
  for (int i = 0; i < d / 4; ++i) inv_freq.push_back(std::pow(10000.0, -4.0 * i / d));
  std::vector<int32_t> position;
  for (int r = 0; r < count; ++r) position.push_back((first + r) * 997);
  for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved})
    backend.rope({.x = residual.view(),
                  .num_heads = 2,
                  .head_dim = d / 2,
                  .rotary_dim = d / 4 * 2,
                  .layout = layout,
                  .inv_freq = inv_freq,
                  .position = position});
  for (const bool each : {false, true})
    backend.norm_heads({.kind = each ? NormKind::layer : NormKind::rms,
                        .x = residual.view(),
                        .num_heads = 2,
                        .head_dim = d / 2,
                        .weight = weight.data(),
                        .weight_per_head = each});
  backend.softcap({.x = out.view(), .cap = 1.5f});
  std::vector<float> all;
  const std::vector<float> a = residual.read(), b = out.read();
  for (int r = 0; r < count; ++r) {
    all.insert(all.end(), a.begin() + r * d, a.begin() + (r + 1) * d);
    all.insert(all.end(), b.begin() + r * d, b.begin() + (r + 1) * d);
  }
  return all;
}

TEST(Strict, RowOpsDependOnTheRowOnly) {
  for (const int d : {72, 500}) {
    const std::vector<float> x = random_values(size_t(300 * d), 1, 2.0f);
    const auto first = cpu(1);
    const std::vector<float> want = row_ops(*first, x, d, 0, 300);
    for (const Isa isa : isas_here())
      for (const int threads : {1, 2, 3}) {
        const auto backend = cpu(threads, isa);
        EXPECT_TRUE(same_bits(row_ops(*backend, x, d, 0, 300), want)) << isa_name(isa) << " threads " << threads;
      }
    for (const std::string& device : devices_here()) {
      const auto backend = make_backend(device, {});
      const BatchOp op = [&](int begin, int count) { return row_ops(*backend, x, d, begin, count); };
      EXPECT_EQ(rows_that_depend_on_the_batch(op, 300, 2 * d, {2, 3, 17, 64, 300}), 0) << device;
    }
  }
}

TEST(Strict, NormsOfManyRowsHaveTheBitsOfFew) {
  for (const std::string& device : devices_here()) {
    const auto backend = make_backend(device, {});
    for (const auto& [cols, padding] : {std::pair{60, 4}, {61, 3}, {2176, 4}, {4096, 4}, {4160, 0}})
      for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
        const int rows = 1100;  // more than a device takes side by side, and a rest
        GuardedRows x(*backend, rows, cols, random_values(size_t(rows * cols), 1, 2.0f), padding);
        GuardedRows together(*backend, rows, cols, padding), apart(*backend, rows, cols, padding);
        const DeviceArray weight(*backend, random_values(size_t(cols), 2)),
            bias(*backend, random_values(size_t(cols), 3));
        const auto norm = [&](int first, int count, const GuardedRows& out) {
          backend->norm({.kind = kind,
                         .residual = x.view().row_range(first, count),
                         .weight = weight.data(),
                         .bias = kind == NormKind::layer ? bias.data() : nullptr,
                         .out = out.view().row_range(first, count)});
        };
        norm(0, rows, together);
        for (int first = 0; first < rows; first += 100) norm(first, 100, apart);
        EXPECT_TRUE(same_bits(together.read(), apart.read())) << device << " cols " << cols << " " << int(kind);
      }
  }
}

/// One sequence of `len` tokens, prefilled in pieces; each piece stores its K and V first, as the engine does.
struct AttentionSetup {
  int len = 700;
  int num_heads = 4, num_kv_heads = 2, dim = 32;
  int block_size = 16;
  DType dtype = DType::f32;
  int window = 0;
  uint32_t placement = 0;        // seed of the page order
  std::vector<int> pieces = {};  // empty: the whole at once
  int neighbours = 0;            // copies of the rows as further sequences in the same batch
  int loud_from = INT32_MAX;  // position from which on values are near the largest number, the first of them infinite
  float q_scale = 2.0f;
};

std::vector<float> prefill(Backend& backend, const AttentionSetup& s) {
  const int num_blocks = (s.len + s.block_size - 1) / s.block_size + 5;
  PagedKv kv(backend, num_blocks, s.block_size, s.num_kv_heads, s.dim, s.dim, s.dtype);
  std::vector<int32_t> block(size_t(num_blocks), 0);
  std::iota(block.begin(), block.end(), 0);
  if (s.placement) std::shuffle(block.begin(), block.end(), std::mt19937(s.placement));
  const int q_cols = s.num_heads * s.dim, kv_cols = s.num_kv_heads * s.dim;
  const std::vector<float> q = random_values(size_t(s.len * q_cols), 1, s.q_scale),
                           k = random_values(size_t(s.len * kv_cols), 2);
  std::vector<float> v = random_values(size_t(s.len * kv_cols), 3);
  for (int p = s.loud_from; p < s.len; ++p)
    for (int d = 0; d < kv_cols; ++d) v[size_t(p * kv_cols + d)] = p == s.loud_from && d % 7 == 0 ? INFINITY : 1e38f;
  std::vector<float> result;
  int done = 0;
  for (size_t piece = 0; done < s.len; ++piece) {
    const int count = piece < s.pieces.size() ? std::min(s.pieces[piece], s.len - done) : s.len - done;
    const auto rows = [&](const std::vector<float>& from, int cols) {
      return std::vector<float>(from.begin() + done * cols, from.begin() + (done + count) * cols);
    };
    GuardedRows k_rows(backend, count, kv_cols, rows(k, kv_cols)), v_rows(backend, count, kv_cols, rows(v, kv_cols));
    std::vector<int32_t> slot, kv_len;
    for (int p = done; p < done + count; ++p)
      slot.push_back(block[size_t(p / s.block_size)] * s.block_size + p % s.block_size);
    backend.store_kv({.k = k_rows.view(), .v = v_rows.view(), .slot = slot, .kv = kv.view()});
    std::vector<SeqSpan> seqs;
    std::vector<float> all_q;
    for (int copy = 0; copy <= s.neighbours; ++copy) {
      seqs.push_back({.first_row = copy * count, .num_rows = count, .block_begin = 0});
      const std::vector<float> piece_q = rows(q, q_cols);
      all_q.insert(all_q.end(), piece_q.begin(), piece_q.end());
      for (int r = 0; r < count; ++r) kv_len.push_back(done + r + 1);
    }
    GuardedRows q_rows(backend, int(kv_len.size()), q_cols, all_q), out(backend, int(kv_len.size()), q_cols);
    backend.attention({.q = q_rows.view(),
                       .out = out.view(),
                       .num_heads = s.num_heads,
                       .scale = 0.17f,
                       .window = s.window,
                       .seqs = seqs,
                       .kv_len = kv_len,
                       .block = block,
                       .kv = kv.view()});
    const std::vector<float> got = out.read();
    result.insert(result.end(), got.begin(), got.begin() + count * q_cols);
    for (int copy = 1; copy <= s.neighbours; ++copy)
      EXPECT_EQ(std::memcmp(got.data(), got.data() + copy * count * q_cols, size_t(count * q_cols) * 4), 0);
    done += count;
  }
  return result;
}

TEST(Strict, AttentionRowsDependOnTheirKeysOnly) {
  for (const std::string& device : devices_here())
    for (const int window : {0, 100})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const auto one = make_backend(device, {});
        const AttentionSetup base{.dtype = dtype, .window = window};
        const std::vector<float> want = prefill(*one, base);
        const auto check = [&](Backend& backend, AttentionSetup setup, const std::string& what) {
          setup.dtype = dtype;
          setup.window = window;
          EXPECT_TRUE(same_bits(prefill(backend, setup), want))
              << device << " " << what << " window " << window << " " << dtype_name(dtype);
        };
        check(*one, {.placement = 7}, "page placement");
        check(*one, {.block_size = 48, .placement = 8}, "block size");
        check(*one, {.pieces = {1, 2, 3, 5, 7, 250, 1, 64, 100, 1}}, "chunked prefill");
        check(*one, {.pieces = std::vector<int>(700, 1)}, "token by token");
        check(*one, {.neighbours = 2}, "neighbours");
        if (device != "cpu") continue;
        for (const Isa isa : isas_here())
          for (const int threads : {1, 2, 3}) {
            const auto backend = cpu(threads, isa);
            check(*backend, {.placement = 3, .pieces = {600, 1, 6, 13}},
                  isa_name(isa) + " threads " + std::to_string(threads));
          }
      }
}

// A block a chunk, and blocks of whole lines.
TEST(Strict, AttentionHasTheSameBitsInEveryShapeOfBlocksOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto gpu = make_backend("cuda:0", {});
  for (const int dim : {32, 64, 96, 128})
    for (const int window : {0, 300}) {
      AttentionSetup setup{.len = 1200, .num_heads = 8, .dim = dim, .dtype = DType::bf16, .window = window};
      const std::vector<float> whole = prefill(*gpu, setup);
      setup.pieces = {500, 6, 17, 440, 1, 1, 1, 6, 6, 46};
      setup.pieces.resize(200, 1);
      EXPECT_TRUE(same_bits(prefill(*gpu, setup), whole)) << "dim " << dim << " window " << window;
      // many sequences of few lines each: blocks that take all their keys, alone on their SMs or not, whose stages are
      // filled again and again
      for (const int neighbours : {55, 80}) {
        setup.len = 940;
        setup.neighbours = neighbours;
        setup.pieces = {300, 1, 1, 6, 8, 1, 3, 480, 5, 2, 8, 8, 8, 1, 1, 8, 6, 17, 1, 1};
        setup.pieces.resize(50, 4);
        EXPECT_EQ(std::memcmp(prefill(*gpu, setup).data(), whole.data(), size_t(setup.len * 8 * dim) * 4), 0)
            << neighbours << " neighbours, dim " << dim << " window " << window;
      }
    }
}

// Weights of unseen keys are zeros: what those keys hold must not move a bit of the rows before them.
TEST(Strict, UnseenValuesDoNotMatter) {
  for (const std::string& device : devices_here())
    for (const int heads : {4, 64}) {
      const auto backend = make_backend(device, {});
      AttentionSetup setup{.len = 300, .num_heads = heads, .num_kv_heads = heads / 2, .dtype = DType::bf16};
      const std::vector<float> quiet = prefill(*backend, setup);
      setup.loud_from = 250;
      const std::vector<float> loud = prefill(*backend, setup);
      EXPECT_EQ(std::memcmp(quiet.data(), loud.data(), size_t(250 * heads * 32) * 4), 0) << device << " " << heads;
    }
}

// A seen value that is infinite makes the same row alone and among others, even where its weight is too small for a
// number.
TEST(Strict, InfiniteValuesGiveTheSameBitsInEveryBatch) {
  for (const std::string& device : devices_here()) {
    const auto backend = make_backend(device, {});
    AttentionSetup setup{.len = 150, .dtype = DType::bf16, .loud_from = 100, .q_scale = 2000.0f};
    const std::vector<float> whole = prefill(*backend, setup);
    setup.pieces = std::vector<int>(150, 1);
    const std::vector<float> alone = prefill(*backend, setup);
    int infinite = 0, none = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      infinite += std::isinf(whole[i]);
      none += std::isnan(whole[i]);
      if (std::isnan(whole[i]))
        EXPECT_TRUE(std::isnan(alone[i])) << device << " " << i;
      else
        EXPECT_EQ(whole[i], alone[i]) << device << " " << i;
    }
    EXPECT_GT(infinite, 0) << device;
    EXPECT_GT(none, 0) << device;
  }
}

// More chunks than their room holds at once: the backend takes the rows in slices.
TEST(Strict, LongAttentionInSlicesOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto gpu = make_backend("cuda:0", {});
  for (const DType dtype : {DType::bf16, DType::f32}) {  // whole lines, and slices of chunks
    AttentionSetup setup{.len = 6000, .num_heads = 16, .num_kv_heads = 4, .dim = 64, .dtype = dtype};
    const std::vector<float> whole = prefill(*gpu, setup);
    setup.pieces = std::vector<int>(60, 100);
    EXPECT_TRUE(same_bits(prefill(*gpu, setup), whole)) << dtype_name(dtype);
  }
  // too few tiles to fill the device, too many chunks for one slice
  AttentionSetup setup{.len = 9000, .num_heads = 32, .num_kv_heads = 2, .dim = 128, .dtype = DType::bf16};
  setup.pieces = {8800, 200};
  const std::vector<float> sliced = prefill(*gpu, setup);
  setup.pieces = {8800, 40, 40, 40, 40, 40};
  EXPECT_TRUE(same_bits(prefill(*gpu, setup), sliced));
}

TEST(Strict, TheAttentionCheckSeesAChangedKey) {
  const auto one = cpu(1);
  const std::vector<float> a = prefill(*one, {.len = 300}), b = prefill(*one, {.len = 300, .window = 299});
  EXPECT_FALSE(same_bits(a, b)) << "dropping one key of the last row must change its bits";
  EXPECT_EQ(std::memcmp(a.data(), b.data(), size_t(299 * 4 * 32) * 4), 0);
}

}  // namespace
}  // namespace paceline::test
