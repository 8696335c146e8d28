#include "kernels/cuda/attention.h"
#include "kernels/cuda/device_code.cuh"
#include "kernels/math/elementary.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kHeader = 2;  // maximum, sum

struct Work {
  const float* q;
  int64_t q_stride;
  float* out;
  int64_t out_stride;
  const void* k;
  const void* v;
  RowPages pages;
  float* workspace;  // [row][head][chunk][kHeader + v_dim]
  int num_heads;
  int group;
  int head_offset;
  int num_kv_heads;
  int k_dim;
  int v_dim;
  int v_stride;  // values between V's positions: v_dim, or k_dim where V is a part of K
  int block_size;
  int window;
  float scale;

  __device__ int32_t first_key(int32_t len) const { return window > 0 && len > window ? len - window : 0; }
  __device__ float* left_by(int row, int head, int chunk) const {
    return workspace + ((int64_t{row} * num_heads + head) * pages.num_chunks + chunk) * (kHeader + v_dim);
  }
};

/// One chunk of one row and head: maximum, sum of exp, unnormalised output.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_chunk_kernel(Work work) {
  extern __shared__ float q[];  // [k_dim], then weights [kAttentionChunk]
  __shared__ float shared[kWarps];
  launch_dependents();
  wait_for_predecessor();
  const int row = blockIdx.x, head = blockIdx.y, chunk = blockIdx.z;
  const int32_t len = work.pages.kv_len[row];
  const int32_t chunk_begin = chunk * kAttentionChunk;
  const int32_t begin = max(work.first_key(len), chunk_begin), end = min(len, chunk_begin + kAttentionChunk);
  if (begin >= end) return;
  const int kv_head = (head + work.head_offset) / work.group;
  float* const weight = q + work.k_dim;
  for (int d = threadIdx.x; d < work.k_dim; d += kThreads)
    q[d] = work.q[row * work.q_stride + int64_t{head} * work.k_dim + d] * work.scale;
  __syncthreads();

  const int32_t* const block = work.pages.block + work.pages.block_begin[row];
  const auto position = [&](int32_t p) {  // index of a position's first value, in rows of K or V
    return (int64_t{block[p / work.block_size]} * work.num_kv_heads + kv_head) * work.block_size + p % work.block_size;
  };
  const T* const keys = static_cast<const T*>(work.k);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float largest = -INFINITY;
  for (int32_t p = begin + warp; p < end; p += kWarps) {
    const T* key = keys + position(p) * work.k_dim;
    float score = 0.0f;
    for (int d = lane; d < work.k_dim; d += 32) score = __fmaf_rn(q[d], widen(key[d]), score);
    score = over_warp(score, Plus{});
    if (lane == 0) weight[p - chunk_begin] = score;
    largest = Larger{}(score, largest);
  }
  largest = over_block<kWarps>(largest, shared, Larger{});
  float sum = 0.0f;
  for (int32_t p = chunk_begin + threadIdx.x; p < end; p += kThreads) {
    if (p < begin) continue;
    const float w = math::exp_of(weight[p - chunk_begin] - largest);
    weight[p - chunk_begin] = w;
    sum += w;
  }
  sum = over_block<kWarps>(sum, shared, Plus{});
  float* const left = work.left_by(row, head, chunk);
  if (threadIdx.x == 0) {
    left[0] = largest;
    left[1] = sum;
  }
  const T* const values = static_cast<const T*>(work.v);
  for (int d = threadIdx.x; d < work.v_dim; d += kThreads) {
    float o = 0.0f;
#pragma unroll 8
    for (int32_t p = begin; p < end; ++p)
      o = __fmaf_rn(weight[p - chunk_begin], widen(values[position(p) * work.v_stride + d]), o);
    left[kHeader + d] = o;
  }
}

__global__ void attention_merge_kernel(Work work) {
  launch_dependents();
  wait_for_predecessor();
  const int row = blockIdx.x, head = blockIdx.y;
  const int32_t len = work.pages.kv_len[row];
  float* const out = work.out + row * work.out_stride + int64_t{head} * work.v_dim;
  const int first = work.first_key(len) / kAttentionChunk, last = (len - 1) / kAttentionChunk;
  for (int d = threadIdx.x; d < work.v_dim; d += blockDim.x) {
    if (len <= 0) {
      out[d] = 0.0f;
      continue;
    }
    const float* from = work.left_by(row, head, first);
    float largest = from[0], sum = from[1], o = from[kHeader + d];
    for (int chunk = first + 1; chunk <= last; ++chunk) {
      from = work.left_by(row, head, chunk);
      const float both = Larger{}(from[0], largest);
      const float scale = math::exp_of(largest - both), scale_new = math::exp_of(from[0] - both);
      sum = sum * scale + from[1] * scale_new;
      o = o * scale + from[kHeader + d] * scale_new;
      largest = both;
    }
    out[d] = o / sum;
  }
}

template <class T>
void run(const Work& work, int rows, cudaStream_t stream) {
  const size_t shared_bytes = size_t(work.k_dim + kAttentionChunk) * sizeof(float);
  launch(attention_chunk_kernel<T>, dim3(unsigned(rows), unsigned(work.num_heads), unsigned(work.pages.num_chunks)),
         dim3(kThreads), shared_bytes, stream, work);
  launch(attention_merge_kernel, dim3(unsigned(rows), unsigned(work.num_heads)), dim3(128), 0, stream, work);
}

}  // namespace

size_t attention_workspace_bytes(const AttentionArgs& args, int32_t num_chunks) {
  return size_t(args.q.rows) * size_t(args.num_heads) * size_t(num_chunks) * size_t(kHeader + args.kv.v_dim) *
         sizeof(float);
}

void attention(const AttentionArgs& args, const RowPages& pages, void* workspace, cudaStream_t stream) {
  const KvView& kv = args.kv;
  const Work work{.q = args.q.f32_row(0),
                  .q_stride = args.q.stride,
                  .out = args.out.f32_row(0),
                  .out_stride = args.out.stride,
                  .k = kv.k,
                  .v = kv.v ? kv.v : kv.k,
                  .pages = pages,
                  .workspace = static_cast<float*>(workspace),
                  .num_heads = args.num_heads,
                  .group = args.group ? args.group : args.num_heads / kv.num_kv_heads,
                  .head_offset = args.head_offset,
                  .num_kv_heads = kv.num_kv_heads,
                  .k_dim = kv.k_dim,
                  .v_dim = kv.v_dim,
                  .v_stride = kv.v ? kv.v_dim : kv.k_dim,
                  .block_size = kv.block_size,
                  .window = args.window,
                  .scale = args.scale};
  if (kv.dtype == DType::f32) run<float>(work, args.q.rows, stream);
  if (kv.dtype == DType::f16) run<__half>(work, args.q.rows, stream);
  if (kv.dtype == DType::bf16) run<__nv_bfloat16>(work, args.q.rows, stream);
}

}  // namespace paceline::cuda
