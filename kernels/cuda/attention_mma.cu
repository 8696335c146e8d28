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
/// Lines that half of a block's warps take.
constexpr int kFewLines = kMmaLines / 2;
/// Chunks that a block has in shared memory.
constexpr int stages_of(bool whole, int groups) { return whole ? groups + 1 : 1; }

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

/// Rescale::of for a thread's two lines, by the four lanes that hold them: each makes one of the four factors.
__device__ __forceinline__ void rescale_by_four(const float (&left)[2], const float (&part)[2],
                                                const float (&largest)[2], Rescale (&rescale)[2]) {
  const int lane = threadIdx.x % 32, first = lane & ~3;
  const bool second_line = lane & 2;
  const float most = second_line ? largest[1] : largest[0];
  const float of_left = second_line ? left[1] : left[0], of_part = second_line ? part[1] : part[0];
  const float mine = math::exp_of((lane & 1 ? of_part : of_left) - (most == -INFINITY ? 0.0f : most));
#pragma unroll
  for (int l = 0; l < 2; ++l)
    rescale[l] = {__shfl_sync(0xffffffffu, mine, first + l * 2), __shfl_sync(0xffffffffu, mine, first + l * 2 + 1)};
}

/// Queries of a warp's lines: in a group of 32 dimensions lane l holds 8 neighbouring ones from 8 (l % 4) on, and so do
/// the keys; which product comes in which of a group's two steps is all that changes.
template <int kDims>
__device__ __forceinline__ void load_queries(const AttentionWork& work, const Line (&line)[2],
                                             uint4 (&query)[kDims / 16]) {
#pragma unroll
  for (int group = 0; group < kDims / 32; ++group) {
    const int first = group * 32 + threadIdx.x % 4 * 8;
    float x[2][8] = {};
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (first >= work.k_dim || line[l].begin >= line[l].end) continue;
      const float* const from = work.q + line[l].row * work.q_stride + int64_t{line[l].head} * work.k_dim + first;
      if (work.q_aligned) {
        const float4 low = __ldcg(reinterpret_cast<const float4*>(from));
        const float4 high = __ldcg(reinterpret_cast<const float4*>(from) + 1);
        x[l][0] = low.x, x[l][1] = low.y, x[l][2] = low.z, x[l][3] = low.w;
        x[l][4] = high.x, x[l][5] = high.y, x[l][6] = high.z, x[l][7] = high.w;
      } else {
#pragma unroll
        for (int d = 0; d < 8; ++d) x[l][d] = from[d];
      }
    }
#pragma unroll
    for (int step = 0; step < 2; ++step)
      query[group * 2 + step] = {
          bfloat_pair(x[0][step * 4], x[0][step * 4 + 1]), bfloat_pair(x[1][step * 4], x[1][step * 4 + 1]),
          bfloat_pair(x[0][step * 4 + 2], x[0][step * 4 + 3]), bfloat_pair(x[1][step * 4 + 2], x[1][step * 4 + 3])};
  }
}

/// Keys and values at [begin, end) of a chunk on their way into a stage, zeros in the others' places. Eight
/// neighbouring keys lie in one page: a lane finds where, for the whole warp. The caller commits.
template <int kDims>
__device__ __forceinline__ void fetch(const AttentionWork& work, const LineTile& tile, int kv_head, int chunk,
                                      int32_t begin, int32_t end, Stage<kDims>& to) {
  constexpr int kUnits = Stage<kDims>::kUnits, kGroup = 8, kKeysAtOnce = kThreads / kUnits;
  static_assert(kWarpKeys % kGroup == 0 && kGroup % (32 / kUnits) == 0 && kKeysAtOnce % kGroup == 0);
  const int key = int(threadIdx.x) / kUnits, unit = int(threadIdx.x) % kUnits;  // of the first keys at once
  const int32_t chunk_begin = chunk * kDeviceChunk;
  int64_t group_offset = 0;  // of group threadIdx.x % 8 of the chunk
  const int32_t group_begin = chunk_begin + int(threadIdx.x) % (kDeviceChunk / kGroup) * kGroup;
  if (group_begin < end && group_begin + kGroup > begin) {
    const int32_t block = group_begin / work.block_size;
    const int64_t page = work.plan.block[tile.block_begin + block];
    group_offset =
        ((page * work.num_kv_heads + kv_head) * work.block_size + group_begin - block * work.block_size) * work.k_dim;
  }
  const int in_group = key % kGroup * work.k_dim + unit * 8;
  uint4* const keys = &to.key[key][Stage<kDims>::key_unit(key, unit)];
  uint4* const values = &to.value[key][Stage<kDims>::value_unit(key, unit)];
#pragma unroll
  for (int i = 0; i < kDeviceChunk / kKeysAtOnce; ++i) {
    const int64_t offset = __shfl_sync(0xffffffffu, group_offset, i * (kKeysAtOnce / kGroup) + key / kGroup) + in_group;
    const int32_t position = chunk_begin + i * kKeysAtOnce + key;
    const bool wanted = position >= begin && position < end && unit * 8 < work.k_dim;
    const auto copy = [&](uint4* place, const void* base) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(uint32_t(__cvta_generic_to_shared(place))),
                   "l"(static_cast<const __nv_bfloat16*>(base) + (wanted ? offset : 0)), "r"(wanted ? 16 : 0)
                   : "memory");
    };
    copy(keys + i * kKeysAtOnce * kUnits, work.k);
    copy(values + i * kKeysAtOnce * kUnits, work.v);
  }
}

/// Zeros in place of values that are no numbers, of those that this thread fetched; whether there were any.
template <int kDims>
__device__ bool clear_non_numbers(Stage<kDims>& stage) {
  constexpr int kUnits = Stage<kDims>::kUnits;
  bool found = false;
#pragma unroll 1
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

/// Where a line's outputs go, from eight dimensions to the next; a thread holds two neighbours of each eight.
struct LineOut {
  __nv_bfloat16* operand = nullptr;
  int64_t next_step;
  int next_half;
  float* out;

  __device__ LineOut(const AttentionWork& work, const Line& line) {
    const int64_t first = int64_t{line.head} * work.v_dim + threadIdx.x % 4 * 2;  // heads begin at whole steps
    out = work.out + line.row * work.out_stride + first;
    if (!work.operand.values) return;
    const Operand::Row row = work.operand.row(line.row);
    operand = row.place(first);
    next_step = row.next_step;
    next_half = row.next_half;
  }
  __device__ __forceinline__ void put(int eight, float x, float y) const {
    if (operand) {
      *reinterpret_cast<uint32_t*>(operand + eight / 2 * next_step + eight % 2 * next_half) = bfloat_pair(x, y);
    } else {
      out[eight * 8] = x;
      out[eight * 8 + 1] = y;
    }
  }
};

/// kGroups: of warps that work on neighbouring chunks of the same lines, where lines are few. The first adds the
/// others' parts to its own, in order; they come through the places of keys that have been used.
template <int kDims, bool kWhole, int kGroups>
__global__ void __launch_bounds__(kThreads) attention_mma_kernel(AttentionWork work) {
  constexpr int kHalves = kDims / 64;  // of the dimensions, whose outputs are in registers together
  constexpr int kValueTiles = kDims / 8 / kHalves;
  constexpr int kGroupThreads = kThreads / kGroups;
  constexpr int kStages = stages_of(kWhole, kGroups);
  static_assert(kGroups == 1 || (kWhole && kGroups == 2));
  extern __shared__ __align__(128) char memory[];
  Stage<kDims>* const stage = reinterpret_cast<Stage<kDims>*>(memory);
  __shared__ float4 header[kGroups > 1 ? kGroupThreads : 1];  // that the second group hands over
  __shared__ int32_t first_of[kWarps], last_of[kWarps], seen_first_of[kWarps], seen_last_of[kWarps];
  // the last tiles, which see the most keys, begin first
  const LineTile tile = work.plan.tile[work.plan.num_tiles - 1 - int(blockIdx.y)];
  const int kv_head = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = int(threadIdx.x) / kGroupThreads, line_warp = warp % (kWarps / kGroups);
  const Line line[2] = {line_of(work, tile, kv_head, line_warp * 16 + lane / 4),
                        line_of(work, tile, kv_head, line_warp * 16 + lane / 4 + 8)};
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
  const bool any = last > first && (kWhole || (chunk * kDeviceChunk < last && (chunk + 1) * kDeviceChunk > first));
  const int end_chunk = !any ? chunk : kWhole ? (last + kDeviceChunk - 1) / kDeviceChunk : chunk + 1;
  int turn = 0;  // stage of `chunk`; the next chunks follow
  const auto stage_of = [&](int ahead) -> Stage<kDims>& {
    return stage[turn + ahead < kStages ? turn + ahead : turn + ahead - kStages];
  };
  const auto fetch_ahead = [&](int ahead) {
    if (chunk + ahead < end_chunk) fetch(work, tile, kv_head, chunk + ahead, first, last, stage_of(ahead % kStages));
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  {  // the first chunks
    bool has_waited = false;
#pragma unroll 1
    for (int ahead = 0; ahead < (kGroups == 1 ? 1 : kStages); ++ahead) {
      const int c = chunk + ahead;
      const bool is_early =
          work.plan.keys_stay && c < end_chunk && (c + 1) * kDeviceChunk < work.plan.kv_len[tile.first_row];
      if (!is_early && !has_waited) {
        wait_for_predecessor();
        has_waited = true;
      }
      fetch_ahead(ahead);
    }
    if (!has_waited) wait_for_predecessor();
  }
  if (!kWhole && !any) return;
  uint4 query[kDims / 16];
  load_queries<kDims>(work, line, query);
  launch_dependents();  // not before, as in norm.cu

  const float scale_of_two = work.scale * kLog2E;
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {}, output[kHalves][kValueTiles][4] = {};
  const auto begin_merge = [&](int32_t chunk_begin, const float(&here_largest)[2], const float(&here_sum)[2],
                               bool(&seen)[2], Rescale(&rescale)[2]) {
    const float most[2] = {Larger{}(here_largest[0], largest[0]), Larger{}(here_largest[1], largest[1])};
    rescale_by_four(largest, here_largest, most, rescale);
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      seen[l] = line[l].begin < chunk_begin + kDeviceChunk && line[l].end > max(chunk_begin, line[l].begin);
      if (!seen[l]) rescale[l] = {1.0f, -0.0f};  // its parts are zeros, and minus zero leaves every bit
      largest[l] = most[l];
      sum[l] = rescale[l].add(sum[l], here_sum[l]);
    }
  };
  for (; chunk < end_chunk; chunk += kGroups) {
    const int32_t all_begin = chunk * kDeviceChunk, chunk_begin = (chunk + group) * kDeviceChunk;
    const bool is_active = kGroups == 1 || chunk + group < end_chunk;
    Stage<kDims>& here = stage_of(group);
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups == 1 ? 0 : kStages - kGroups) : "memory");
    // a value that is no number must not reach the lines that do not see its key
    const bool partly_seen = seen_first > all_begin || seen_last < min(all_begin + kGroups * kDeviceChunk, last);
    bool non_numbers = false;
    if (partly_seen) {
      bool found = clear_non_numbers(stage_of(0));
      if (kGroups > 1 && chunk + 1 < end_chunk) found = clear_non_numbers(stage_of(1)) || found;
      non_numbers = __syncthreads_or(found);
    } else {
      __syncthreads();
    }
    if (kWhole && kGroups == 1) fetch_ahead(1);

    float score[kKeyTiles][4] = {};
#pragma unroll
    for (int pair = 0; pair < kDims / 32; ++pair)  // of steps
#pragma unroll
      for (int t = 0; t < kKeyTiles; ++t) {
        const int key = t * 8 + lane / 4;
        const uint4 k = here.key[key][Stage<kDims>::key_unit(key, pair * 4 + lane % 4)];
        mma(score[t], query[pair * 2], uint2{k.x, k.y});
        mma(score[t], query[pair * 2 + 1], uint2{k.z, k.w});
      }
    if (seen_first > chunk_begin || seen_last < chunk_begin + kDeviceChunk) {
      asm volatile("");  // a branch: most chunks are seen whole
#pragma unroll
      for (int t = 0; t < kKeyTiles; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (!line[j / 2].sees(chunk_begin + t * 8 + lane % 4 * 2 + j % 2)) score[t][j] = -INFINITY;
    }
    float here_largest[2], base[2];  // base: of the scores' logarithms to the base of two
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      float most = -INFINITY;
#pragma unroll
      for (int t = 0; t < kKeyTiles; ++t) most = Larger{}(Larger{}(most, score[t][l * 2]), score[t][l * 2 + 1]);
      most = over_line(most, Larger{});
      here_largest[l] = most * work.scale;
      base[l] = most == -INFINITY ? 0.0f : most * scale_of_two;
    }
    uint4 weight[kDeviceChunk / 16];
#pragma unroll
    for (int step = 0; step < kDeviceChunk / 16; ++step) {
      const auto pair = [&](int t, int l) {
        const auto power = [&](float x) { return power_of_two_approximate(__fmaf_rn(x, scale_of_two, -base[l])); };
        return bfloat_pair(power(score[t][l * 2]), power(score[t][l * 2 + 1]));
      };
      weight[step] = {pair(step * 2, 0), pair(step * 2, 1), pair(step * 2 + 1, 0), pair(step * 2 + 1, 1)};
    }
    float sums[4] = {};  // columns of ones
#pragma unroll
    for (int step = 0; step < kDeviceChunk / 16; ++step) mma(sums, weight[step], uint2{kOnes, kOnes});

    float here_sum[2] = {sums[0], sums[2]};
    bool seen[2];
    Rescale rescale[2];
    if (group == 0) begin_merge(chunk_begin, here_largest, here_sum, seen, rescale);
    float* const handed =
        reinterpret_cast<float*>(&stage_of(1).key) + threadIdx.x % kGroupThreads;  // to the first group
    if (kGroups > 1 && group > 0) asm volatile("bar.sync 1, %0;" ::"n"(kGroupThreads) : "memory");  // all keys are used
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
#pragma unroll 1
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
              if (group == 0)
                o = rescale[l].add(o, part[t][l * 2 + j]);
              else
                handed[((half * kValueTiles + t) * 4 + l * 2 + j) * kGroupThreads] = part[t][l * 2 + j];
            }
          } else if (seen[l] && d < work.v_dim) {
            float* const left = work.left_by(line[l].row, line[l].head, chunk);
            *reinterpret_cast<float2*>(left + kHeader + d) = {part[t][l * 2], part[t][l * 2 + 1]};
            if (half == 0 && t == 0 && lane % 4 == 0) *reinterpret_cast<float2*>(left) = {here_largest[l], here_sum[l]};
          }
        }
      }
    }
    if (kGroups > 1 && group > 0 && is_active)
      header[threadIdx.x % kGroupThreads] = {here_largest[0], here_largest[1], here_sum[0], here_sum[1]};
    __syncthreads();  // before the stage is filled again
    if constexpr (kGroups > 1) {
      fetch_ahead(kStages);
      if (group == 0 && chunk + 1 < end_chunk) {
        const float4 of = header[threadIdx.x];
        here_largest[0] = of.x, here_largest[1] = of.y, here_sum[0] = of.z, here_sum[1] = of.w;
        begin_merge(chunk_begin + kDeviceChunk, here_largest, here_sum, seen, rescale);
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
#pragma unroll
          for (int t = 0; t < kValueTiles; ++t)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              float& o = output[half][t][j];
              o = rescale[j / 2].add(o, handed[((half * kValueTiles + t) * 4 + j) * kGroupThreads]);
            }
      }
      __syncthreads();
      fetch_ahead(kStages + 1);
    }
    turn = turn + kGroups < kStages ? turn + kGroups : turn + kGroups - kStages;
  }
  if constexpr (kWhole) {
    if (group > 0) return;
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (line[l].begin == line[l].end && !line[l].is_padding) continue;
      const LineOut to(work, line[l]);
#pragma unroll
      for (int tile_of = 0; tile_of < kDims / 8; ++tile_of) {
        const float* const o = &output[tile_of / kValueTiles][tile_of % kValueTiles][l * 2];
        if (tile_of * 8 >= work.v_dim) break;
        to.put(tile_of, line[l].is_padding ? 0.0f : o[0] / sum[l], line[l].is_padding ? 0.0f : o[1] / sum[l]);
      }
    }
  }
}

template <int kDims, bool kWhole, int kGroups>
constexpr size_t kSharedBytes = sizeof(Stage<kDims>) * stages_of(kWhole, kGroups);

template <int kDims, bool kWhole, int kGroups>
void run(const AttentionWork& work, cudaStream_t stream) {
  const AttentionPlan& plan = work.plan;
  launch(attention_mma_kernel<kDims, kWhole, kGroups>,
         dim3(unsigned(work.num_kv_heads), unsigned(plan.num_tiles), kWhole ? 1u : unsigned(plan.num_chunks)),
         dim3(kThreads), kSharedBytes<kDims, kWhole, kGroups>, stream, work);
}
template <int kDims>
void run(const AttentionWork& work, cudaStream_t stream) {
  if (!work.plan.whole) return run<kDims, false, 1>(work, stream);
  work.plan.most_lines <= kFewLines ? run<kDims, true, 2>(work, stream) : run<kDims, true, 1>(work, stream);
}

template <int kDims, int kGroups>
void prepare() {
  check(cudaFuncSetAttribute(attention_mma_kernel<kDims, true, kGroups>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             int(kSharedBytes<kDims, true, kGroups>)),
        "cudaFuncSetAttribute");
}

}  // namespace

void prepare_attention_mma() { prepare<64, 2>(), prepare<128, 1>(), prepare<128, 2>(); }

void attention_mma(AttentionWork work, cudaStream_t stream) {
  work.q_aligned = reinterpret_cast<uintptr_t>(work.q) % sizeof(float4) == 0 && work.q_stride % 4 == 0;
  work.k_dim <= 64 ? run<64>(work, stream) : run<128>(work, stream);
}

}  // namespace paceline::cuda
