// A row's product has the same bits whatever the number of rows beside it: of 8 and of up to 32 rows, which gemm_bf16
// takes, of up to 128, and of more, which pairs of blocks take (gemm_split). Matrices so large that blocks take whole
// tiles, narrow ones, shares of several chunks, and shares of two tiles.

#include <random>

#include <fmt/format.h>

#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/backend_fixture.h"

namespace paceline::test {
namespace {

constexpr int kFew = 8, kAllRows = 520;
constexpr int kCountsCompared[] = {9,   16,  17,  23,  24,  25,  31,  32,  33,  40,  64,  65,  96,  97,      127,
                                   128, 129, 190, 192, 193, 200, 256, 257, 290, 300, 384, 385, 392, kAllRows};

std::vector<uint16_t> random_bfloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values) value = uint16_t((random() & 0x807fu) | 0x3e80u);  // 0.25 to 0.5, both signs
  return values;
}

struct Case {
  int n, k, chunks;
  bool glu = false, bias = false, add = false;
  bool has_reader = false;  // another product, whose result is what is compared
  Activation activation = Activation::silu;
};

class ComparedProduct {
 public:
  ComparedProduct(Backend& backend, const Case& of) : backend_(backend), of_(of), x_(size_t(kAllRows) * size_t(of.k)) {
    const std::vector<uint16_t> values = random_bfloats(size_t(of.n) * size_t(of.k), 1);
    const HostWeight whole{values.data(), DType::bf16, of.n, of.k, of.k};
    HostWeight halves[] = {whole, whole};
    halves[0].rows = halves[1].rows = of.n / 2;
    halves[1].data = values.data() + size_t(of.n / 2) * size_t(of.k);
    w_ = of.glu ? backend.pack(halves, {.pair_panels = true}) : backend.pack({&whole, 1}, {.k_chunks = of.chunks});
    std::mt19937 random(2);
    for (float& x : x_) x = float(int32_t(random() >> 8) - (1 << 23)) / float(1 << 22);
    const auto scale_row = [&](int row, float by) {
      for (int i = 0; i < of.k; ++i) x_[size_t(row * of.k + i)] *= by;
    };
    scale_row(1, 0.0f), scale_row(2, 1e-30f), scale_row(3, 1e12f);  // gates beside those that are divided together
    bias_.resize(size_t(of.n));
    for (float& b : bias_) b = float(random() % 256) / 256.0f;
    if (!of.has_reader) return;
    const std::vector<uint16_t> of_reader = random_bfloats(size_t(kReaderCols) * size_t(num_cols()), 3);
    const HostWeight reader{of_reader.data(), DType::bf16, kReaderCols, num_cols(), num_cols()};
    reader_ = backend.pack({&reader, 1}, {});
  }
  /// Of rows [first, first + count).
  std::vector<float> multiply(int first, int count) const {
    const int cols = num_cols();
    const auto begin = x_.begin() + std::ptrdiff_t(first) * of_.k;
    const GuardedRows x(backend_, count, of_.k, {begin, begin + std::ptrdiff_t(count) * of_.k});
    GuardedRows y(backend_, count, cols, std::vector<float>(size_t(count) * size_t(cols), 0.75f));
    const DeviceArray bias(backend_, bias_);
    backend_.gemm({.x = x.view(),
                   .w = w_.get(),
                   .bias = of_.bias ? bias.data() : nullptr,
                   .y = y.view(),
                   .add = of_.add,
                   .glu = of_.glu,
                   .activation = of_.activation,
                   .reader = reader_.get()});
    if (!of_.has_reader) return y.read();
    GuardedRows read(backend_, count, kReaderCols);
    backend_.gemm({.x = y.view(), .w = reader_.get(), .y = read.view()});
    return read.read();
  }

 private:
  static constexpr int kReaderCols = 256;
  int num_cols() const { return of_.glu ? of_.n / 2 : of_.n; }

  Backend& backend_;
  const Case of_;
  std::vector<float> x_, bias_;
  Weight w_, reader_;
};

TEST(RowCounts, ChangeNoBitsOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto backend = make_backend("cuda:0", {});
  // on 132 multiprocessors: shares of 2, 3, 4 and 6 chunks, with and without whole tiles, narrow tiles, the last tile
  // short; of up to 32 rows one tile and two at a time for a team
  const Case cases[] = {{.n = 2200, .k = 1000, .chunks = 8, .bias = true},
                        {.n = 6144, .k = 1000, .chunks = 8},
                        {.n = 4500, .k = 520, .chunks = 4, .add = true},
                        {.n = 4100, .k = 2048, .chunks = 2},
                        {.n = 17100, .k = 520, .chunks = 8, .bias = true},
                        {.n = 20000, .k = 200, .chunks = 1},
                        {.n = 40000, .k = 256, .chunks = 8},
                        {.n = 5104, .k = 520, .chunks = 8, .add = true},
                        {.n = 9000, .k = 520, .chunks = 4, .add = true},
                        {.n = 17000, .k = 300, .chunks = 2, .bias = true},
                        {.n = 34000, .k = 200, .chunks = 1},
                        {.n = 28624, .k = 256, .chunks = 8, .add = true},
                        {.n = 28672, .k = 264, .chunks = 8, .glu = true, .has_reader = true},
                        {.n = 28672, .k = 256, .chunks = 8, .glu = true, .bias = true},
                        {.n = 9000, .k = 512, .chunks = 8, .glu = true},
                        {.n = 2080, .k = 512, .chunks = 8, .glu = true, .activation = Activation::gelu},
                        {.n = 2080, .k = 512, .chunks = 8, .glu = true, .activation = Activation::gelu_tanh},
                        {.n = 2080, .k = 512, .chunks = 8, .glu = true, .activation = Activation::relu}};
  for (const Case& of : cases) {
    const ComparedProduct product(*backend, of);
    std::vector<float> few;
    for (int first = 0; first < kAllRows; first += kFew) {
      const std::vector<float> some = product.multiply(first, kFew);
      few.insert(few.end(), some.begin(), some.end());
    }
    for (const int rows : kCountsCompared) {
      const std::vector<float> many = product.multiply(0, rows);
      size_t differ = 0, first = 0;
      for (size_t i = many.size(); i-- > 0;)
        if (std::memcmp(&many[i], &few[i], sizeof many[i]) != 0) ++differ, first = i;
      const size_t cols = few.size() / kAllRows;
      EXPECT_EQ(differ, 0u) << fmt::format(
          "{} x {}, {} chunks, glu {}, activation {}, {} rows: row {} column {}: {} {}", of.n, of.k, of.chunks, of.glu,
          int(of.activation), rows, first / cols, first % cols, many[first], few[first]);
    }
  }
}

}  // namespace
}  // namespace paceline::test
