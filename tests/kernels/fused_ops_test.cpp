// Ops that a device may run as one: the bits are those of the parts.

#include "tests/kernels/backend_ops.h"
#include "tests/kernels/paged_batch.h"

namespace paceline::test {
namespace {

class FusedOps : public BackendOps {};

TEST_P(FusedOps, NormGemmHasTheBitsOfNormThenGemm) {
  struct Case {
    DType dtype;
    int k, padding;
    int n = 48;
    bool glu = false;
  };
  // rows that GPUs read in fours and write straight into the product's operand, or norm within it, and others
  std::vector<Case> cases = {{DType::f32, 101, 3},
                             {DType::bf16, 101, 3},
                             {DType::f32, 256, 4},
                             {DType::bf16, 256, 4},
                             {.dtype = DType::bf16, .k = 256, .padding = 4, .n = 96, .glu = true},
                             {DType::bf16, 2176, 4},
                             {DType::bf16, 4096, 4},
                             {DType::bf16, 4224, 3},
                             {DType::bf16, 8320, 4}};
  if (GetParam().device !=
      "cpu") {  // more tiles than 264 teams of warps have turns for, in stages of which one is short
    cases.push_back({DType::bf16, 1152, 4, 4500});
    cases.push_back({.dtype = DType::bf16, .k = 640, .padding = 4, .n = 8900, .glu = true});
  }
  for (const auto& [dtype, k, padding, n, glu] : cases) {
    const DeviceArray weight(backend(), random_values(size_t(k), 8)), bias(backend(), random_values(size_t(k), 9));
    const StoredMatrix gates(n / 2, k, dtype, 1), ups(n / 2, k, dtype, 4);
    const HostWeight parts[] = {gates.host(), ups.host()};
    const Weight packed = backend().pack(parts, {.dtype = dtype, .pair_panels = glu});
    for (const NormKind kind : {NormKind::rms, NormKind::layer})
      for (const bool with_delta : {false, true})
        for (const int m :
             k <= 256 ? std::vector<int>{0, 1, 2, 6, 13, 40, 70, 1100} : std::vector<int>{1, 2, 9, 1100}) {
          if (m > 1000 && (with_delta || (k != 256 && k != 4096))) continue;  // many rows, that nothing is added to
          std::vector<float> got[2][2];
          for (const bool fused : {false, true}) {
            GuardedRows residual(backend(), m, k, random_values(size_t(m * k), 2, 3.0f), padding);
            GuardedRows delta(backend(), m, k, random_values(size_t(m * k), 3), padding);
            GuardedRows normed(backend(), m, k, padding);
            GuardedRows out(backend(), m, glu ? n / 2 : n);
            const NormArgs norm{.kind = kind,
                                .residual = residual.view(),
                                .delta = with_delta ? delta.view() : MatView{},
                                .weight = weight.data(),
                                .bias = kind == NormKind::layer ? bias.data() : nullptr,
                                .out = normed.view()};
            const GemmArgs gemm{.x = normed.view(), .w = packed.get(), .y = out.view(), .glu = glu};
            if (fused) {
              backend().norm_gemm(norm, gemm);
            } else {
              backend().norm(norm);
              backend().gemm(gemm);
            }
            got[fused][0] = out.read();
            got[fused][1] = residual.read();
            normed.read();
          }
          EXPECT_TRUE(same_bits(got[0][0], got[1][0]))
              << dtype_name(dtype) << " k " << k << " delta " << with_delta << " m " << m;
          EXPECT_TRUE(same_bits(got[0][1], got[1][1])) << "residual, k " << k << " delta " << with_delta << " m " << m;
        }
  }
}

TEST_P(FusedOps, RopeAttentionHasTheBitsOfItsParts) {
  struct Case {
    int num_heads, num_kv_heads, dim, rotary_dim, block_size;
    std::vector<std::pair<int, int>> cached_and_new;
    int num_unused = 0;  // last rows of the first sequence: padding
    int group = 0, head_offset = 0;
    DType dtype = DType::f32;
    int window = 0;
    int infinite_row = -1;  // whose values are no numbers
  };
  std::vector<Case> cases = {
      {8, 4, 64, 64, 16, {{100, 1}}},
      {8, 4, 64, 64, 16, {{125, 6}, {3, 1}, {31, 2}}},
      {8, 4, 64, 32, 32, {{20, 6}, {0, 4}}, 2},
      {4, 2, 32, 32, 16, {{1500, 2}}},  // few tiles: cut by chunks of keys
      {4, 2, 32, 32, 16, {{0, 70}}},    // many tiles
      {3, 2, 20, 0, 16, {{40, 2}}, 0, 2, 1},
  };
  for (const int dim : {64, 96, 128})  // GPUs take the rows of whole heads of 64 and 128 straight from the product
    for (const int window : {0, 40}) {
      const auto add = [&](std::vector<std::pair<int, int>> cached_and_new, int block_size, Case c = {}) {
        c.num_heads = c.num_heads ? c.num_heads : 8, c.num_kv_heads = 2, c.dim = c.rotary_dim = dim;
        c.block_size = block_size, c.cached_and_new = std::move(cached_and_new);
        c.dtype = DType::bf16, c.window = window;
        cases.push_back(c);
      };
      add({{0, 1}}, 16);
      add({{64, 1}}, 16);
      add({{200, 1}}, 32);
      add({{125, 6}}, 16);  // across chunks, two groups of lines
      add({{120, 6}}, 16, {.infinite_row = 3});
      add({{125, 6}, {3, 1}, {31, 2}}, 16);
      add({{500, 17}}, 16);                      // more lines than a tile has
      add({{3, 70}}, 16);                        // keys that other tiles bring
      add({{3, 65}}, 16, {.infinite_row = 10});  // and a tile of one row, whose window begins among them
      add({{63, 3}, {62, 1}, {0, 5}}, 16, {.infinite_row = 4});
      add({{90, 4}}, 16, {.num_unused = 1});
      add({{100, 2}}, 16, {.num_heads = 3, .group = 2, .head_offset = 1});
      add({{5, 220}}, 16);  // enough for tiles of all keys, of lines that warps share
      if (dim != 96) add({{5, 300}, {0, 400}, {70, 600}}, 16);  // enough for warps that take lines alone
      for (const int num_seqs : {60, 80}) {  // enough for blocks that take all keys, alone on their SMs or not
        std::vector<std::pair<int, int>> seqs;
        for (int i = 0; i < num_seqs; ++i) seqs.push_back({37 * i % 300, 1 + i % 6});
        add(seqs, 16, {.infinite_row = 7});
      }
    }
  for (const Case& c : cases) {
    const int cols = (c.num_heads + 2 * c.num_kv_heads) * c.dim, q_cols = c.num_heads * c.dim;
    const int kv_cols = c.num_kv_heads * c.dim;
    const PagedBatch batch(c.cached_and_new, c.block_size, c.num_unused);
    const std::vector<double> inv_freq = rope_frequencies(c.rotary_dim);
    const int m = batch.num_rows(), num_old = int(batch.old_slot.size());
    std::vector<float> got[2];
    std::vector<char> pages[2];
    for (const bool fused : {false, true}) {
      PagedKv kv(backend(), batch.num_blocks, c.block_size, c.num_kv_heads, c.dim, c.dim, c.dtype);
      GuardedRows old(backend(), num_old, kv_cols, random_values(size_t(num_old * kv_cols), 1));
      backend().store_kv({.k = old.view(), .v = old.view(), .slot = batch.old_slot, .kv = kv.view()});
      std::vector<float> rows = random_values(size_t(m * cols), 2);
      if (c.infinite_row >= 0)
        std::fill_n(rows.end() - (m - c.infinite_row) * cols + q_cols + kv_cols, kv_cols, INFINITY);
      // rows of whole fours: those that GPUs take straight from the product
      GuardedRows qkv(backend(), m, cols, rows, c.dtype == DType::bf16 ? 4 : 3), out(backend(), m, q_cols);
      const RopeArgs rope{.x = qkv.view().col_range(0, q_cols + kv_cols),
                          .num_heads = c.num_heads + c.num_kv_heads,
                          .head_dim = c.dim,
                          .rotary_dim = c.rotary_dim,
                          .inv_freq = inv_freq,
                          .position = batch.position};
      const StoreKvArgs store{.k = qkv.view().col_range(q_cols, kv_cols),
                              .v = qkv.view().col_range(q_cols + kv_cols, kv_cols),
                              .slot = batch.slot,
                              .kv = kv.view()};
      const AttentionArgs attention{.q = qkv.view().col_range(0, q_cols),
                                    .out = out.view(),
                                    .num_heads = c.num_heads,
                                    .group = c.group,
                                    .head_offset = c.head_offset,
                                    .scale = 0.125f,
                                    .window = c.window,
                                    .seqs = batch.seqs,
                                    .kv_len = batch.kv_len,
                                    .block = batch.block,
                                    .kv = kv.view()};
      if (fused) {
        backend().rope_attention(rope, store, attention);
      } else {
        backend().rope(rope);
        backend().store_kv(store);
        backend().attention(attention);
      }
      got[fused] = out.read();
      pages[fused] = kv.bytes();
      qkv.read();
    }
    const std::string what = fmt::format("heads {} of {}, {}, rows {} after {}, window {}", c.num_heads, c.dim,
                                         dtype_name(c.dtype), m, c.cached_and_new[0].first, c.window);
    EXPECT_TRUE(same_bits(got[0], got[1])) << what;
    EXPECT_EQ(pages[0], pages[1]) << what;
  }
}

TEST_P(FusedOps, ReadersGetTheSameBits) {
  const int heads = 4, dim = 32, width = heads * dim;
  const StoredMatrix gate(width, 96, DType::bf16, 1), up(width, 96, DType::bf16, 2), last(40, width, DType::bf16, 3);
  const HostWeight parts[] = {gate.host(), up.host()}, last_part = last.host();
  const Weight gate_up = backend().pack(parts, {.pair_panels = true}), down = backend().pack({&last_part, 1}, {});
  for (const auto& [m, dtype] : {std::pair{1, DType::f32},
                                 {6, DType::f32},
                                 {32, DType::f32},
                                 {33, DType::f32},
                                 {70, DType::f32},
                                 {200, DType::f32},
                                 {6, DType::bf16},
                                 {200, DType::bf16}}) {
    const std::vector<int32_t> block = {2, 0, 1, 3, 4, 12, 6, 7, 11, 9, 10, 8, 5};
    std::vector<int32_t> slot, kv_len;
    for (int p = 0; p < m; ++p) slot.push_back(block[size_t(p / 16)] * 16 + p % 16), kv_len.push_back(p + 1);
    PagedKv kv(backend(), int(block.size()), 16, heads, dim, dim, dtype);
    GuardedRows k(backend(), m, width, random_values(size_t(m * width), 4));
    backend().store_kv({.k = k.view(), .v = k.view(), .slot = slot, .kv = kv.view()});
    const std::vector<SeqSpan> seqs = {{.first_row = 0, .num_rows = m, .block_begin = 0}};
    GuardedRows x(backend(), m, 96, random_values(size_t(m * 96), 5));
    std::vector<float> got[2][2];
    for (const bool with_reader : {false, true}) {
      const PackedWeight* const reader = with_reader ? down.get() : nullptr;
      GuardedRows hidden(backend(), m, width), attended(backend(), m, width), a(backend(), m, 40), b(backend(), m, 40);
      backend().gemm({.x = x.view(), .w = gate_up.get(), .y = hidden.view(), .glu = true, .reader = reader});
      backend().gemm({.x = hidden.view(), .w = down.get(), .y = a.view()});
      backend().attention({.q = k.view(),
                           .out = attended.view(),
                           .num_heads = heads,
                           .scale = 0.2f,
                           .seqs = seqs,
                           .kv_len = kv_len,
                           .block = block,
                           .kv = kv.view(),
                           .reader = reader});
      backend().gemm({.x = attended.view(), .w = down.get(), .y = b.view()});
      got[with_reader][0] = a.read();
      got[with_reader][1] = b.read();
      hidden.read();
      attended.read();
    }
    for (const int op : {0, 1}) EXPECT_TRUE(same_bits(got[0][op], got[1][op])) << "rows " << m << " op " << op;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FusedOps, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace paceline::test
