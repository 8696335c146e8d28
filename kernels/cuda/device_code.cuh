#pragma once
// Pieces of kernels. PDL: every block of every kernel calls launch_dependents(), as early as that does no harm, and
// wait_for_predecessor() before it reads or writes anything, constants of the model (packed weights, norms) and staged
// spans excepted (copies and put_bytes let nobody start early), and what its launcher knows to be complete
// (AttentionPlan::keys_stay: norm.cu and products that norm let nobody start before their own wait, so what comes after
// one of them finds all before it complete). Each thread does, but for those that touch only such constants; some
// thread of each block does, which makes the end of a kernel mean the end of all before it. A library's kernels
// (cuBLASLt) wait too, or start only when their predecessor has ended.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace paceline::cuda {

#ifdef PACELINE_CUDA_SLEEPS
/// For tests of the above (CMake's target `sleeps`): blocks start, hand over and end out of step. In each eighth of a
/// millisecond other blocks sleep, half of them, warp by warp up to 16 us a call; a block that does not may be ahead of
/// all that it should wait for.
__device__ __forceinline__ void sleep_at_random() {
  const auto mixed = [](uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
  };
  uint64_t now_ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now_ns));
  const uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const uint32_t warp = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x / 32 + threadIdx.x / 32;
  const bool sleeps = mixed(block + mixed(uint32_t(now_ns >> 17))) & 1;
  __nanosleep(sleeps ? mixed(block * 32 + warp + mixed(uint32_t(clock64()))) % 16384 : 0);
}
#else
__device__ __forceinline__ void sleep_at_random() {}
#endif

__device__ __forceinline__ void launch_dependents() {
  sleep_at_random();
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  sleep_at_random();
}
__device__ __forceinline__ void wait_for_predecessor() {
  sleep_at_random();
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  sleep_at_random();
}

/// Read once and never again: past L1, 256 bytes at a time into L2.
__device__ __forceinline__ uint4 load_stream(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
__device__ __forceinline__ uint32_t load_stream(const uint32_t* from) {
  uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.u32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
}

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float x, float* to) { *to = x; }
__device__ __forceinline__ void narrow(float x, __half* to) { *to = __float2half_rn(x); }
__device__ __forceinline__ void narrow(float x, __nv_bfloat16* to) { *to = __float2bfloat16_rn(x); }

/// e^x in two instructions; relative error 2^-22 + |x| 2^-24. Not for what must have the CPU's bits.
inline constexpr float kLog2E = 1.44269504088896341f;
__device__ __forceinline__ float power_of_two_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float exp_approximate(float x) { return power_of_two_approximate(x * kLog2E); }
/// 1 / x in one instruction; relative error 2^-23.
__device__ __forceinline__ float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Sum or maximum over a warp: lanes i and i + 16, then 8, 4, 2, 1; every lane gets it.
template <class T, class Combine>
__device__ __forceinline__ T over_warp(T x, Combine combine) {
#pragma unroll
  for (int width = 16; width >= 1; width /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, width));
  return x;
}
/// Lane l gets the sum of lanes 0 to l.
template <class T>
__device__ __forceinline__ T up_to_lane(T x) {
  for (int width = 1; width < 32; width *= 2) {
    const T other = __shfl_up_sync(0xffffffffu, x, width);
    if (int(threadIdx.x % 32) >= width) x += other;
  }
  return x;
}
__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Most {
  __device__ int32_t operator()(int32_t a, int32_t b) const { return a > b ? a : b; }
};
/// NaN wins, as it must reach the output.
struct Larger {
  __device__ float operator()(float a, float b) const {
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
  }
};

/// Over a block of kWarps warps, in a fixed tree; every thread gets it. shared: [kWarps], free for use again after the
/// next barrier.
template <int kWarps, class Combine>
__device__ __forceinline__ float over_block(float x, float* shared, Combine combine) {
  x = over_warp(x, combine);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float all = shared[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) all = combine(all, shared[warp]);
  return all;
}

/// The same pointer, but the compiler keeps it, rather than make it anew wherever it is used.
template <class T>
__device__ __forceinline__ T* as_it_is(T* pointer) {
  asm("" : "+l"(pointer));
  return pointer;
}

}  // namespace paceline::cuda
