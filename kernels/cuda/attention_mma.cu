// Attention by tensor cores over bfloat16 pages. A warp takes 16 lines, a block four warps and one KV head; keys come
// in chunks of kDeviceChunk through shared memory. In a chunk: scores = scale (q · k) with q rounded to bfloat16;
// weights e^(score - maximum) rounded to bfloat16; their sum and the output by the same instruction, keys in order. A
// line's bits depend on its own keys only, and are the same whether a block takes one chunk or all (FlashAttention-2's
// loop, Dao 2023, section 3.1, with its rescaling once a chunk).

#include "kernels/cuda/attention_work.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/mma.cuh"

namespace paceline::cuda {
namespace {

constexpr int kWarps = kMmaLines / 16;
constexpr int kThreads = kWarps * 32;
constexpr int kKeyTiles = kDeviceChunk / 8;
constexpr uint32_t kOnes = 0x3f803f80u;  // two of bfloat16

template <int kDims>
struct Stage {
  static constexpr int kUnits = kDims / 8;  // of 16 bytes
  uint4 key[kDeviceChunk][kUnits];
  uint4 value[kDeviceChunk][kUnits];

  /// Places that spread over the banks what a warp reads at once: of keys 4 units of two keys, of values one of eight.
  __device__ static int key_unit(int key, int unit) { return unit ^ (key & 1) << 2; }
  __device__ static int value_unit(int key, int unit) { return unit ^ (key & 7); }
};

/// One of a thread's two lines.
struct Line {
  int row = 0, head = 0;
  int32_t begin = 0, end = 0;  // keys that it sees; none: not a line
  bool is_padding = false;     // a row without keys

  __device__ bool sees(int32_t key) const { return key >= begin && key < end; }
};

__device__ Line line_of(const AttentionWork& work, const LineTile& tile, int kv_head, int index) {
  Line line;
  if (index >= tile.num_lines) return line;
  const int row_of_tile = (tile.first_line + index) / work.group;
  line.row = tile.first_row + row_of_tile;
  line.head = kv_head * work.group + tile.first_line + index - row_of_tile * work.group - work.head_offset;
  if (line.head < 0 || line.head >= work.num_heads) return {};
  const int32_t len = work.plan.kv_len[line.row];
  line.is_padding = len <= 0;
  line.begin = work.first_key(len);
  line.end = max(len, line.begin);
  return line;
}

/// Over the four lanes that hold a line.
template <class Combine>
__device__ __forceinline__ float over_line(float x, Combine combine) {
  x = combine(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return combine(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/// Queries of a warp's lines: in a group of 32 dimensions lane l holds 8 neighbouring ones from 8 (l % 4) on, and so do
/// the keys; which product comes in which of a group's two steps is all that changes.
template <int kDims>
__device__ __forceinline__ void load_queries(const AttentionWork& work, const Line (&line)[2],
                                             uint4 (&query)[kDims / 16]) {
#pragma unroll
  for (int group = 0; group < kDims / 32; ++group) {
    const int first = group * 32 + threadIdx.x % 4 * 8;
    float x[2][8];
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      const float* const from = work.q + line[l].row * work.q_stride + int64_t{line[l].head} * work.k_dim + first;
#pragma unroll
      for (int d = 0; d < 8; ++d) x[l][d] = first < work.k_dim && line[l].begin < line[l].end ? from[d] : 0.0f;
    }
#pragma unroll
    for (int step = 0; step < 2; ++step)
      query[group * 2 + step] = {
          bfloat_pair(x[0][step * 4], x[0][step * 4 + 1]), bfloat_pair(x[1][step * 4], x[1][step * 4 + 1]),
          bfloat_pair(x[0][step * 4 + 2], x[0][step * 4 + 3]), bfloat_pair(x[1][step * 4 + 2], x[1][step * 4 + 3])};
  }
}

/// Keys and values at [begin, end) of a chunk on their way into a stage, zeros in the others' places.
template <int kDims>
__device__ __forceinline__ void fetch(const AttentionWork& work, const LineTile& tile, int kv_head, int chunk,
                                      int32_t begin, int32_t end, Stage<kDims>& to) {
  constexpr int kUnits = Stage<kDims>::kUnits;
#pragma unroll
  for (int i = 0; i < kDeviceChunk * kUnits / kThreads; ++i) {
    const int at = i * kThreads + int(threadIdx.x), key = at / kUnits, unit = at % kUnits;
    const int32_t position = chunk * kDeviceChunk + key;
    const bool wanted = position >= begin && position < end && unit * 8 < work.k_dim;
    const int32_t block = wanted ? position / work.block_size : 0;
    const int64_t page = wanted ? work.plan.block[tile.block_begin + block] : 0;
    const int64_t slot = (page * work.num_kv_heads + kv_head) * work.block_size + position - block * work.block_size;
    const int64_t offset = wanted ? slot * work.k_dim + unit * 8 : 0;
    const auto copy = [&](uint4* place, const void* base) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(uint32_t(__cvta_generic_to_shared(place))),
                   "l"(static_cast<const __nv_bfloat16*>(base) + offset), "r"(wanted ? 16 : 0)
                   : "memory");
    };
    copy(&to.key[key][Stage<kDims>::key_unit(key, unit)], work.k);
    copy(&to.value[key][Stage<kDims>::value_unit(key, unit)], work.v);
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Zeros in place of values that are no numbers, of those that this thread fetched; whether there were any.
template <int kDims>
__device__ bool clear_non_numbers(Stage<kDims>& stage) {
  constexpr int kUnits = Stage<kDims>::kUnits;
  bool found = false;
  for (int i = 0; i < kDeviceChunk * kUnits / kThreads; ++i) {
    const int at = i * kThreads + int(threadIdx.x), key = at / kUnits;
    uint4& unit = stage.value[key][Stage<kDims>::value_unit(key, at % kUnits)];
    const auto clear = [&](uint32_t& pair) {
      if ((pair & 0x7f80u) == 0x7f80u) found = true, pair &= 0xffff0000u;
      if ((pair & 0x7f800000u) == 0x7f800000u) found = true, pair &= 0xffffu;
    };
    clear(unit.x), clear(unit.y), clear(unit.z), clear(unit.w);
  }
  return found;
}

/// The weight of a key for line `l` of this thread, which another of the line's four lanes holds. All lanes together.
__device__ float weight_at(const uint4 (&weight)[kDeviceChunk / 16], int key, int l) {
  uint32_t pair = 0;
#pragma unroll
  for (int step = 0; step < kDeviceChunk / 16; ++step) {
    const uint4 of = weight[step];
    if (key / 16 == step) pair = key / 8 % 2 ? (l ? of.w : of.z) : (l ? of.y : of.x);
  }
  pair = __shfl_sync(0xffffffffu, pair, (threadIdx.x & 28) | key % 8 / 2);
  return __uint_as_float(key % 2 ? pair & 0xffff0000u : pair << 16);
}

template <int kDims, bool kWhole>
__global__ void __launch_bounds__(kThreads) attention_mma_kernel(AttentionWork work) {
  constexpr int kHalves = kDims / 64;  // of the dimensions, whose outputs are in registers together
  constexpr int kValueTiles = kDims / 8 / kHalves;
  extern __shared__ __align__(128) char memory[];
  Stage<kDims>* const stage = reinterpret_cast<Stage<kDims>*>(memory);
  __shared__ int32_t first_of[kWarps], last_of[kWarps], seen_first_of[kWarps], seen_last_of[kWarps];
  const LineTile tile = work.plan.tile[blockIdx.x];
  const int kv_head = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Line line[2] = {line_of(work, tile, kv_head, warp * 16 + lane / 4),
                        line_of(work, tile, kv_head, warp * 16 + lane / 4 + 8)};
  {  // keys that any line sees, and that all see
    int32_t first = INT32_MAX, last = 0, seen_first = 0, seen_last = INT32_MAX;
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (line[l].begin == line[l].end) continue;
      first = min(first, line[l].begin), last = max(last, line[l].end);
      seen_first = max(seen_first, line[l].begin), seen_last = min(seen_last, line[l].end);
    }
    first = -over_warp(-first, Most{}), last = over_warp(last, Most{});
    seen_first = over_warp(seen_first, Most{}), seen_last = -over_warp(-seen_last, Most{});
    if (lane == 0)
      first_of[warp] = first, last_of[warp] = last, seen_first_of[warp] = seen_first, seen_last_of[warp] = seen_last;
  }
  __syncthreads();
  int32_t first = first_of[0], last = last_of[0], seen_first = seen_first_of[0], seen_last = seen_last_of[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) {
    first = min(first, first_of[w]), last = max(last, last_of[w]);
    seen_first = max(seen_first, seen_first_of[w]), seen_last = min(seen_last, seen_last_of[w]);
  }
  int chunk = kWhole ? first / kDeviceChunk : int(blockIdx.z);
  const int end_chunk = kWhole ? (last + kDeviceChunk - 1) / kDeviceChunk : chunk + 1;
  const auto fetch_chunk = [&](int c) { fetch(work, tile, kv_head, c, first, last, stage[kWhole ? c % 2 : 0]); };
  const bool any = last > first && (kWhole || (chunk * kDeviceChunk < last && (chunk + 1) * kDeviceChunk > first));
  const bool is_early = work.plan.keys_stay && any && (chunk + 1) * kDeviceChunk < work.plan.kv_len[tile.first_row];
  if (is_early) fetch_chunk(chunk);
  wait_for_predecessor();
  if (!kWhole && !any) return;
  if (any && !is_early) fetch_chunk(chunk);
  uint4 query[kDims / 16];
  load_queries<kDims>(work, line, query);
  launch_dependents();  // not before, as in norm.cu

  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {}, output[kHalves][kValueTiles][4] = {};
  for (; any && chunk < end_chunk; ++chunk) {
    const int32_t chunk_begin = chunk * kDeviceChunk;
    Stage<kDims>& here = stage[kWhole ? chunk % 2 : 0];
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    // a value that is no number must not reach the lines that do not see its key
    const bool partly_seen = seen_first > chunk_begin || seen_last < min(chunk_begin + kDeviceChunk, last);
    bool non_numbers = false;
    if (partly_seen)
      non_numbers = __syncthreads_or(clear_non_numbers(here));
    else
      __syncthreads();
    if (kWhole && chunk + 1 < end_chunk) fetch_chunk(chunk + 1);

    float score[kKeyTiles][4] = {};
#pragma unroll
    for (int group = 0; group < kDims / 32; ++group)
#pragma unroll
      for (int t = 0; t < kKeyTiles; ++t) {
        const int key = t * 8 + lane / 4;
        const uint4 k = here.key[key][Stage<kDims>::key_unit(key, group * 4 + lane % 4)];
        mma(score[t], query[group * 2], uint2{k.x, k.y});
        mma(score[t], query[group * 2 + 1], uint2{k.z, k.w});
      }
    float here_largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int t = 0; t < kKeyTiles; ++t)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int32_t key = chunk_begin + t * 8 + lane % 4 * 2 + j % 2;
        score[t][j] = line[j / 2].sees(key) ? score[t][j] * work.scale : -INFINITY;
        here_largest[j / 2] = Larger{}(score[t][j], here_largest[j / 2]);
      }
    uint4 weight[kDeviceChunk / 16];
    float base[2];
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      here_largest[l] = over_line(here_largest[l], Larger{});
      base[l] = here_largest[l] == -INFINITY ? 0.0f : here_largest[l];
    }
#pragma unroll
    for (int step = 0; step < kDeviceChunk / 16; ++step) {
      const auto pair = [&](int t, int l) {
        return bfloat_pair(exp_approximate(score[t][l * 2] - base[l]), exp_approximate(score[t][l * 2 + 1] - base[l]));
      };
      weight[step] = {pair(step * 2, 0), pair(step * 2, 1), pair(step * 2 + 1, 0), pair(step * 2 + 1, 1)};
    }
    float sums[4] = {};  // columns of ones
#pragma unroll
    for (int step = 0; step < kDeviceChunk / 16; ++step) mma(sums, weight[step], uint2{kOnes, kOnes});

    const float here_sum[2] = {sums[0], sums[2]};
    const bool seen[2] = {line[0].begin < chunk_begin + kDeviceChunk && line[0].end > max(chunk_begin, line[0].begin),
                          line[1].begin < chunk_begin + kDeviceChunk && line[1].end > max(chunk_begin, line[1].begin)};
    Rescale rescale[2];
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      const float most = Larger{}(here_largest[l], largest[l]);
      rescale[l] = Rescale::of(largest[l], here_largest[l], most);
      if (!seen[l]) continue;
      largest[l] = most;
      sum[l] = rescale[l].add(sum[l], here_sum[l]);
    }
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float part[kValueTiles][4] = {};
#pragma unroll
      for (int step = 0; step < kDeviceChunk / 16; ++step)
#pragma unroll
        for (int t = 0; t < kValueTiles; t += 2) {
          const int key = step * 16 + lane % 16, unit = half * kValueTiles + t + lane / 16;
          uint4 v;
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                       : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                       : "r"(uint32_t(__cvta_generic_to_shared(&here.value[key][Stage<kDims>::value_unit(key, unit)])))
                       : "memory");
          mma(part[t], weight[step], uint2{v.x, v.y});
          mma(part[t + 1], weight[step], uint2{v.z, v.w});
        }
      if (non_numbers)  // back to the lines that see them
        for (int key = 0; key < kDeviceChunk; ++key) {
          const int32_t position = chunk_begin + key;
          if (position < first || position >= last) continue;
          const int64_t page = work.plan.block[tile.block_begin + position / work.block_size];
          const auto* const value =
              static_cast<const __nv_bfloat16*>(work.v) +
              ((page * work.num_kv_heads + kv_head) * work.block_size + position % work.block_size) * work.v_stride;
          const float weight_of[2] = {weight_at(weight, key, 0), weight_at(weight, key, 1)};
#pragma unroll
          for (int t = 0; t < kValueTiles; ++t)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              const int d = (half * kValueTiles + t) * 8 + lane % 4 * 2 + j % 2;
              const float x = d < work.v_dim ? widen(value[d]) : 0.0f;
              if (!isfinite(x) && line[j / 2].sees(position)) part[t][j] += weight_of[j / 2] * x;
            }
        }
#pragma unroll
      for (int t = 0; t < kValueTiles; ++t) {
        const int d = (half * kValueTiles + t) * 8 + lane % 4 * 2;
#pragma unroll
        for (int l = 0; l < 2; ++l) {
          if (kWhole) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              float& o = output[half][t][l * 2 + j];
              if (seen[l]) o = rescale[l].add(o, part[t][l * 2 + j]);
            }
          } else if (seen[l] && d < work.v_dim) {
            float* const left = work.left_by(line[l].row, line[l].head, chunk);
            *reinterpret_cast<float2*>(left + kHeader + d) = {part[t][l * 2], part[t][l * 2 + 1]};
            if (half == 0 && t == 0 && lane % 4 == 0) *reinterpret_cast<float2*>(left) = {here_largest[l], here_sum[l]};
          }
        }
      }
    }
    __syncthreads();  // before the stage is filled again
  }
  if constexpr (kWhole) {
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (line[l].begin == line[l].end && !line[l].is_padding) continue;
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int t = 0; t < kValueTiles; ++t)
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const int d = (half * kValueTiles + t) * 8 + lane % 4 * 2 + j;
            if (d < work.v_dim)
              work.put(line[l].row, line[l].head, d, line[l].is_padding ? 0.0f : output[half][t][l * 2 + j] / sum[l]);
          }
    }
  }
}

template <int kDims, bool kWhole>
constexpr size_t kSharedBytes = sizeof(Stage<kDims>) * (kWhole ? 2 : 1);

template <int kDims, bool kWhole>
void run(const AttentionWork& work, cudaStream_t stream) {
  launch(attention_mma_kernel<kDims, kWhole>,
         dim3(unsigned(work.plan.num_tiles), unsigned(work.num_kv_heads), kWhole ? 1u : unsigned(work.plan.num_chunks)),
         dim3(kThreads), kSharedBytes<kDims, kWhole>, stream, work);
}

}  // namespace

void prepare_attention_mma() {
  check(cudaFuncSetAttribute(attention_mma_kernel<128, true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             int(kSharedBytes<128, true>)),
        "cudaFuncSetAttribute");
}

void attention_mma(const AttentionWork& work, cudaStream_t stream) {
  if (work.k_dim <= 64)
    work.plan.whole ? run<64, true>(work, stream) : run<64, false>(work, stream);
  else
    work.plan.whole ? run<128, true>(work, stream) : run<128, false>(work, stream);
}

}  // namespace paceline::cuda
