// Fast numerics: what they change, and what they leave as it is.

#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/backend_fixture.h"
#include "tests/support/expect_error.h"

namespace paceline::test {
namespace {

/// y of rows [0, m) of a fixed input.
std::vector<float> product(Backend& backend, int m, int n, int k, bool glu) {
  const StoredMatrix gate(n / 2, k, DType::bf16, 1), up(n / 2, k, DType::bf16, 2);
  const HostWeight parts[] = {gate.host(), up.host()};
  const Weight weight = backend.pack(parts, {.pair_panels = glu});
  const DeviceArray bias(backend, random_values(size_t(n), 3));
  std::vector<float> x = random_values(size_t(400 * k), 4);
  x.resize(size_t(m) * size_t(k));
  GuardedRows in(backend, m, k, x), out(backend, m, glu ? n / 2 : n);
  backend.gemm({.x = in.view(), .w = weight.get(), .bias = bias.data(), .y = out.view(), .glu = glu});
  return out.read();
}

TEST(Fast, TheCpuRefuses) {
  expect_error(ExitCode::device, {"device cpu: found fast numerics, expected strict"},
               [] { make_backend("cpu", {.numerics = Numerics::fast}); });
}

TEST(Fast, FewRowsHaveTheBitsOfStrictOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto strict = make_backend("cuda:0", {}), fast = make_backend("cuda:0", {.numerics = Numerics::fast});
  for (const bool glu : {false, true})
    for (const int m : {1, 6, 33, 64})
      EXPECT_TRUE(same_bits(product(*strict, m, 96, 512, glu), product(*fast, m, 96, 512, glu)))
          << "m " << m << " glu " << glu;
  // and where the library could not read the rows, many do too
  EXPECT_TRUE(same_bits(product(*strict, 200, 96, 500, false), product(*fast, 200, 96, 500, false)));
  EXPECT_TRUE(same_bits(product(*strict, 200, 92, 512, true), product(*fast, 200, 92, 512, true)));
}

TEST(Fast, ManyRowsAreAsGoodAsStrictOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto strict = make_backend("cuda:0", {}), fast = make_backend("cuda:0", {.numerics = Numerics::fast});
  for (const int m : {65, 128, 300}) {
    for (const int n : {96, 406}) {
      const std::vector<float> want = product(*strict, m, n, 4096, false);
      EXPECT_LE(nmse(product(*fast, m, n, 4096, false), {want.begin(), want.end()}), 1e-9) << "m " << m << " n " << n;
    }
    const std::vector<float> want = product(*strict, m, 96, 4096, true);
    EXPECT_LE(nmse(product(*fast, m, 96, 4096, true), {want.begin(), want.end()}), 0x1p-16) << "gated, m " << m;
  }
}

// Gates and ups of all rows take more than there is room for: the backend takes the rows in slices.
TEST(Fast, GatedProductsInSlicesOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  constexpr int kRows = 400, kInputs = 16, kWidth = 180224, kOutputs = 16;
  const StoredMatrix gate(kWidth, kInputs, DType::bf16, 1), up(kWidth, kInputs, DType::bf16, 2);
  const StoredMatrix last(kOutputs, kWidth, DType::bf16, 3);
  const HostWeight parts[] = {gate.host(), up.host()}, last_part = last.host();
  std::vector<float> got[2];
  for (const Numerics numerics : {Numerics::strict, Numerics::fast}) {
    const auto backend = make_backend("cuda:0", {.numerics = numerics});
    const Weight gate_up = backend->pack(parts, {.pair_panels = true}), down = backend->pack({&last_part, 1}, {});
    void* const between = backend->alloc(size_t(kRows) * kWidth * sizeof(float));
    const MatView hidden = f32_view(static_cast<float*>(between), kRows, kWidth);
    GuardedRows in(*backend, kRows, kInputs, random_values(size_t(kRows * kInputs), 4)), out(*backend, kRows, kOutputs);
    backend->gemm({.x = in.view(), .w = gate_up.get(), .y = hidden, .glu = true, .reader = down.get()});
    backend->gemm({.x = hidden, .w = down.get(), .y = out.view()});
    got[int(numerics)] = out.read();
    backend->free(between);
  }
  EXPECT_LE(nmse(got[1], {got[0].begin(), got[0].end()}), 0x1p-15);
}

TEST(Fast, TheSecondCopyIsCountedOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const auto strict = make_backend("cuda:0", {}), fast = make_backend("cuda:0", {.numerics = Numerics::fast});
  const StoredMatrix matrix(33, 64, DType::bf16, 1);
  const HostWeight part = matrix.host();
  for (const PackSpec& spec :
       {PackSpec{}, PackSpec{.pad_rows_to = 40}, PackSpec{.looked_up_only = true}, PackSpec{.dtype = DType::f32}}) {
    const Weight one = strict->pack({&part, 1}, spec), both = fast->pack({&part, 1}, spec);
    const size_t copy = spec.dtype == DType::bf16 && !spec.looked_up_only ? size_t(both->n) * 64 * 2 : 0;
    EXPECT_EQ(both->bytes, one->bytes + copy);
    EXPECT_EQ(fast->memory().weights, both->bytes);
  }
  EXPECT_EQ(fast->memory().weights, 0u);
}

}  // namespace
}  // namespace paceline::test
