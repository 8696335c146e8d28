// Ops that some families and heads alone ask for, against float64: norms of heads, caps, scaled embeddings, rows that
// go to places of their own.

#include <cmath>

#include "tests/kernels/backend_ops.h"

namespace paceline::test {
namespace {

class FamilyOps : public BackendOps {};

TEST_P(FamilyOps, NormHeadsMatchesFloat64) {
  for (const NormKind kind : {NormKind::rms, NormKind::layer})
    for (const bool weight_per_head : {false, true})
      for (const auto& [heads, dim] : {std::pair{1, 8}, {3, 24}, {8, 64}, {5, 128}, {2, 256}})
        for (const int m : {0, 1, 7}) {
          const int d = heads * dim;
          const std::vector<float> x = random_values(size_t(m * d), 1, 3.0f),
                                   weight = random_values(size_t(weight_per_head ? d : dim), 2);
          DeviceArray on_device(backend(), weight);
          GuardedRows rows(backend(), m, d, x, 3);
          backend().norm_heads({.kind = kind,
                                .x = rows.view(),
                                .num_heads = heads,
                                .head_dim = dim,
                                .weight = on_device.data(),
                                .weight_per_head = weight_per_head,
                                .eps = 1e-5f});
          std::vector<double> want;
          for (int head = 0; head < m * heads; ++head) {
            const float* const from = x.data() + size_t(head * dim);
            double mean = 0, square = 0;
            for (int i = 0; i < dim; ++i) mean += double(from[i]) / dim;
            if (kind == NormKind::rms) mean = 0;
            for (int i = 0; i < dim; ++i) square += (from[i] - mean) * (from[i] - mean) / dim;
            for (int i = 0; i < dim; ++i)
              want.push_back((from[i] - mean) / std::sqrt(square + 1e-5) *
                             weight[size_t(weight_per_head ? head % heads * dim + i : i)]);
          }
          EXPECT_LE(nmse(rows.read(), want), tolerance_)
              << int(kind) << " heads " << heads << " of " << dim << " m " << m << " each " << weight_per_head;
        }
}

TEST_P(FamilyOps, SoftcapMatchesFloat64AndStaysWithinTheCap) {
  for (const float cap : {1.5f, 30.0f, 50.0f})
    for (const int cols : {1, 16, 37, 1000}) {
      std::vector<float> x = random_values(size_t(2 * cols), 7, 3.0f * cap);
      x[0] = 1e30f;
      x.back() = -1e30f;
      GuardedRows rows(backend(), 2, cols, x);
      backend().softcap({.x = rows.view(), .cap = cap});
      const std::vector<float> got = rows.read();
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], double(cap) * std::tanh(double(x[i]) / cap), 4e-7 * cap) << x[i] << " cap " << cap;
      EXPECT_EQ(got[0], cap);
      EXPECT_EQ(got.back(), -cap);
    }
}

// More rows than a grid may have blocks in y.
TEST_P(FamilyOps, RowsBeyondTheGridsSecondDimension) {
  constexpr int kRows = 70'000, kCols = 8;
  const std::vector<float> one = random_values(kCols, 5), weight = random_values(kCols, 6);
  DeviceArray on_device(backend(), weight);
  const auto last_row_is_first = [&](const auto& op, const char* name) {
    std::vector<float> x;
    for (int row = 0; row < kRows; ++row) x.insert(x.end(), one.begin(), one.end());
    GuardedRows rows(backend(), kRows, kCols, x);
    op(rows.view());
    const std::vector<float> got = rows.read();
    EXPECT_NE(std::vector<float>(got.begin(), got.begin() + kCols), one) << name;
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + kCols, got.end() - kCols)) << name;
  };
  last_row_is_first([&](MatView x) { backend().activation({.x = x, .activation = Activation::silu}); }, "activation");
  last_row_is_first([&](MatView x) { backend().softcap({.x = x, .cap = 1.5f}); }, "softcap");
  last_row_is_first(
      [&](MatView x) {
        backend().norm_heads({.x = x, .num_heads = 1, .head_dim = kCols, .weight = on_device.data(), .eps = 1e-5f});
      },
      "norm_heads");
}

TEST_P(FamilyOps, EmbedScalesRows) {
  const int d = 21;
  const StoredMatrix table(37, d, DType::bf16, 8);
  const HostWeight part = table.host();
  const Weight packed = backend().pack({&part, 1}, {.dtype = DType::bf16});
  const std::vector<int32_t> token = {0, 36, -1, 5};
  GuardedRows out(backend(), int(token.size()), d);
  backend().embed({.table = packed.get(), .token = token, .scale = 6.5f, .out = out.view()});
  const std::vector<float> got = out.read();
  for (size_t r = 0; r < token.size(); ++r)
    for (size_t c = 0; c < size_t(d); ++c)
      EXPECT_TRUE(same_bits({got[r * size_t(d) + c]},
                            {token[r] < 0 ? -0.0f : table.value[size_t(token[r]) * size_t(d) + c] * 6.5f}))
          << "token " << token[r];
}

TEST_P(FamilyOps, GatheredRowsGoWhereTheyAreSent) {
  const int d = 37;
  const std::vector<float> values = random_values(5 * d, 1), before = random_values(4 * d, 2);
  GuardedRows from(backend(), 5, d, values), to(backend(), 4, d, before);
  const std::vector<int32_t> row = {1, 4, 1}, to_row = {3, 0, 2};
  backend().gather_rows({.from = from.view(), .row = row, .to = to.view(), .to_row = to_row});
  const std::vector<float> got = to.read();
  for (int c = 0; c < d; ++c) {
    EXPECT_EQ(got[size_t(c)], values[size_t(4 * d + c)]);
    EXPECT_EQ(got[size_t(d + c)], before[size_t(d + c)]);
    EXPECT_EQ(got[size_t(2 * d + c)], values[size_t(d + c)]);
    EXPECT_EQ(got[size_t(3 * d + c)], values[size_t(d + c)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FamilyOps, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace paceline::test
