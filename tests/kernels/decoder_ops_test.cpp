// The ops of decoder layers in a row, as an engine gives them out: a device may begin one before the last has ended,
// and remember passes, with the bits of ops that wait for each other.

#include "tests/kernels/backend_ops.h"
#include "tests/kernels/paged_batch.h"

namespace paceline::test {
namespace {

class DecoderOps : public BackendOps {};

struct DecoderCase {
  const char* name;
  int hidden, heads, kv_heads, dim, intermediate;
  std::vector<std::pair<int, int>> cached_and_new;
  int num_unused = 0;  // last rows of the first sequence: padding
  NormKind norm = NormKind::rms;
  bool has_biases = false;
  RopeLayout layout = RopeLayout::half_split;
  int rotary_dim = -1;  // all
  int window = 0;
};

/// Enough for a GPU's blocks to take all keys of their lines.
std::vector<std::pair<int, int>> many_sequences() {
  std::vector<std::pair<int, int>> seqs;
  for (int i = 0; i < 60; ++i) seqs.push_back({(97 * i + 450) % 500, 1 + i % 3});
  return seqs;
}

const DecoderCase kCases[] = {
    {"one row", 256, 4, 2, 64, 512, {{100, 1}}},
    {"one row of wide heads", 256, 4, 1, 128, 384, {{512, 1}}},
    {"two rows", 256, 4, 2, 64, 512, {{66, 2}}},
    {"first token", 256, 4, 2, 64, 512, {{0, 1}}},
    {"six rows at a chunk's border", 256, 4, 2, 64, 512, {{61, 6}}},
    {"three sequences", 256, 4, 1, 128, 384, {{130, 6}, {3, 1}, {64, 2}}},
    {"seventeen rows of a window", 256, 4, 1, 128, 384, {{200, 17}}, 3, NormKind::rms, false, {}, -1, 50},
    {"biases", 256, 4, 4, 64, 512, {{70, 3}, {1, 2}}, 0, NormKind::layer, true},
    {"wide rows", 2304, 6, 2, 96, 256, {{40, 5}}, 0, NormKind::rms, false, RopeLayout::interleaved, 32},
    {"no rope", 256, 8, 2, 32, 512, {{300, 2}}, 0, NormKind::rms, true, {}, 0},
    {"forty rows", 256, 4, 2, 64, 512, {{20, 40}}},
    {"more pages than a pass remembers", 64, 1, 1, 64, 64, {{132'000, 1}}},
    {"many sequences", 256, 4, 4, 64, 512, many_sequences()},
    {"many sequences of wide heads", 256, 4, 2, 128, 384, many_sequences()},
};

TEST_P(DecoderOps, HaveTheSameBitsInARow) {
  constexpr int kEachAlone = 0, kFirstPass = 2, kRounds = 6;
  const int num_rounds = GetParam().device == "cpu" ? kFirstPass + 1 : kRounds;  // CPUs remember nothing
  constexpr int kLayers = 3, kBlockSize = 16, kVocab = 200;
  for (const DecoderCase& c : kCases) {
    if (GetParam().device == "cpu" && c.cached_and_new[0].first > 10'000) continue;  // takes long for nothing
    const int q_cols = c.heads * c.dim, kv_cols = c.kv_heads * c.dim, qkv_cols = q_cols + 2 * kv_cols;
    const int rotary = c.rotary_dim < 0 ? c.dim : c.rotary_dim;
    const PagedBatch batch(c.cached_and_new, kBlockSize, c.num_unused);
    const std::vector<double> inv_freq = rope_frequencies(rotary);
    const int m = batch.num_rows(), num_old = int(batch.old_slot.size());
    struct Layer {
      Weight qkv, o, gate_up, down;
    };
    std::vector<Layer> layers;
    for (int i = 0; i < kLayers; ++i) {
      const uint32_t seed = uint32_t(10 * i);
      const float scale = 0.05f;
      const StoredMatrix qkv(qkv_cols, c.hidden, DType::bf16, seed + 1, scale),
          o(c.hidden, q_cols, DType::bf16, seed + 2, scale),
          gate(c.intermediate, c.hidden, DType::bf16, seed + 3, scale),
          up(c.intermediate, c.hidden, DType::bf16, seed + 4, scale),
          down(c.hidden, c.intermediate, DType::bf16, seed + 5, scale);
      const HostWeight both[] = {gate.host(), up.host()};
      const auto pack = [&](const StoredMatrix& from) {
        const HostWeight part = from.host();
        return backend().pack({&part, 1}, {});
      };
      layers.push_back({pack(qkv), pack(o), backend().pack(both, {.pair_panels = true}), pack(down)});
    }
    const StoredMatrix head_rows(kVocab, c.hidden, DType::bf16, 99, 0.05f);
    const HostWeight head_part = head_rows.host();
    const Weight head = backend().pack({&head_part, 1}, {});
    const DeviceArray norm_weight(backend(), random_values(size_t(c.hidden), 91)),
        norm_bias(backend(), random_values(size_t(c.hidden), 92)),
        bias(backend(), random_values(size_t(std::max(qkv_cols, 2 * c.intermediate)), 93));
    const float* const any_bias = c.has_biases ? bias.data() : nullptr;

    std::vector<float> got[kRounds][2];
    std::vector<std::vector<char>> pages[kRounds];
    for (int round = 0; round < num_rounds; ++round) {
      const auto end_op = [&] {
        if (round == kEachAlone) backend().sync();
      };
      const GuardedRows elsewhere(backend(), 1, 64 * 1024 * (round + 1));  // so that not all lies where it lay before
      std::vector<std::unique_ptr<PagedKv>> kv;
      GuardedRows old(backend(), num_old, kv_cols, random_values(size_t(num_old * kv_cols), 1));
      for (int i = 0; i < kLayers; ++i) {
        kv.push_back(
            std::make_unique<PagedKv>(backend(), batch.num_blocks, kBlockSize, c.kv_heads, c.dim, c.dim, DType::bf16));
        backend().store_kv({.k = old.view(), .v = old.view(), .slot = batch.old_slot, .kv = kv.back()->view()});
      }
      GuardedRows residual(backend(), m, c.hidden, random_values(size_t(m * c.hidden), 2), 4),
          normed(backend(), m, c.hidden, 4), qkv(backend(), m, qkv_cols, 4), attended(backend(), m, q_cols, 4),
          hidden(backend(), m, c.intermediate, 4), logits(backend(), m, kVocab);
      const NormArgs norm{.kind = c.norm,
                          .residual = residual.view(),
                          .weight = norm_weight.data(),
                          .bias = c.norm == NormKind::layer ? norm_bias.data() : nullptr,
                          .out = normed.view()};
      const auto give_out = [&] {
        for (int i = 0; i < kLayers; ++i) {
          const Layer& layer = layers[size_t(i)];
          backend().norm_gemm(
              norm,
              {.x = normed.view(), .w = layer.qkv.get(), .bias = any_bias, .y = qkv.view(), .attention_follows = true});
          end_op();
          backend().rope_attention({.x = qkv.view().col_range(0, q_cols + kv_cols),
                                    .num_heads = c.heads + c.kv_heads,
                                    .head_dim = c.dim,
                                    .rotary_dim = rotary,
                                    .layout = c.layout,
                                    .inv_freq = inv_freq,
                                    .position = batch.position},
                                   {.k = qkv.view().col_range(q_cols, kv_cols),
                                    .v = qkv.view().col_range(q_cols + kv_cols, kv_cols),
                                    .slot = batch.slot,
                                    .kv = kv[size_t(i)]->view()},
                                   {.q = qkv.view().col_range(0, q_cols),
                                    .out = attended.view(),
                                    .num_heads = c.heads,
                                    .scale = 0.125f,
                                    .window = c.window,
                                    .seqs = batch.seqs,
                                    .kv_len = batch.kv_len,
                                    .block = batch.block,
                                    .kv = kv[size_t(i)]->view(),
                                    .reader = layer.o.get()});
          end_op();
          backend().gemm(
              {.x = attended.view(), .w = layer.o.get(), .bias = any_bias, .y = residual.view(), .add = true});
          end_op();
          backend().norm_gemm(norm, {.x = normed.view(),
                                     .w = layer.gate_up.get(),
                                     .bias = any_bias,
                                     .y = hidden.view(),
                                     .glu = true,
                                     .reader = layer.down.get()});
          end_op();
          backend().gemm(
              {.x = hidden.view(), .w = layer.down.get(), .bias = any_bias, .y = residual.view(), .add = true});
          end_op();
        }
        backend().norm_gemm(norm, {.x = normed.view(), .w = head.get(), .y = logits.view()});
      };
      // cases of as many rows share a key: other sequences, lengths and weights, some other kernels
      round < kFirstPass ? give_out() : backend().run(uint64_t(m), give_out);
      got[round][0] = logits.read();
      got[round][1] = residual.read();
      for (const auto& layer : kv) pages[round].push_back(layer->bytes());
      normed.read(), qkv.read(), attended.read(), hidden.read();
    }
    for (int round = 1; round < num_rounds; ++round) {
      EXPECT_TRUE(same_bits(got[0][0], got[round][0])) << c.name << ", round " << round << ": logits";
      EXPECT_TRUE(same_bits(got[0][1], got[round][1])) << c.name << ", round " << round << ": residual";
      EXPECT_TRUE(pages[0] == pages[round]) << c.name << ", round " << round << ": pages";
    }
    for (const float x : got[0][0])
      if (!std::isfinite(x)) {
        ADD_FAILURE() << c.name << ": logit " << x;
        break;
      }
  }
}

// As many tiles as queries, keys and values of an 8B model have: more than a GPU's teams of warps, fewer than two
// turns.
TEST_P(DecoderOps, RoomForAttentionLeavesTheBits) {
  constexpr int kInputs = 128, kOutputs = 6144, kMostRows = 24;
  const StoredMatrix w(kOutputs, kInputs, DType::bf16, 1);
  const HostWeight part = w.host();
  const Weight packed = backend().pack({&part, 1}, {});
  GuardedRows x(backend(), kMostRows, kInputs, random_values(kMostRows * kInputs, 2));
  const auto product_of = [&](int first, int rows, bool attention_follows) {
    GuardedRows y(backend(), rows, kOutputs);
    backend().gemm({.x = x.view().row_range(first, rows),
                    .w = packed.get(),
                    .y = y.view(),
                    .attention_follows = attention_follows});
    return y.read();
  };
  std::vector<float> alone;  // row by row
  for (int row = 0; row < kMostRows; ++row) {
    const std::vector<float> y = product_of(row, 1, false);
    alone.insert(alone.end(), y.begin(), y.end());
  }
  for (const int rows : {1, 3, 6, 8, 9, 16, 17, kMostRows})
    for (const bool attention_follows : {false, true})
      EXPECT_EQ(product_of(0, rows, attention_follows),
                std::vector<float>(alone.begin(), alone.begin() + rows * kOutputs))
          << rows << " rows, " << attention_follows;
}

INSTANTIATE_TEST_SUITE_P(Devices, DecoderOps, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace paceline::test
