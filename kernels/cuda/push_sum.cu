#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/push_sum.h"
#include "kernels/math/tree_sum.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kOwn = 4;  // floats of a thread
constexpr int kBlockFloats = kThreads * kOwn;
constexpr int64_t kMostBlocks = (kPushFloats + kBlockFloats - 1) / kBlockFloats;
constexpr int64_t kPartFloats = kMostBlocks * kBlockFloats;
constexpr int64_t kHalfWords = kMostPushers * (kPartFloats + kMostBlocks);

/// In a room: rank's part of a message, and its marks, one a block.
__device__ __forceinline__ float* part_of(float* room, uint32_t message, int rank) {
  return room + message % 2 * kHalfWords + rank * kPartFloats;
}
__device__ __forceinline__ uint32_t* mark_of(float* room, uint32_t message, int rank, int block) {
  float* const marks = room + message % 2 * kHalfWords + kMostPushers * kPartFloats;
  return reinterpret_cast<uint32_t*>(marks) + rank * kMostBlocks + block;
}

__device__ __forceinline__ void publish(uint32_t* mark, uint32_t message) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(mark), "r"(message) : "memory");
}
__device__ __forceinline__ uint32_t look(const uint32_t* mark) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(mark) : "memory");
  return value;
}
__device__ __forceinline__ int look(const int* flag) {
  int value;
  asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

/// A peer that begins message m + 1 has ended m, as its kernels follow each other. So whoever has all marks of m + 1
/// may overwrite what it sent in m.
__global__ void __launch_bounds__(kThreads)
    push_sum_kernel(float* x, int64_t count, uint32_t message, PushGroup group) {
  constexpr int kLooksBetween = 1024;
  launch_dependents();
  wait_for_predecessor();
  const int64_t first = blockIdx.x * int64_t{kBlockFloats} + threadIdx.x;
  float mine[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) mine[i] = first + i * kThreads < count ? x[first + i * kThreads] : 0.0f;
  for (int peer = 0; peer < group.size; ++peer) {
    if (peer == group.rank) continue;
    float* const to = part_of(group.room[peer], message, group.rank);
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
      if (first + i * kThreads < count) to[first + i * kThreads] = mine[i];
  }
  __threadfence_system();
  __syncthreads();
  const int peer = threadIdx.x;
  if (peer < group.size && peer != group.rank) {
    publish(mark_of(group.room[peer], message, group.rank, blockIdx.x), message);
    const uint32_t* const mark = mark_of(group.room[group.rank], message, peer, blockIdx.x);
    for (int looks = 1; look(mark) != message; ++looks)
      if (looks % kLooksBetween == 0 && look(group.given_up)) break;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int64_t at = first + i * kThreads;
    if (at >= count) break;
    float part[kMostPushers];
#pragma unroll
    for (int rank = 0; rank < kMostPushers; ++rank) {
      if (rank >= group.size) continue;
      part[rank] = rank == group.rank ? mine[i] : __ldcv(part_of(group.room[group.rank], message, rank) + at);
    }
    x[at] = math::tree_sum(part, group.size);
  }
}

}  // namespace

PushRoom::PushRoom(cudaStream_t stream) : memory_(2 * kHalfWords * sizeof(float), stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");  // zeros before a peer's first mark
}

void push_sum(float* x, int64_t count, uint32_t message, const PushGroup& group, cudaStream_t stream) {
  launch(push_sum_kernel, dim3(unsigned((count + kBlockFloats - 1) / kBlockFloats)), dim3(kThreads), 0, stream, x,
         count, message, group);
}

}  // namespace paceline::cuda
