#include "kernels/cuda/attention.h"
#include "kernels/cuda/device_code.cuh"
#include "kernels/math/elementary.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kWarpKeys = kDeviceChunk / kWarps;
constexpr int kHeader = 2;  // maximum, sum
constexpr int kMergeThreads = 128;
constexpr int kMergeAhead = 8;  // chunks whose loads are under way together

struct Work {
  const float* q;
  int64_t q_stride;
  float* out;
  int64_t out_stride;
  const void* k;
  const void* v;
  AttentionPlan plan;
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
    return workspace +
           ((int64_t{row - plan.first_row} * num_heads + head) * plan.num_chunks + chunk) * (kHeader + v_dim);
  }
};

/// One chunk of the keys of one KV head, for a tile of lines: maximum, sum of exp, unnormalised output of each. Warp w
/// takes keys [w kWarpKeys, (w + 1) kWarpKeys) of the chunk in order, its lanes the dimensions; the warps' parts are
/// added in order.
template <class T, int kSteps>  // kSteps * 32 >= k_dim, v_dim
__global__ void __launch_bounds__(kThreads) attention_chunk_kernel(Work work) {
  constexpr int L = kLineTile;
  __shared__ float weight[L][kDeviceChunk];
  __shared__ float largest_of[kWarps][L], sum_of[kWarps][L];
  __shared__ float part[kWarps][L][kSteps * 32];
  launch_dependents();
  wait_for_predecessor();
  const LineTile tile = work.plan.tile[blockIdx.x];
  const int kv_head = blockIdx.y, chunk = blockIdx.z;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int32_t chunk_begin = chunk * kDeviceChunk;
  int row[L], head[L];
  int32_t begin[L], end[L], first = chunk_begin + kDeviceChunk, last = chunk_begin;
#pragma unroll
  for (int l = 0; l < L; ++l) {
    const int line = tile.first_line + l;
    row[l] = tile.first_row + line / work.group;
    head[l] = kv_head * work.group + line % work.group - work.head_offset;
    const bool real = l < tile.num_lines && head[l] >= 0 && head[l] < work.num_heads;
    const int32_t len = real ? work.plan.kv_len[row[l]] : 0;
    begin[l] = max(work.first_key(len), chunk_begin);
    end[l] = min(len, chunk_begin + kDeviceChunk);
    if (begin[l] < end[l]) {
      first = min(first, begin[l]);
      last = max(last, end[l]);
    }
  }
  if (first >= last) return;
  float q[L][kSteps];
#pragma unroll
  for (int l = 0; l < L; ++l)
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int d = s * 32 + lane;
      q[l][s] = begin[l] < end[l] && d < work.k_dim
                    ? work.q[row[l] * work.q_stride + int64_t{head[l]} * work.k_dim + d] * work.scale
                    : 0.0f;
    }
  const int32_t* const block = work.plan.block + tile.block_begin;
  const auto position = [&](int32_t p) {  // index of a position's first value, in rows of K or V
    return (int64_t{block[p / work.block_size]} * work.num_kv_heads + kv_head) * work.block_size + p % work.block_size;
  };
  const int32_t warp_begin = max(first, chunk_begin + warp * kWarpKeys);
  const int32_t warp_end = min(last, chunk_begin + (warp + 1) * kWarpKeys);

  const T* const keys = static_cast<const T*>(work.k);
  float largest[L];
#pragma unroll
  for (int l = 0; l < L; ++l) largest[l] = -INFINITY;
  constexpr int kAhead = 4;  // keys whose loads are under way together
  for (int32_t p = warp_begin; p < warp_end; p += kAhead) {
    float key[kAhead][kSteps];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const T* from = keys + position(min(p + a, warp_end - 1)) * work.k_dim;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) key[a][s] = s * 32 + lane < work.k_dim ? widen(from[s * 32 + lane]) : 0.0f;
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
#pragma unroll
      for (int l = 0; l < L; ++l) {
        float score = 0.0f;
#pragma unroll
        for (int s = 0; s < kSteps; ++s)
          if (s * 32 + lane < work.k_dim) score = __fmaf_rn(q[l][s], key[a][s], score);
        score = over_warp(score, Plus{});
        if (p + a >= begin[l] && p + a < end[l] && p + a < warp_end) {
          if (lane == 0) weight[l][p + a - chunk_begin] = score;
          largest[l] = Larger{}(score, largest[l]);
        }
      }
  }
  if (lane == 0)
    for (int l = 0; l < L; ++l) largest_of[warp][l] = largest[l];
  __syncthreads();
#pragma unroll
  for (int l = 0; l < L; ++l) {
    largest[l] = largest_of[0][l];
    for (int w = 1; w < kWarps; ++w) largest[l] = Larger{}(largest_of[w][l], largest[l]);
    static_assert(kWarpKeys <= 32);
    const int32_t p = chunk_begin + warp * kWarpKeys + lane;
    const bool seen = lane < kWarpKeys && p >= begin[l] && p < end[l];
    const float w = seen ? math::exp_of(weight[l][p - chunk_begin] - largest[l]) : 0.0f;
    if (lane < kWarpKeys) weight[l][p - chunk_begin] = w;
    const float sum = over_warp(w, Plus{});
    if (lane == 0) sum_of[warp][l] = sum;
  }
  __syncwarp();

  const T* const values = static_cast<const T*>(work.v);
  float o[L][kSteps] = {};
  for (int32_t p = warp_begin; p < warp_end; p += kAhead) {
    float value[kAhead][kSteps];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const T* from = values + position(min(p + a, warp_end - 1)) * work.v_stride;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) value[a][s] = s * 32 + lane < work.v_dim ? widen(from[s * 32 + lane]) : 0.0f;
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
#pragma unroll
      for (int l = 0; l < L; ++l) {
        if (p + a < begin[l] || p + a >= end[l] || p + a >= warp_end) continue;
        const float w = weight[l][p + a - chunk_begin];
#pragma unroll
        for (int s = 0; s < kSteps; ++s) o[l][s] = __fmaf_rn(w, value[a][s], o[l][s]);
      }
  }
#pragma unroll
  for (int l = 0; l < L; ++l)
#pragma unroll
    for (int s = 0; s < kSteps; ++s) part[warp][l][s * 32 + lane] = o[l][s];
  __syncthreads();
#pragma unroll
  for (int l = 0; l < L; ++l) {
    if (begin[l] >= end[l]) continue;
    float* const left = work.left_by(row[l], head[l], chunk);
    if (threadIdx.x == 0) {
      float sum = sum_of[0][l];
      for (int w = 1; w < kWarps; ++w) sum += sum_of[w][l];
      left[0] = largest[l];
      left[1] = sum;
    }
    for (int d = threadIdx.x; d < work.v_dim; d += kThreads) {
      float sum = part[0][l][d];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum += part[w][l][d];
      left[kHeader + d] = sum;
    }
  }
}

/// A row and head: its chunks' parts, weighted by exp(maximum - largest maximum), are added from left to right.
__global__ void __launch_bounds__(kMergeThreads) attention_merge_kernel(Work work) {
  extern __shared__ float weight[];  // [num_chunks]
  __shared__ float shared[kMergeThreads / 32];
  launch_dependents();
  wait_for_predecessor();
  const int row = work.plan.first_row + blockIdx.x, head = blockIdx.y;
  const int32_t len = work.plan.kv_len[row];
  float* const out = work.out + row * work.out_stride + int64_t{head} * work.v_dim;
  if (len <= 0) {
    for (int d = threadIdx.x; d < work.v_dim; d += kMergeThreads) out[d] = 0.0f;
    return;
  }
  const int first = work.first_key(len) / kDeviceChunk, count = (len - 1) / kDeviceChunk + 1 - first;
  const float* const left = work.left_by(row, head, first);
  const int stride = kHeader + work.v_dim;
  float largest = -INFINITY;
  for (int c = threadIdx.x; c < count; c += kMergeThreads) largest = Larger{}(left[c * stride], largest);
  largest = over_block<kMergeThreads / 32>(largest, shared, Larger{});
  for (int c = threadIdx.x; c < count; c += kMergeThreads) weight[c] = math::exp_of(left[c * stride] - largest);
  __syncthreads();
  for (int d = threadIdx.x; d < work.v_dim; d += kMergeThreads) {
    float sum = 0.0f, o = 0.0f;
#pragma unroll kMergeAhead
    for (int c = 0; c < count; ++c) {
      sum = __fmaf_rn(left[c * stride + 1], weight[c], sum);
      o = __fmaf_rn(left[c * stride + kHeader + d], weight[c], o);
    }
    out[d] = o / sum;
  }
}

template <class T, int kSteps>
void run_chunks(const Work& work, cudaStream_t stream) {
  launch(attention_chunk_kernel<T, kSteps>,
         dim3(unsigned(work.plan.num_tiles), unsigned(work.num_kv_heads), unsigned(work.plan.num_chunks)),
         dim3(kThreads), 0, stream, work);
}

template <class T>
void run(const Work& work, cudaStream_t stream) {
  if (work.k_dim <= 128 && work.v_dim <= 128)
    run_chunks<T, 4>(work, stream);
  else
    run_chunks<T, 8>(work, stream);
  // whole words of the unrolled loop: the compiler reads 16 bytes of weights where it needs fewer
  const size_t weights = (size_t(work.plan.num_chunks) + kMergeAhead - 1) / kMergeAhead * kMergeAhead;
  launch(attention_merge_kernel, dim3(unsigned(work.plan.num_rows), unsigned(work.num_heads)), dim3(kMergeThreads),
         weights * sizeof(float), stream, work);
}

}  // namespace

size_t attention_row_bytes(const AttentionArgs& args, int32_t num_chunks) {
  return size_t(args.num_heads) * size_t(num_chunks) * size_t(kHeader + args.kv.v_dim) * sizeof(float);
}

void attention(const AttentionArgs& args, const AttentionPlan& plan, void* workspace, cudaStream_t stream) {
  const KvView& kv = args.kv;
  const Work work{.q = args.q.f32_row(0),
                  .q_stride = args.q.stride,
                  .out = args.out.f32_row(0),
                  .out_stride = args.out.stride,
                  .k = kv.k,
                  .v = kv.v ? kv.v : kv.k,
                  .plan = plan,
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
  if (kv.dtype == DType::f32) run<float>(work, stream);
  if (kv.dtype == DType::f16) run<__half>(work, stream);
  if (kv.dtype == DType::bf16) run<__nv_bfloat16>(work, stream);
}

}  // namespace paceline::cuda
