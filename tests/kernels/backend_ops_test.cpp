// Every op of every backend but products against a float64 reference, on odd, prime, one-row and no-row shapes.

#include "tests/kernels/backend_ops.h"

#include <algorithm>

#include "tests/kernels/paged_batch.h"

namespace paceline::test {
namespace {

TEST_P(BackendOps, NormMatchesFloat64) {
  for (const NormKind kind : {NormKind::rms, NormKind::layer})
    for (const auto& [d, padding] :
         std::vector<std::pair<int, int>>{{1, 3}, {3, 3}, {16, 3}, {61, 3}, {512, 3}, {16, 4}, {512, 4}, {2052, 4}})
      for (const int m : {0, 1, 7})
        for (const int with : {0, 1, 3}) {  // 1: delta; 2: delta bias; norm bias with both
          const std::vector<float> x = random_values(size_t(m * d), 1, 3.0f), delta = random_values(size_t(m * d), 2),
                                   delta_bias = random_values(size_t(d), 3), weight = random_values(size_t(d), 4),
                                   bias = random_values(size_t(d), 5);
          DeviceArray db(backend(), delta_bias), wb(backend(), weight), bb(backend(), bias);
          GuardedRows residual(backend(), m, d, x, padding), add(backend(), m, d, delta, padding);
          GuardedRows out(backend(), m, d, padding);
          NormArgs args{
              .kind = kind, .residual = residual.view(), .weight = wb.data(), .eps = 1e-5f, .out = out.view()};
          if (with & 1) args.delta = add.view();
          if (with & 2) args.delta_bias = db.data();
          if (with & 2) args.bias = bb.data();
          backend().norm(args);
          std::vector<double> want, sum_want;
          for (int r = 0; r < m; ++r) {
            std::vector<double> row;
            double mean = 0, square = 0;
            for (int c = 0; c < d; ++c) {
              double v = x[size_t(r * d + c)];
              if (with & 1) v += double(delta[size_t(r * d + c)]) + (with & 2 ? delta_bias[size_t(c)] : 0.0f);
              row.push_back(v);
              sum_want.push_back(v);
              mean += v / d;
            }
            if (kind == NormKind::rms) mean = 0;
            for (const double v : row) square += (v - mean) * (v - mean) / d;
            for (int c = 0; c < d; ++c)
              want.push_back((row[size_t(c)] - mean) / std::sqrt(square + 1e-5) * weight[size_t(c)] +
                             (with & 2 ? bias[size_t(c)] : 0.0f));
          }
          // one column: layer norm is 0 / sqrt(eps), nothing to compare against
          if (kind == NormKind::rms || d > 1) {
            EXPECT_LE(nmse(out.read(), want), tolerance_) << int(kind) << " d " << d << " m " << m << " with " << with;
          }
          EXPECT_LE(nmse(residual.read(), sum_want), tolerance_);
        }
}

TEST_P(BackendOps, NormWithoutOutOnlyAdds) {
  GuardedRows residual(backend(), 1, 5, {1, 2, 3, 4, 5}), delta(backend(), 1, 5, {1, 1, 1, 1, 1});
  backend().norm({.residual = residual.view(), .delta = delta.view()});
  EXPECT_EQ(residual.read(), (std::vector<float>{2, 3, 4, 5, 6}));
}

TEST_P(BackendOps, GatherRowsCopiesThem) {
  const int d = 37;
  const std::vector<float> values = random_values(5 * d, 1);
  const std::vector<int32_t> row = {4, 0, 0, 3};
  GuardedRows from(backend(), 5, d, values), to(backend(), 4, d);
  backend().gather_rows({.from = from.view(), .row = row, .to = to.view()});
  const std::vector<float> got = to.read();
  for (size_t i = 0; i < row.size(); ++i)
    for (size_t c = 0; c < d; ++c) EXPECT_EQ(got[i * d + c], values[size_t(row[i]) * d + c]);
}

TEST_P(BackendOps, EmbedCopiesRowsExactly) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const int d = 21;
    const StoredMatrix table(37, d, dtype, 8);
    const HostWeight part = table.host();
    const Weight packed = backend().pack({&part, 1}, {.dtype = dtype});
    const std::vector<int32_t> token = {100, 136, -1, 99, 137, 118, 100};
    GuardedRows out(backend(), int(token.size()), d);
    backend().embed({.table = packed.get(), .row_begin = 100, .token = token, .out = out.view()});
    const std::vector<float> got = out.read();
    for (size_t r = 0; r < token.size(); ++r)
      for (int c = 0; c < d; ++c) {
        const int at = token[r] - 100;
        const float want = token[r] >= 0 && at >= 0 && at < 37 ? table.value[size_t(at * d + c)] : -0.0f;
        EXPECT_TRUE(same_bits({got[r * d + size_t(c)]}, {want})) << "token " << token[r];
      }
  }
}

TEST_P(BackendOps, RopeMatchesFloat64) {
  for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved})
    for (const auto& [head_dim, rotary_dim] : {std::pair{8, 8}, {64, 64}, {20, 10}, {128, 96}}) {
      const int heads = 3, m = 5, half = rotary_dim / 2, cols = heads * head_dim;
      const std::vector<double> inv_freq = rope_frequencies(rotary_dim);
      const std::vector<int32_t> position = {0, 1, -1, 4097, 131071};
      const std::vector<float> x = random_values(size_t(m * cols), 4);
      GuardedRows rows(backend(), m, cols, x);
      backend().rope({.x = rows.view(),
                      .num_heads = heads,
                      .head_dim = head_dim,
                      .rotary_dim = rotary_dim,
                      .layout = layout,
                      .inv_freq = inv_freq,
                      .attention_factor = 1.25f,
                      .position = position});
      std::vector<double> want(x.begin(), x.end());
      for (int r = 0; r < m; ++r)
        for (int h = 0; h < heads; ++h)
          for (int i = 0; i < half && position[size_t(r)] >= 0; ++i) {
            const double angle = position[size_t(r)] * inv_freq[size_t(i)];
            const size_t base = size_t(r * cols + h * head_dim);
            const size_t a = base + size_t(layout == RopeLayout::interleaved ? 2 * i : i);
            const size_t b = base + size_t(layout == RopeLayout::interleaved ? 2 * i + 1 : i + half);
            want[a] = 1.25 * (x[a] * std::cos(angle) - x[b] * std::sin(angle));
            want[b] = 1.25 * (x[b] * std::cos(angle) + x[a] * std::sin(angle));
          }
      EXPECT_LE(nmse(rows.read(), want), tolerance_) << int(layout) << " " << head_dim;
    }
}

TEST_P(BackendOps, ActivationMatchesFloat64) {
  for (const Activation activation : {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu})
    for (const int cols : {1, 16, 37, 1000}) {
      std::vector<float> x = random_values(size_t(2 * cols), 7, 4.0f);
      x[0] = NAN;
      GuardedRows rows(backend(), 2, cols, x);
      backend().activation({.x = rows.view(), .activation = activation});
      std::vector<float> got = rows.read();
      EXPECT_TRUE(std::isnan(got[0])) << int(activation);
      std::vector<double> want;
      for (const float v : x) want.push_back(reference_activation(activation, v));
      got[0] = 0;
      want[0] = 0;
      EXPECT_LE(nmse(got, want), tolerance_) << int(activation);
      for (size_t i = 1; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 4e-6 * (1 + std::fabs(want[i])));
    }
}

struct AttentionCase {
  int num_heads, num_kv_heads, k_dim, v_dim, block_size;
  DType dtype;
  int window;
  bool shared_v;
  std::vector<std::pair<int, int>> cached_and_new;  // per sequence
  int group = 0, head_offset = 0;
  float softcap = 0.0f;
};

void run_attention_case(Backend& backend, const AttentionCase& c, double tolerance) {
  int num_rows = 0, num_blocks = 1;
  for (const auto& [cached, fresh] : c.cached_and_new) {
    num_rows += fresh;
    num_blocks += (cached + fresh + c.block_size - 1) / c.block_size;
  }
  PagedKv kv(backend, num_blocks, c.block_size, c.num_kv_heads, c.k_dim, c.v_dim, c.dtype, c.shared_v);
  std::vector<SeqSpan> seqs;
  std::vector<int32_t> block, kv_len;
  int next_block = num_blocks - 1;  // block 0 stays unused
  std::vector<double> want;
  std::vector<float> all_q;
  uint32_t seed = 100;
  for (const auto& [cached, fresh] : c.cached_and_new) {
    const int len = cached + fresh;
    seqs.push_back({.first_row = int32_t(kv_len.size()), .num_rows = fresh, .block_begin = int32_t(block.size())});
    for (int i = 0; i < (len + c.block_size - 1) / c.block_size; ++i) block.push_back(next_block--);
    std::vector<float> k = random_values(size_t(len * c.num_kv_heads * c.k_dim), seed++);
    std::vector<float> v = random_values(size_t(len * c.num_kv_heads * c.v_dim), seed++);
    std::vector<int32_t> slot;
    for (int p = 0; p < len; ++p)
      slot.push_back(block[size_t(seqs.back().block_begin + p / c.block_size)] * c.block_size + p % c.block_size);
    GuardedRows k_rows(backend, len, c.num_kv_heads * c.k_dim, k), v_rows(backend, len, c.num_kv_heads * c.v_dim, v);
    backend.store_kv({.k = k_rows.view(), .v = v_rows.view(), .slot = slot, .kv = kv.view()});
    for (float& x : k) x = round_to(c.dtype, x);
    for (float& x : v) x = round_to(c.dtype, x);
    const std::vector<float> q = random_values(size_t(fresh * c.num_heads * c.k_dim), seed++, 2.0f);
    all_q.insert(all_q.end(), q.begin(), q.end());
    for (int r = 0; r < fresh; ++r) {
      const int row_len = cached + r + 1;
      kv_len.push_back(row_len);
      const int begin = c.window > 0 ? std::max(0, row_len - c.window) : 0;
      for (int h = 0; h < c.num_heads; ++h) {
        const int g = c.group ? (h + c.head_offset) / c.group : h * c.num_kv_heads / c.num_heads;
        std::vector<double> score;
        for (int p = begin; p < row_len; ++p) {
          double sum = 0;
          for (int d = 0; d < c.k_dim; ++d)
            sum += double(q[size_t((r * c.num_heads + h) * c.k_dim + d)]) *
                   k[size_t((p * c.num_kv_heads + g) * c.k_dim + d)];
          score.push_back(c.softcap > 0 ? c.softcap * std::tanh(sum * 0.125 / c.softcap) : sum * 0.125);
        }
        const double highest = *std::max_element(score.begin(), score.end());
        double total = 0;
        for (double& s : score) total += s = std::exp(s - highest);
        for (int d = 0; d < c.v_dim; ++d) {
          double o = 0;
          for (int p = begin; p < row_len; ++p)
            o += score[size_t(p - begin)] * (c.shared_v ? k[size_t((p * c.num_kv_heads + g) * c.k_dim + d)]
                                                        : v[size_t((p * c.num_kv_heads + g) * c.v_dim + d)]);
          want.push_back(o / total);
        }
      }
    }
  }
  // one padding row behind the sequences
  kv_len.push_back(0);
  all_q.resize(all_q.size() + size_t(c.num_heads * c.k_dim), 0.5f);
  want.resize(want.size() + size_t(c.num_heads * c.v_dim), 0.0);
  GuardedRows q_rows(backend, num_rows + 1, c.num_heads * c.k_dim, all_q);
  std::vector<float> got[2];
  for (const bool padding_has_a_span : {false, true}) {
    if (padding_has_a_span) seqs.push_back({.first_row = num_rows, .num_rows = 1, .block_begin = 0});
    GuardedRows out(backend, num_rows + 1, c.num_heads * c.v_dim);
    backend.attention({.q = q_rows.view(),
                       .out = out.view(),
                       .num_heads = c.num_heads,
                       .group = c.group,
                       .head_offset = c.head_offset,
                       .scale = 0.125f,
                       .softcap = c.softcap,
                       .window = c.window,
                       .seqs = seqs,
                       .kv_len = kv_len,
                       .block = block,
                       .kv = kv.view()});
    got[padding_has_a_span] = out.read();
    EXPECT_LE(nmse(got[padding_has_a_span], want), tolerance)
        << "heads " << c.num_heads << "/" << c.num_kv_heads << " dims " << c.k_dim << "/" << c.v_dim << " block "
        << c.block_size << " " << dtype_name(c.dtype) << " window " << c.window;
  }
  EXPECT_TRUE(same_bits(got[0], got[1]));  // a GPU takes all keys in one block only where spans cover all rows
}

TEST_P(BackendOps, AttentionMatchesFloat64) {
  const std::vector<AttentionCase> cases = {
      {1, 1, 16, 16, 16, DType::f32, 0, false, {{0, 1}}},
      {4, 2, 64, 64, 16, DType::f32, 0, false, {{0, 5}, {100, 1}, {255, 3}}},
      {4, 2, 64, 64, 32, DType::f32, 0, false, {{700, 6}, {0, 1}, {31, 2}}},
      {6, 2, 20, 12, 16, DType::f32, 0, false, {{19, 7}}},
      {3, 2, 8, 40, 16, DType::f32, 0, false, {{300, 2}}, 2, 0},  // shards that end and begin inside a group
      {3, 2, 8, 40, 16, DType::f32, 0, false, {{300, 2}, {7, 5}}, 2, 1},
      {2, 1, 16, 16, 16, DType::f32, 0, false, {{40, 1}}, 4, 2},
      {8, 1, 32, 32, 16, DType::f32, 50, false, {{0, 70}, {513, 4}, {5, 1}}},
      {2, 2, 64, 64, 16, DType::f32, 256, false, {{600, 13}}},
      {20, 1, 24, 16, 48, DType::f32, 0, true, {{270, 3}, {2, 1}}},
      {4, 2, 64, 64, 16, DType::f16, 0, false, {{300, 3}, {0, 4}}},
      {4, 2, 64, 64, 32, DType::bf16, 40, false, {{300, 3}, {0, 4}}},
      {4, 2, 40, 40, 16, DType::bf16, 0, false, {{300, 3}, {0, 4}}},
      {8, 2, 128, 128, 16, DType::bf16, 0, false, {{700, 1}, {0, 5}, {63, 2}, {130, 40}}},
      {6, 2, 96, 96, 48, DType::bf16, 100, false, {{300, 70}, {0, 1}}},
      // enough lines to take all keys in one block
      {32, 32, 32, 32, 16, DType::bf16, 0, false, {{0, 290}}},
      {32, 8, 128, 128, 16, DType::bf16, 0, false, {{70, 290}, {0, 3}}},
      {32, 16, 96, 96, 48, DType::bf16, 100, false, {{100, 290}}},
      {40, 11, 128, 128, 16, DType::bf16, 0, false, {{5, 250}}, 4, 3},
      {3, 2, 32, 32, 16, DType::bf16, 0, false, {{300, 2}, {7, 5}}, 2, 1},
      {2, 1, 16, 16, 16, DType::f32, 0, false, {{2000, 1}}},
      {4, 4, 16, 16, 16, DType::f32, 0, false, {{0, 290}}},
      {4, 2, 64, 64, 16, DType::f32, 40, false, {{300, 3}, {0, 4}}, 0, 0, 1.5f},
      {32, 8, 256, 256, 16, DType::bf16, 0, false, {{70, 290}, {0, 3}}, 0, 0, 1.5f},
  };
  for (const AttentionCase& c : cases) {
    // tensor cores multiply queries and weights in bfloat16, too
    const bool rounded = GetParam().device != "cpu" && c.dtype == DType::bf16;
    run_attention_case(backend(), c, rounded ? 1e-5 : tolerance_);
  }
}

TEST_P(BackendOps, AttentionPassesNan) {
  const int heads = 2, dim = 32;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool in_values : {false, true}) {
      PagedKv kv(backend(), 3, 16, 1, dim, dim, dtype);
      std::vector<float> k = random_values(20 * dim, 1), v = random_values(20 * dim, 2);
      (in_values ? v : k)[3 * dim + 1] = NAN;
      std::vector<int32_t> slot;
      for (int p = 0; p < 20; ++p) slot.push_back(16 + p);
      GuardedRows k_rows(backend(), 20, dim, k), v_rows(backend(), 20, dim, v);
      backend().store_kv({.k = k_rows.view(), .v = v_rows.view(), .slot = slot, .kv = kv.view()});
      GuardedRows q(backend(), 2, heads * dim, random_values(2 * heads * dim, 3)), out(backend(), 2, heads * dim);
      const std::vector<int32_t> block = {1, 2}, kv_len = {3, 4};
      const std::vector<SeqSpan> seqs = {{.first_row = 0, .num_rows = 2, .block_begin = 0}};
      backend().attention({.q = q.view(),
                           .out = out.view(),
                           .num_heads = heads,
                           .scale = 0.25f,
                           .seqs = seqs,
                           .kv_len = kv_len,
                           .block = block,
                           .kv = kv.view()});
      const std::vector<float> got = out.read();
      for (int i = 0; i < heads * dim; ++i) {
        EXPECT_TRUE(std::isfinite(got[size_t(i)])) << "a key beyond kv_len leaked " << dtype_name(dtype);
        const bool reached = !in_values || i % dim == 1;  // a value's dimension, or all that a key weighs
        EXPECT_EQ(std::isnan(got[size_t(heads * dim + i)]), reached) << dtype_name(dtype) << " " << i;
      }
    }
}

TEST_P(BackendOps, MoveKvEqualsStoringThere) {
  const int kv_heads = 2, dim = 20;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    PagedKv moved(backend(), 4, 16, kv_heads, dim, 24, dtype), stored(backend(), 4, 16, kv_heads, dim, 24, dtype);
    GuardedRows k(backend(), 3, kv_heads * dim, random_values(3 * kv_heads * dim, 1));
    GuardedRows v(backend(), 3, kv_heads * 24, random_values(3 * kv_heads * 24, 2));
    backend().store_kv({.k = k.view(), .v = v.view(), .slot = std::vector<int32_t>{17, -1, 40}, .kv = moved.view()});
    backend().store_kv({.k = k.view(), .v = v.view(), .slot = std::vector<int32_t>{17, -1, 40}, .kv = stored.view()});
    backend().move_kv(moved.view(), std::vector<SlotMove>{{17, 3}, {40, 17}, {3, 3}});
    backend().store_kv({.k = k.view(), .v = v.view(), .slot = std::vector<int32_t>{3, -1, 17}, .kv = stored.view()});
    EXPECT_EQ(moved.bytes(), stored.bytes());
  }
}

TEST_P(BackendOps, SwapsBlocksWithHostMemory) {
  const int num_blocks = 5, block_bytes = 48 * 4;
  std::vector<char> pages(size_t(num_blocks * block_bytes));
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = char(i * 7 + i / 200);
  void* const data = backend().alloc(pages.size());
  void* const host = backend().alloc_host(size_t(3 * block_bytes));
  backend().upload(data, pages.data(), pages.size());
  // one after another: a host block that was read is written again
  backend().swap_blocks(data, host, block_bytes,
                        std::vector<BlockSwap>{{4, 1, true}, {0, 2, true}, {2, 1, false}, {1, 1, true}, {3, 2, false}});
  backend().swap_blocks(data, host, block_bytes, std::vector<BlockSwap>{{4, 1, false}});
  std::vector<char> got(pages.size());
  backend().download(got.data(), data, got.size());
  const int from[] = {0, 1, 4, 0, 1};
  for (int block = 0; block < num_blocks; ++block)
    EXPECT_EQ(std::memcmp(&got[size_t(block * block_bytes)], &pages[size_t(from[block] * block_bytes)], block_bytes), 0)
        << block;
  backend().free(data);
  backend().free_host(host);
}

TEST_P(BackendOps, GreedyTakesTheFirstMaximum) {
  const int vocab = 8193, cols = vocab + 7;
  std::vector<float> logits = random_values(size_t(6 * cols), 3);
  const auto at = [&](int row, int id) -> float& { return logits[size_t(row * cols + id)]; };
  for (int row = 0; row < 6; ++row)
    for (int id = vocab; id < cols; ++id) at(row, id) = 100.0f;  // padding is never drawn
  at(0, 4000) = at(0, 17) = at(0, 8192) = 50.0f;
  at(1, 8192) = 50.0f;
  at(2, 0) = 50.0f;
  at(3, 99) = NAN;
  at(4, 5000) = INFINITY;
  for (int id = 0; id < vocab; ++id) at(5, id) = -INFINITY;
  GuardedRows rows(backend(), 6, cols, logits);
  const std::vector<int32_t> want = {17, 8192, 0, -1, -1, -1};
  std::vector<SampleRow> wanted;
  for (int row = 5; row >= 0; --row) wanted.push_back({.logits_row = row});
  std::vector<int32_t> token(6);
  backend().sample({.logits = rows.view(), .vocab_size = vocab, .rows = wanted, .token = token});
  std::reverse(token.begin(), token.end());
  EXPECT_EQ(token, want);

  const std::vector<int32_t> right = {17, 8192}, wrong = {17, 8191}, before_nan = {8192, 0};
  const std::vector<AcceptRow> windows = {
      {.logits_row = 0, .draft_len = 2, .draft = right.data()},
      {.logits_row = 0, .draft_len = 2, .draft = wrong.data(), .rule = VerifyRule::coupled},
      {.logits_row = 1, .draft_len = 2, .draft = before_nan.data(), .rule = VerifyRule::rejection},
      {.logits_row = 2}};
  std::vector<AcceptResult> result(windows.size());
  backend().accept({.logits = rows.view(), .vocab_size = vocab, .rows = windows, .result = result});
  const std::vector<std::pair<int32_t, int32_t>> verdicts = {{2, 0}, {1, 8192}, {2, -1}, {0, 0}};
  for (size_t i = 0; i < verdicts.size(); ++i) {
    EXPECT_EQ(result[i].num_accepted, verdicts[i].first) << i;
    EXPECT_EQ(result[i].next, verdicts[i].second) << i;
    EXPECT_EQ(result[i].numerical_error, verdicts[i].second < 0) << i;
  }
}

TEST_P(BackendOps, CountsTrafficAndMemory) {
  const size_t before = backend().memory().buffers;
  void* data = backend().alloc(1000);
  EXPECT_GE(backend().memory().buffers, before + 1000);
  std::vector<char> zeros(1000, 1);
  backend().download(zeros.data(), data, 1000);
  EXPECT_EQ(zeros, std::vector<char>(1000, 0));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  backend().free(data);
  EXPECT_EQ(backend().memory().buffers, before);
  {
    const StoredMatrix w(32, 10, DType::bf16, 1);
    const HostWeight part = w.host();
    const Weight packed = backend().pack({&part, 1}, {});
    EXPECT_EQ(backend().memory().weights, packed->bytes);
    GuardedRows in(backend(), 2, 10, random_values(20, 1)), out(backend(), 2, 32);
    const Traffic start = backend().traffic();
    backend().gemm({.x = in.view(), .w = packed.get(), .y = out.view()});
    EXPECT_EQ(backend().traffic().weight_bytes - start.weight_bytes, packed->bytes);
    EXPECT_EQ(backend().traffic().flops - start.flops, uint64_t(2 * 2 * 32 * 10));
  }
  EXPECT_EQ(backend().memory().weights, 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, BackendOps, testing::ValuesIn(kDevices), device_name);

TEST(MakeBackend, NamesWhatIsUnknown) {
  for (const std::string device : {"gpu", "cuda:", "cuda:x", "cuda:1x", ""}) {
    try {
      make_backend(device, {});
      ADD_FAILURE() << device;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::device);
      EXPECT_NE(std::string(error.what()).find("\"" + device + "\""), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace paceline::test
