// What kernels/cuda/floats.cuh promises of silu's approximation, tried on the device.

#include <cstdint>
#include <cstring>
#include <cuda_bf16.h>
#include <string>

#include <gtest/gtest.h>

#include "kernels/cuda/floats.cuh"

namespace paceline::cuda {
namespace {

__device__ bool is_tried(float gate) { return fabsf(gate) >= kLeastGate && fabsf(gate) <= kMostGate; }

/// By how much the approximation misses math::silu, in parts of 2^-24 of it: the most of all floats that are tried.
__global__ void find_most_apart(unsigned* most) {
  float mine = 0.0f;
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < uint64_t{1} << 32;
       i += uint64_t{gridDim.x} * blockDim.x) {
    const float gate = __uint_as_float(uint32_t(i));
    if (!is_tried(gate)) continue;
    const double exact = math::silu(gate);
    mine = fmaxf(mine, float(fabs((silu_approximate(gate) - exact) / exact) * 0x1p24));
  }
  atomicMax(most, __float_as_uint(mine));  // positive floats are ordered as their bits
}

/// Uniform bits from a counter.
__device__ uint32_t mixed(uint64_t x) {
  x = (x ^ x >> 31) * 0x7fb5d329728ea185ull;
  x = (x ^ x >> 27) * 0x81dadef4bc2dd44dull;
  return uint32_t((x ^ x >> 33) >> 7);
}

/// Pairs whose product is rounded to another bfloat16 than the exact one. Gates in [-24, 24], some zero, tiny, infinite
/// or no numbers; what they gate has any bits.
__global__ void count_different(unsigned long long* different) {
  constexpr int kCount = 8;
  unsigned long long mine = 0;
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < uint64_t{1} << 27;
       i += uint64_t{gridDim.x} * blockDim.x) {
    const auto bits = [&](int j, int which) { return mixed((i * kCount + j) * 2 + which); };
    const auto gate = Floats<kCount>::each([&](int j) {
      const uint32_t of = bits(j, 0);
      return of % 1024 == 0   ? __uint_as_float(of * 2654435761u)
             : of % 1024 == 1 ? 0.0f
                              : (float(of) * 0x1p-31f - 1.0f) * 24.0f;
    });
    const auto up = Floats<kCount>::each([&](int j) { return __uint_as_float(bits(j, 1)); });
    const auto got = gated_for_bfloat(gate, up);
    for (int j = 0; j < kCount; ++j) {
      const float exact = math::silu(gate.of[j]) * up.of[j];
      mine += __bfloat16_as_ushort(__float2bfloat16_rn(got.of[j])) != __bfloat16_as_ushort(__float2bfloat16_rn(exact));
    }
  }
  atomicAdd(different, mine);
}

template <class Result, class Kernel>
Result result_of(Kernel* kernel) {
  Result* memory = nullptr;
  Result result{};
  EXPECT_EQ(cudaMalloc(&memory, sizeof result), cudaSuccess);
  EXPECT_EQ(cudaMemset(memory, 0, sizeof result), cudaSuccess);
  kernel<<<1024, 256>>>(memory);
  EXPECT_EQ(cudaMemcpy(&result, memory, sizeof result, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  return result;
}

class Silu : public testing::Test {
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(Silu, ApproximationIsAsNearAsItSaysOnCuda) {
  const unsigned bits = result_of<unsigned>(find_most_apart);
  float most;
  memcpy(&most, &bits, sizeof most);
  RecordProperty("most_apart", std::to_string(most));
  EXPECT_LE(most, float(kSiluApart));
  EXPECT_GT(most, 0.0f);
}

TEST_F(Silu, GatesRoundToTheSameBfloatsOnCuda) { EXPECT_EQ(result_of<unsigned long long>(count_different), 0u); }

}  // namespace
}  // namespace paceline::cuda
