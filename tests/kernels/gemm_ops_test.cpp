// Products of every backend against Eigen's in float64, on odd, prime, one-row and no-row shapes; gated ones, packing,
// and what becomes of numbers that are none.

#include <algorithm>
#include <bit>

#include <Eigen/Dense>

#include "tests/kernels/backend_ops.h"

namespace paceline::test {
namespace {

class GemmOps : public BackendOps {};

TEST_P(GemmOps, MatchesFloat64) {
  struct Shape {
    int m, n, k;
  };
  const Shape shapes[] = {{1, 1, 1},     {1, 16, 7},    {2, 17, 8},    {3, 31, 61},   {5, 48, 64},
                          {7, 101, 97},  {13, 33, 129}, {37, 64, 250}, {1, 8193, 64}, {129, 47, 53},
                          {65, 96, 128}, {128, 67, 72}, {300, 80, 8},  {0, 16, 16},   {4, 16, 2}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Shape& s : shapes) {
      for (const bool with_bias : {false, true}) {
        const StoredMatrix w(s.n, s.k, dtype, uint32_t(s.n + s.k));
        const std::vector<float> x = random_values(size_t(s.m * s.k), 5), bias = random_values(size_t(s.n), 6);
        const HostWeight part = w.host();
        const Weight packed = backend().pack({&part, 1}, {.dtype = dtype});
        GuardedRows in(backend(), s.m, s.k, x), out(backend(), s.m, s.n);
        DeviceArray device_bias(backend(), bias);
        backend().gemm(
            {.x = in.view(), .w = packed.get(), .bias = with_bias ? device_bias.data() : nullptr, .y = out.view()});
        using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
        using RowMajorFloat = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
        std::vector<float> operand(x.size());
        std::transform(x.begin(), x.end(), operand.begin(), [&](float v) { return round_to(gemm_operand(dtype), v); });
        const RowMajor rows = Eigen::Map<const RowMajorFloat>(operand.data(), s.m, s.k).cast<double>();
        RowMajor product = rows * Eigen::Map<const RowMajorFloat>(w.value.data(), s.n, s.k).cast<double>().transpose();
        if (with_bias) product.rowwise() += Eigen::Map<const Eigen::RowVectorXf>(bias.data(), s.n).cast<double>();
        const std::vector<double> want(product.data(), product.data() + product.size());
        EXPECT_LE(nmse(out.read(), want), tolerance_)
            << dtype_name(dtype) << " m " << s.m << " n " << s.n << " k " << s.k << " bias " << with_bias;
        in.read();
      }
    }
  }
}

/// Whatever bits it has, each time anew, and where blocks share the sums of one chunk, two or four.
TEST_P(GemmOps, ANanReachesItsRowAndItsColumnAlone) {
  const int k = 1100, nan_column = 40;
  const std::vector<int> bad_rows = {2, 3}, infinite_columns = {36, 50};
  const auto holds = [](const std::vector<int>& list, int x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  };
  struct Shape {
    int n;
    std::vector<int> m;
  };
  for (const uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7f800001u})
    for (const Shape& shape : {Shape{330, {5, 20, 40, 70, 100, 200}}, Shape{2200, {40}}, Shape{6500, {40}}}) {
      const int n = shape.n;
      const int times = bits == 0xffffffffu ? 2 : 1;
      if (n > 330 && times == 1) continue;
      StoredMatrix w(n, k, DType::bf16, 1);
      w.set(nan_column, 1000, std::bit_cast<float>(bits));
      for (const int column : infinite_columns) w.set(column, 5, INFINITY), w.set(column, k - 5, -INFINITY);
      const HostWeight part = w.host();
      const Weight packed = backend().pack({&part, 1}, {});
      for (const int m : shape.m) {
        std::vector<float> x = random_values(size_t(m * k), 2);
        for (const int row : bad_rows) x[size_t(row * k + 17)] = std::bit_cast<float>(bits);
        GuardedRows in(backend(), m, k, x), out(backend(), m, n);
        for (int time = 0; time < times; ++time) backend().gemm({.x = in.view(), .w = packed.get(), .y = out.view()});
        const std::vector<float> y = out.read();
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < n; ++j) {
            const float value = y[size_t(i * n + j)];
            const bool is_nan = holds(bad_rows, i) || j == nan_column;
            EXPECT_EQ(std::isfinite(value), !is_nan && !holds(infinite_columns, j)) << m << " " << i << " " << j;
            EXPECT_TRUE(!is_nan || std::isnan(value)) << m << " " << i << " " << j;
          }
      }
    }
}

TEST_P(GemmOps, GluMatchesFloat64) {
  for (const Activation activation : {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
    for (const int half : {1, 16, 23, 80}) {
      for (const int m : {1, 5, 14}) {
        const int k = 67;
        const StoredMatrix gate(half, k, DType::f32, 1), up(half, k, DType::f32, 2);
        const HostWeight parts[] = {gate.host(), up.host()};
        const Weight packed = backend().pack(parts, {.dtype = DType::f32, .pair_panels = true});
        EXPECT_EQ(packed->n, 2 * half);
        const std::vector<float> x = random_values(size_t(m * k), 3), bias = random_values(size_t(2 * half), 4);
        DeviceArray device_bias(backend(), bias);
        GuardedRows in(backend(), m, k, x), out(backend(), m, half), plain(backend(), m, 2 * half);
        backend().gemm({.x = in.view(),
                        .w = packed.get(),
                        .bias = device_bias.data(),
                        .y = out.view(),
                        .glu = true,
                        .activation = activation});
        backend().gemm({.x = in.view(), .w = packed.get(), .bias = device_bias.data(), .y = plain.view()});
        std::vector<double> want, want_plain(size_t(m * 2 * half));
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < half; ++j) {
            double g = bias[size_t(j)], u = bias[size_t(half + j)];
            for (int c = 0; c < k; ++c) {
              g += double(x[size_t(i * k + c)]) * gate.value[size_t(j * k + c)];
              u += double(x[size_t(i * k + c)]) * up.value[size_t(j * k + c)];
            }
            want.push_back(reference_activation(activation, g) * u);
            want_plain[size_t(i * 2 * half + j)] = g;
            want_plain[size_t(i * 2 * half + half + j)] = u;
          }
        EXPECT_LE(nmse(out.read(), want), tolerance_) << int(activation) << " half " << half << " m " << m;
        EXPECT_LE(nmse(plain.read(), want_plain), tolerance_);
      }
    }
  }
}

/// Few rows and many, widths that the gate's vectors fit and one that they do not.
TEST_P(GemmOps, GluOfBfloatsMatchesFloat64) {
  const int k = 72;
  for (const Activation activation : {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu})
    for (const auto& [half, m] : {std::pair{40, 7}, {40, 65}, {23, 65}, {72, 300}})
      for (const bool with_bias : {false, true}) {
        const StoredMatrix gate(half, k, DType::bf16, 1), up(half, k, DType::bf16, 2);
        const HostWeight parts[] = {gate.host(), up.host()};
        const Weight packed = backend().pack(parts, {.pair_panels = true});
        const std::vector<float> x = random_values(size_t(m * k), 3);
        const std::vector<float> bias = with_bias ? random_values(size_t(2 * half), 4) : std::vector<float>(2 * half);
        DeviceArray device_bias(backend(), bias);
        GuardedRows in(backend(), m, k, x), out(backend(), m, half), plain(backend(), m, 2 * half);
        GemmArgs args{.x = in.view(), .w = packed.get(), .bias = with_bias ? device_bias.data() : nullptr};
        args.y = plain.view();
        backend().gemm(args);
        args.y = out.view();
        args.glu = true;
        args.activation = activation;
        backend().gemm(args);
        std::vector<double> want, want_plain(size_t(m * 2 * half));
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < half; ++j) {
            double g = bias[size_t(j)], u = bias[size_t(half + j)];
            for (int c = 0; c < k; ++c) {
              const double rounded = round_to(DType::bf16, x[size_t(i * k + c)]);
              g += rounded * gate.value[size_t(j * k + c)];
              u += rounded * up.value[size_t(j * k + c)];
            }
            want.push_back(reference_activation(activation, g) * u);
            want_plain[size_t(i * 2 * half + j)] = g;
            want_plain[size_t(i * 2 * half + half + j)] = u;
          }
        EXPECT_LE(nmse(out.read(), want), gated_tolerance_)
            << int(activation) << " half " << half << " m " << m << " bias " << with_bias;
        EXPECT_LE(nmse(plain.read(), want_plain), tolerance_) << "half " << half << " m " << m << " bias " << with_bias;
      }
}

TEST_P(GemmOps, PackStacksPartsOfOddRowsAndPads) {
  const int k = 19;
  const StoredMatrix a(13, k, DType::f32, 1), b(40, k, DType::bf16, 2), c(3, k, DType::f16, 3);
  const HostWeight parts[] = {a.host(), b.host(), c.host()};
  const Weight packed = backend().pack(parts, {.dtype = DType::f32, .pad_rows_to = 100});
  ASSERT_EQ(packed->n, 100);
  const std::vector<float> x = random_values(k, 9);
  GuardedRows in(backend(), 1, k, x), out(backend(), 1, 100);
  backend().gemm({.x = in.view(), .w = packed.get(), .y = out.view()});
  std::vector<double> want;
  for (const StoredMatrix* part : {&a, &b, &c})
    for (int r = 0; r < part->rows; ++r) {
      double sum = 0;
      for (int i = 0; i < k; ++i) sum += double(x[size_t(i)]) * part->value[size_t(r * k + i)];
      want.push_back(sum);
    }
  want.resize(100, 0.0);
  const std::vector<float> got = out.read();
  EXPECT_LE(nmse(got, want), tolerance_);
  for (size_t i = 56; i < 100; ++i) EXPECT_EQ(got[i], 0.0f);
}

TEST_P(GemmOps, PassesNanAndInf) {
  const int k = 40, n = 20;
  const StoredMatrix w(n, k, DType::bf16, 1);
  std::vector<float> x = random_values(3 * k, 2);
  x[5] = NAN;
  x[k + 7] = INFINITY;
  const HostWeight part = w.host();
  const Weight packed = backend().pack({&part, 1}, {});
  GuardedRows in(backend(), 3, k, x), out(backend(), 3, n);
  backend().gemm({.x = in.view(), .w = packed.get(), .y = out.view()});
  const std::vector<float> got = out.read();
  for (int j = 0; j < n; ++j) {
    EXPECT_TRUE(std::isnan(got[size_t(j)]));
    EXPECT_TRUE(std::isinf(got[size_t(n + j)]));
    EXPECT_TRUE(std::isfinite(got[size_t(2 * n + j)]));
  }
}

TEST_P(GemmOps, AddsToWhatIsThere) {
  const int n = 37, k = 64;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int m : {1, 6, 40, 70, 130}) {
      const StoredMatrix w(n, k, dtype, 1);
      const HostWeight part = w.host();
      const Weight packed = backend().pack({&part, 1}, {.dtype = dtype});
      const std::vector<float> y = random_values(size_t(m * n), 3);
      DeviceArray bias(backend(), random_values(n, 4));
      GuardedRows in(backend(), m, k, random_values(size_t(m * k), 2)), sum(backend(), m, n), out(backend(), m, n, y);
      backend().gemm({.x = in.view(), .w = packed.get(), .bias = bias.data(), .y = sum.view()});
      backend().gemm({.x = in.view(), .w = packed.get(), .bias = bias.data(), .y = out.view(), .add = true});
      std::vector<float> want = sum.read();
      for (size_t i = 0; i < want.size(); ++i) want[i] = y[i] + want[i];
      const std::vector<float> got = out.read();
      if (dtype == DType::bf16 && is_fast(m))  // a library adds bias and y in an order of its own
        EXPECT_LE(nmse(got, {want.begin(), want.end()}), tolerance_) << "m " << m;
      else
        EXPECT_TRUE(same_bits(got, want)) << dtype_name(dtype) << " m " << m;
    }
}

// More groups of rows than a grid may have blocks in y.
TEST_P(GemmOps, RowsBeyondTheGridsSecondDimension) {
  constexpr int kRows = 524'300, kIn = 8, kOut = 16;
  const std::vector<float> one = random_values(kIn, 1);
  std::vector<float> x;
  for (int row = 0; row < kRows; ++row) x.insert(x.end(), one.begin(), one.end());
  const GuardedRows rows(backend(), kRows, kIn, x, 0);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const StoredMatrix weights(kOut, kIn, dtype, 2);
    const HostWeight part = weights.host();
    const Weight w = backend().pack({&part, 1}, {.dtype = dtype});
    GuardedRows y(backend(), kRows, kOut, 0);
    backend().gemm({.x = rows.view(), .w = w.get(), .y = y.view()});
    const std::vector<float> got = y.read();
    EXPECT_TRUE(same_bits({got.begin(), got.begin() + kOut}, {got.end() - kOut, got.end()})) << dtype_name(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, GemmOps, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace paceline::test
