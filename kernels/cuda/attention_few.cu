// Attention by tensor cores where lines are few, or blocks: four warps share 16 lines, a quarter of a chunk's keys for
// the scores, a quarter of the dimensions for the output. A block takes one KV head and either one chunk of the keys
// for all lines of a tile, whose parts the merge adds, or all chunks. A value is made by the instructions of
// attention_many.cu in their order, so the bits are the same. Fresh rows need no kernel of their own: queries are
// turned on their way in, and the block whose chunk holds a row's key turns and stores it.

#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/math/rope.h"

namespace paceline::cuda {
namespace {

constexpr int kGroupLines = 16;
/// Of a block: all lines of a tile, or those that are few.
constexpr int most_groups(bool whole) { return (whole ? kFewLines : kMmaLines) / kGroupLines; }
/// Groups of warps that only fetch, the last of a block: else the first one does so besides.
template <bool kWhole>
constexpr int kFetchers = kWhole ? 1 : 0;
/// Chunks that a block which takes all has in shared memory: more if it is alone on its SM.
constexpr int kStagesBeside = 3, kStagesAlone = 6;
constexpr int kWarpKeyTiles = kKeyTiles / kWarps;
constexpr int kChunkSteps = kDeviceChunk / 16;
static_assert(kChunkSteps == kWarps && kWarpKeyTiles == 2);  // a warp's keys are one step of the second product

/// What the warps of a group hand to one another.
template <int kDims>
struct Group {
  uint4 query[kDims / 16][32];  // [step][lane], as the product takes them
  uint4 weight[kChunkSteps][32];
  float largest[kWarps][kGroupLines];

  __device__ static void barrier(int group) {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kThreads) : "memory");  // 0: the block's own
  }
};
template <int kDims>
constexpr size_t shared_bytes(int stages, int groups) {
  return sizeof(Stage<kDims>) * size_t(stages) + size_t(groups) * sizeof(Group<kDims>);
}

/// Four neighbouring dimensions of the first half of a head, and those of the second half that are turned with them.
struct Quads {
  float4 low, high;

  __device__ __forceinline__ void turn(const float2* factors, int d) {
    const float4 first = __ldcg(reinterpret_cast<const float4*>(factors + d));
    const float4 second = __ldcg(reinterpret_cast<const float4*>(factors + d) + 1);
    math::rotate_pair(low.x, high.x, first.x, first.y);
    math::rotate_pair(low.y, high.y, first.z, first.w);
    math::rotate_pair(low.z, high.z, second.x, second.y);
    math::rotate_pair(low.w, high.w, second.z, second.w);
  }
};
__device__ __forceinline__ uint2 bfloat_four(float4 x) { return {bfloat_pair(x.x, x.y), bfloat_pair(x.z, x.w)}; }

/// Keys and values [begin, end) of a tile's own rows, of which `fresh` is the first, into the stage and their pages.
template <int kDims>
__device__ __forceinline__ void take_fresh(const AttentionWork& work, const LineTile& tile, int kv_head,
                                           int32_t chunk_begin, int32_t fresh, int32_t begin, int32_t end,
                                           Stage<kDims>& stage) {
  constexpr int kHalf = kDims / 2, kRowItems = kDims / 4;  // of keys, then as many of values
#pragma unroll 1
  for (int i = threadIdx.x; i < (end - begin) * kRowItems; i += int(blockDim.x)) {
    const int32_t position = begin + i / kRowItems;
    const bool is_value = i % kRowItems >= kRowItems / 2;
    const int d = i % (kRowItems / 2) * 4, key = position - chunk_begin;
    const float* const from = (is_value ? work.fresh.v : work.fresh.k) +
                              int64_t{tile.first_row + position - fresh} * work.fresh.stride + kv_head * kDims + d;
    Quads x = {__ldcg(reinterpret_cast<const float4*>(from)), __ldcg(reinterpret_cast<const float4*>(from + kHalf))};
    if (!is_value) x.turn(work.fresh.factors + int64_t{position} * kHalf, d);
    const uint2 low = bfloat_four(x.low), high = bfloat_four(x.high);
    const auto place = [&](int unit) {
      return is_value ? &stage.value[key][Stage<kDims>::value_unit(key, unit)]
                      : &stage.key[key][Stage<kDims>::key_unit(key, unit)];
    };
    reinterpret_cast<uint2*>(place(d / 8))[d / 4 % 2] = low;
    reinterpret_cast<uint2*>(place((kHalf + d) / 8))[d / 4 % 2] = high;
    auto* const page = static_cast<__nv_bfloat16*>(is_value ? work.fresh.v_pages : work.fresh.k_pages) +
                       place_in_page(work, kv_head, page_of(work, tile, position), position) + d;
    *reinterpret_cast<uint2*>(page) = low;
    *reinterpret_cast<uint2*>(page + kHalf) = high;
  }
}

/// Line `index` of a group: its queries of eight dimensions, and of those half of all further on. octet: which.
template <int kDims>
__device__ __forceinline__ void take_query(const AttentionWork& work, const Line& line, int index, int octet,
                                           Group<kDims>& group) {
  constexpr int kHalf = kDims / 2;
  Quads x[2] = {};
  if (line.begin < line.end) {
    const float* const from = work.q + line.row * work.q_stride + int64_t{line.head} * work.k_dim;
    const auto four_at = [&](int d) {
      if (d >= work.k_dim) return float4{};
      if (work.q_aligned) return __ldcg(reinterpret_cast<const float4*>(from + d));
      return float4{from[d], from[d + 1], from[d + 2], from[d + 3]};
    };
#pragma unroll
    for (int i = 0; i < 2; ++i) x[i] = {four_at(octet * 8 + i * 4), four_at(kHalf + octet * 8 + i * 4)};
    if (work.fresh.factors)
#pragma unroll
      for (int i = 0; i < 2; ++i) x[i].turn(work.fresh.factors + int64_t{line.end - 1} * kHalf, octet * 8 + i * 4);
  }
  // lane l of a step holds lines l / 4 and l / 4 + 8 and, in a group of 32 dimensions, those from 8 (l % 4) on
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const uint2 pairs = bfloat_four(upper ? x[i].high : x[i].low);
      uint4& to = group.query[(octet / 4 + upper * kHalf / 32) * 2 + i][index % 8 * 4 + octet % 4];
      uint32_t* const words = reinterpret_cast<uint32_t*>(&to) + index / 8;
      words[0] = pairs.x;
      words[2] = pairs.y;
    }
}

/// A thread's two lines over one chunk: the largest scores, not scaled yet; the sums of weights; the outputs of the
/// warp's dimensions.
template <int kDims>
struct ChunkPart {
  static constexpr int kDimTiles = kDims / 8 / kWarps;  // of eight

  float largest[2];
  float sum[2];
  float output[kDimTiles][4] = {};
};

/// Over keys that lie in `stage` and queries that lie in `group`, for all its warps together.
template <int kDims>
__device__ __forceinline__ void attend(const AttentionWork& work, const LineTile& tile, int kv_head,
                                       const KeyRange& keys, const Line (&line)[2], int32_t chunk_begin,
                                       bool non_numbers, const Stage<kDims>& stage, Group<kDims>& group,
                                       int group_index, bool wants_sum, ChunkPart<kDims>& part) {
  constexpr int kDimTiles = ChunkPart<kDims>::kDimTiles;
  const int warp = int(threadIdx.x) % kThreads / 32, lane = int(threadIdx.x) % 32;
  float score[kWarpKeyTiles][4] = {};
#pragma unroll
  for (int pair = 0; pair < kDims / 32; ++pair)  // of steps
#pragma unroll
    for (int t = 0; t < kWarpKeyTiles; ++t) {
      const int key = (warp * kWarpKeyTiles + t) * 8 + lane / 4;
      const uint4 k = stage.key[key][Stage<kDims>::key_unit(key, pair * 4 + lane % 4)];
      mma(score[t], group.query[pair * 2][lane], uint2{k.x, k.y});
      mma(score[t], group.query[pair * 2 + 1][lane], uint2{k.z, k.w});
    }
  if (keys.seen_first > chunk_begin || keys.seen_last < chunk_begin + kDeviceChunk) {
#pragma unroll
    for (int t = 0; t < kWarpKeyTiles; ++t)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (!line[j / 2].sees(chunk_begin + (warp * kWarpKeyTiles + t) * 8 + lane % 4 * 2 + j % 2))
          score[t][j] = -INFINITY;
  }
#pragma unroll
  for (int l = 0; l < 2; ++l) {
    const float most = largest_of(score, l);
    if (lane % 4 == 0) group.largest[warp][l * 8 + lane / 4] = most;
  }
  group.barrier(group_index);
  LineWeights weights_of[2];
#pragma unroll
  for (int l = 0; l < 2; ++l) {
    part.largest[l] = group.largest[0][l * 8 + lane / 4];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) part.largest[l] = Larger{}(part.largest[l], group.largest[w][l * 8 + lane / 4]);
    weights_of[l] = LineWeights(work, part.largest[l]);
  }
  group.weight[warp][lane] = {
      weights_of[0].pair(score[0][0], score[0][1]), weights_of[1].pair(score[0][2], score[0][3]),
      weights_of[0].pair(score[1][0], score[1][1]), weights_of[1].pair(score[1][2], score[1][3])};
  group.barrier(group_index);
  uint4 weight[kChunkSteps];
#pragma unroll
  for (int step = 0; step < kChunkSteps; ++step) weight[step] = group.weight[step][lane];
#pragma unroll
  for (int step = 0; step < kChunkSteps; ++step)
#pragma unroll
    for (int t = 0; t < kDimTiles; t += 2) {
      const int key = step * 16 + lane % 16, unit = warp * kDimTiles + t + lane / 16;
      const uint4 v = load_transposed(&stage.value[key][Stage<kDims>::value_unit(key, unit)]);
      mma(part.output[t], weight[step], uint2{v.x, v.y});
      mma(part.output[t + 1], weight[step], uint2{v.z, v.w});
    }
  if (non_numbers)
    add_non_numbers(work, tile, kv_head, line, weight, chunk_begin, keys.first, keys.last, warp * kDimTiles,
                    part.output);
  if (wants_sum) {
    float sums[4] = {};  // columns of ones
#pragma unroll
    for (int step = 0; step < kChunkSteps; ++step) mma(sums, weight[step], uint2{kOnes, kOnes});
    part.sum[0] = sums[0], part.sum[1] = sums[2];
  }
}

/// kWhole: a block takes all chunks, else one.
template <int kDims, bool kWhole>
__global__ void __launch_bounds__((most_groups(kWhole) + kFetchers<kWhole>)*kThreads, kWhole ? 1 : 2)
    attention_few_kernel(AttentionWork work) {
  constexpr int kOctets = kDims / 16;  // of a line, each with the one that is turned with it
  constexpr int kDimTiles = ChunkPart<kDims>::kDimTiles;
  extern __shared__ __align__(128) char memory[];
  const int group_index = int(threadIdx.x) / kThreads, thread = int(threadIdx.x) % kThreads;
  const int warp = thread / 32, lane = thread % 32;
  Stage<kDims>* const stages = reinterpret_cast<Stage<kDims>*>(memory);
  const bool fetches = kWhole ? int(threadIdx.x) + kThreads >= int(blockDim.x) : group_index == 0;
  const int stages_of_ring = kWhole ? work.plan.ring_stages : 1;
  Group<kDims>& group = reinterpret_cast<Group<kDims>*>(memory + stages_of_ring * sizeof(Stage<kDims>))[group_index];

  // the last tiles, which see the most keys, begin first
  const LineTile tile = work.plan.tile[work.plan.num_tiles - 1 - int(blockIdx.y)];
  const int kv_head = blockIdx.x;
  const KeyRange keys(work, tile);
  int chunk = kWhole ? keys.first / kDeviceChunk : int(blockIdx.z);
  const bool any =
      kWhole ? keys.first < keys.last : chunk * kDeviceChunk < keys.last && (chunk + 1) * kDeviceChunk > keys.first;
  const int end_chunk = !any ? chunk : kWhole ? (keys.last + kDeviceChunk - 1) / kDeviceChunk : chunk + 1;
  const int32_t own = work.plan.kv_len[tile.first_row] - 1;  // of the sequence's first row
  const int32_t fresh = work.fresh.factors ? own : INT32_MAX;
  const int index = thread / kOctets, octet = thread % kOctets;  // whose query this thread takes
  const auto line_at = [&](int i) { return line_of(work, tile, kv_head, group_index * kGroupLines + i); };
  const Line mine = line_at(index), line[2] = {line_at(lane / 4), line_at(lane / 4 + 8)};
  const auto page_at = [&](int c) { return c < end_chunk ? page_for_lane(work, tile, c, keys.first, keys.last) : 0; };
  const auto fetch_chunk = [&](int c, int32_t page, Stage<kDims>& to) {
    if (!fetches) return;
    if (c < end_chunk) fetch(work, kv_head, c, page, keys.first, keys.last, fresh, to);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  {  // the first chunks
    bool has_waited = false;
#pragma unroll 1
    for (int ahead = 0; ahead < (kWhole ? stages_of_ring - 1 : 1); ++ahead) {
      const int c = chunk + ahead;
      const bool is_early =
          work.plan.keys_stay && c < end_chunk && (work.fresh.factors || (c + 1) * kDeviceChunk <= own);
      if (!is_early && !has_waited) {
        wait_for_predecessor();
        has_waited = true;
      }
      fetch_chunk(c, page_at(c), stages[ahead]);
    }
    if (!has_waited) wait_for_predecessor();
  }
  if (!kWhole && !any) return;
  if (index < kGroupLines && !(kWhole && fetches)) take_query<kDims>(work, mine, index, octet, group);
  if (kWhole) launch_dependents();  // not before, as in norm.cu

  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {}, output[kDimTiles][4] = {};
  int turn = 0, before = stages_of_ring - 1;  // stages of this chunk and of the one before
  int32_t next_page = kWhole ? page_at(chunk + stages_of_ring - 1) : 0;
  for (bool goes_on = any; goes_on; goes_on = kWhole && ++chunk < end_chunk) {
    const int32_t chunk_begin = chunk * kDeviceChunk, chunk_end = chunk_begin + kDeviceChunk;
    const int32_t fresh_begin = max(fresh, chunk_begin), seen_end = min(keys.last, chunk_end);
    Stage<kDims>& stage = stages[turn];
    if (fresh_begin < seen_end)
      take_fresh<kDims>(work, tile, kv_head, chunk_begin, fresh, fresh_begin, seen_end, stage);
    if (!kWhole) launch_dependents();
    if (!kWhole)
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    else if (stages_of_ring == kStagesAlone)
      asm volatile("cp.async.wait_group %0;" ::"n"(kStagesAlone - 2) : "memory");
    else
      asm volatile("cp.async.wait_group %0;" ::"n"(kStagesBeside - 2) : "memory");
    __syncthreads();  // all have what they need of the stage before this one, too
    if (kWhole) {
      fetch_chunk(chunk + stages_of_ring - 1, next_page, stages[before]);
      if (fetches) next_page = page_at(chunk + stages_of_ring);
      before = turn;
      turn = turn + 1 < stages_of_ring ? turn + 1 : 0;
    }
    bool non_numbers = false;
    if (keys.seen_first > chunk_begin || keys.seen_last < seen_end)  // a value that is no number must not reach the
      non_numbers = __syncthreads_or(fetches && clear_non_numbers(stage));  // lines that do not see its key
    if (kWhole && fetches) continue;

    ChunkPart<kDims> part;
    attend<kDims>(work, tile, kv_head, keys, line, chunk_begin, non_numbers, stage, group, group_index,
                  kWhole || warp == 0, part);
    if constexpr (kWhole) {
      const float here_largest[2] = {part.largest[0] * work.scale, part.largest[1] * work.scale};
      Rescale rescale[2];
      rescale_to(line, chunk_begin, here_largest, part.sum, largest, sum, rescale);
#pragma unroll
      for (int t = 0; t < kDimTiles; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j) output[t][j] = rescale[j / 2].add(output[t][j], part.output[t][j]);
    } else {
#pragma unroll
      for (int l = 0; l < 2; ++l) {
        if (!line[l].sees_any(chunk_begin)) continue;
        float* const left = work.left_by(line[l].row, line[l].head, chunk);
#pragma unroll
        for (int t = 0; t < kDimTiles; ++t) {
          const int d = (warp * kDimTiles + t) * 8 + lane % 4 * 2;
          if (d < work.v_dim)
            *reinterpret_cast<float2*>(left + kHeader + d) = {part.output[t][l * 2], part.output[t][l * 2 + 1]};
        }
        if (warp == 0 && lane % 4 == 0) *reinterpret_cast<float2*>(left) = {part.largest[l] * work.scale, part.sum[l]};
      }
    }
  }
  if constexpr (kWhole) {
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (line[l].begin == line[l].end && !line[l].is_padding) continue;
      const LineOut to(work, line[l]);
#pragma unroll
      for (int t = 0; t < kDimTiles; ++t) {
        if ((warp * kDimTiles + t) * 8 >= work.v_dim) break;
        to.put(warp * kDimTiles + t, line[l].is_padding ? 0.0f : output[t][l * 2] / sum[l],
               line[l].is_padding ? 0.0f : output[t][l * 2 + 1] / sum[l]);
      }
    }
  }
}

template <int kDims, bool kWhole>
void run(const AttentionWork& work, cudaStream_t stream) {
  const AttentionPlan& plan = work.plan;
  const int groups = (plan.most_lines + kGroupLines - 1) / kGroupLines;
  launch(attention_few_kernel<kDims, kWhole>,
         dim3(unsigned(work.num_kv_heads), unsigned(plan.num_tiles), kWhole ? 1u : unsigned(plan.num_chunks)),
         dim3(unsigned((groups + kFetchers<kWhole>)*kThreads)),
         shared_bytes<kDims>(kWhole ? plan.ring_stages : 1, groups), stream, work);
}

/// The most stages up to `wanted` for which a block finds room; 0: none of these numbers.
template <int kDims>
int stages_with_room(int wanted, const cudaDeviceProp& device) {
  for (const int stages : {kStagesAlone, kStagesBeside})
    if (stages <= wanted && shared_bytes<kDims>(stages, most_groups(true)) <= device.sharedMemPerBlockOptin)
      return stages;
  return 0;
}

template <int kDims, bool kWhole>
void prepare(const cudaDeviceProp& device) {
  const int stages = kWhole ? stages_with_room<kDims>(kStagesAlone, device) : 1;
  if (stages == 0) return;
  check(cudaFuncSetAttribute(attention_few_kernel<kDims, kWhole>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             int(shared_bytes<kDims>(stages, most_groups(kWhole)))),
        "cudaFuncSetAttribute");
}

}  // namespace

int attention_ring_stages(const KvView& kv, int num_tiles, int most_lines, const cudaDeviceProp& device) {
  if (most_lines > kFewLines) return 0;
  const bool is_alone = num_tiles * kv.num_kv_heads <= device.multiProcessorCount;
  const int wanted = is_alone ? kStagesAlone : kStagesBeside;
  return kv.k_dim <= 64 ? stages_with_room<64>(wanted, device) : stages_with_room<128>(wanted, device);
}

void prepare_attention_few(const cudaDeviceProp& device) {
  prepare<64, false>(device), prepare<64, true>(device), prepare<128, false>(device), prepare<128, true>(device);
}

void attention_few(const AttentionWork& work, cudaStream_t stream) {
  if (work.plan.whole)
    work.k_dim <= 64 ? run<64, true>(work, stream) : run<128, true>(work, stream);
  else
    work.k_dim <= 64 ? run<64, false>(work, stream) : run<128, false>(work, stream);
}

}  // namespace paceline::cuda
