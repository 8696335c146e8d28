#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/peer_words.cuh"
#include "kernels/cuda/push_sum.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256;

/// A thread a pair.
template <int kRanks>
__global__ void __launch_bounds__(kThreads)
    push_sum_kernel(float* x, int64_t count, uint32_t message, PushGroup group) {
  launch_dependents();
  wait_for_predecessor();
  const int64_t pair = blockIdx.x * int64_t{kThreads} + threadIdx.x, at = 2 * pair;
  if (at >= count) return;
  const bool both = at + 1 < count;
  float2 values[] = {{x[at], both ? x[at + 1] : 0.0f}};
  push_pair<kRanks>(group, message, pair, values[0]);
  sum_pairs<kRanks>(group, message, {pair}, values);
  x[at] = values[0].x;
  if (both) x[at + 1] = values[0].y;
}

__device__ __forceinline__ void publish(uint32_t* mark, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(mark), "r"(value) : "memory");
}
__device__ __forceinline__ uint32_t look(const uint32_t* mark) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(mark) : "memory");
  return value;
}
/// Until the mark is `gather` or a later one.
__device__ __forceinline__ void wait_for(const uint32_t* mark, uint32_t gather, const int* given_up) {
  for (int looks = 1; int32_t(look(mark) - gather) < 0; ++looks)
    if (looks % kLooksBetween == 0 && is_given_up(given_up)) return;
}

/// Block b carries the b-th share of every rank's columns. What rank r has sent stands in the root's marks, what each
/// root has read in r's own, so that a part two gathers later does not overwrite one that waits to be read, whatever
/// the shares of both.
__global__ void __launch_bounds__(kThreads)
    push_columns_kernel(const float* part, int64_t part_stride, float* out, int64_t out_stride, int64_t rows,
                        int64_t cols, int root, uint32_t gather, PushGroup group) {
  const auto mark = [&](int of, bool read, int rank, int block) {
    return group.marks[of] + (int(read) * group.size + rank) * kColumnBlocks + block;
  };
  const int here = int(blockIdx.x);
  const auto columns = [&](int rank) {
    return group.columns[root] + (int64_t{gather % 2} * group.size + rank) * kPushColumns;
  };
  launch_dependents();
  wait_for_predecessor();
  const int64_t count = rows * cols, share = (count + gridDim.x - 1) / gridDim.x;
  const int64_t begin = blockIdx.x * share, end = min(count, begin + share);
  if (group.rank != root) {
    if (gather > 2 && threadIdx.x < kColumnBlocks)
      wait_for(mark(group.rank, true, root, int(threadIdx.x)), gather - 2, group.given_up);
    __syncthreads();
    float* const to = columns(group.rank);
    for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) to[i] = part[i / cols * part_stride + i % cols];
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) publish(mark(root, false, group.rank, here), gather);
    return;
  }
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads)
    out[i / cols * out_stride + root * cols + i % cols] = part[i / cols * part_stride + i % cols];
  const int peer = int(threadIdx.x);
  if (peer < group.size && peer != root) wait_for(mark(root, false, peer, here), gather, group.given_up);
  __syncthreads();
  for (int rank = 0; rank < group.size; ++rank) {
    if (rank == root) continue;
    const float* const from = columns(rank);
    for (int64_t i = begin + threadIdx.x; i < end; i += kThreads)
      out[i / cols * out_stride + rank * cols + i % cols] = __ldcv(from + i);
  }
  __syncthreads();
  if (peer < group.size && peer != root) publish(mark(peer, true, root, here), gather);
}

}  // namespace

PushRoom::PushRoom(int ranks, cudaStream_t stream)
    : pairs_(2 * size_t(ranks) * (kPushFloats / 2) * sizeof(uint4), stream),
      columns_(2 * size_t(ranks) * kPushColumns * sizeof(float), stream),
      marks_(2 * size_t(ranks) * kColumnBlocks * sizeof(uint32_t), stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");  // zeros before a peer's first word
}

PushWords words_of(const PeerSum& sum) {
  const auto words_of_peer = [&](int peer, uint32_t message) {
    return reinterpret_cast<uint2*>(pairs_of(sum.group, peer, message, sum.group.rank));
  };
  PushWords words{.message = sum.message, .base = sum.base};
  for (int peer = 0; peer < sum.group.size; ++peer)
    if (peer != sum.group.rank) words.to[size_t(words.count++)] = words_of_peer(peer, 0);
  words.odd = words_of_peer(sum.group.rank, 1) - words_of_peer(sum.group.rank, 0);
  return words;
}

void push_sum(float* x, int64_t count, uint32_t message, const PushGroup& group, LaunchTo queue) {
  constexpr int kBlockFloats = 2 * kThreads;
  with_ranks(group.size, [&](auto ranks) {
    launch(push_sum_kernel<ranks>, dim3(unsigned((count + kBlockFloats - 1) / kBlockFloats)), dim3(kThreads), 0, queue,
           x, count, message, group);
  });
}

void push_columns(const MatView& part, const MatView& out, int root, uint32_t gather, const PushGroup& group,
                  LaunchTo queue) {
  launch(push_columns_kernel, dim3(kColumnBlocks), dim3(kThreads), 0, queue, static_cast<const float*>(part.data),
         part.stride, static_cast<float*>(out.data), out.stride, int64_t{part.rows}, int64_t{part.cols}, root, gather,
         group);
}

}  // namespace paceline::cuda
