// Attention by tensor cores over bfloat16 pages. A warp takes 16 lines, a block four warps and one KV head; keys come
// in chunks of kDeviceChunk through shared memory. In a chunk: scores = scale (q · k) with q rounded to bfloat16;
// weights e^(score - maximum) rounded to bfloat16; their sum and the output by the same instruction, keys in order. A
// line's bits depend on its own keys only, and are the same whether a block takes one chunk or all (FlashAttention-2's
// loop, Dao 2023, section 3.1, with its rescaling once a chunk).

#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/math/rope.h"

namespace paceline::cuda {
namespace {

/// What turns a lane's dimensions of the queries of its two lines (load_queries).
template <int kDims>
struct QueryFactors {
  float4 of[kDims / 64][2][4];  // [group of the first half][line]

  __device__ __forceinline__ void load(const AttentionWork& work, const Line (&line)[2]) {
    if (!work.fresh.factors) return;
#pragma unroll
    for (int group = 0; group < kDims / 64; ++group)
#pragma unroll
      for (int l = 0; l < 2; ++l) {
        if (line[l].begin >= line[l].end) continue;
        const float2* const from = work.fresh.factors + int64_t{line[l].end - 1} * (kDims / 2) + group * 32;
#pragma unroll
        for (int i = 0; i < 4; ++i)
          of[group][l][i] = __ldcg(reinterpret_cast<const float4*>(from + threadIdx.x % 4 * 8) + i);
      }
  }
};

/// Queries of a warp's lines, turned where that is left to attention: in a group of 32 dimensions lane l holds 8
/// neighbouring ones from 8 (l % 4) on, and so do the keys; which product comes in which of a group's two steps is all
/// that changes. The dimensions that are turned together lie in the same lane. kAligned: to fours.
template <int kDims, bool kAligned>
__device__ __forceinline__ void load_queries(const AttentionWork& work, const Line (&line)[2],
                                             const QueryFactors<kDims>& factors, uint4 (&query)[kDims / 16]) {
  constexpr int kHalf = kDims / 2, kGroups = kHalf / 32;  // of a half
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const int first = group * 32 + threadIdx.x % 4 * 8;
    float x[2][2][8] = {};  // [line][half]
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (line[l].begin >= line[l].end) continue;
      const float* const from = work.q + line[l].row * work.q_stride + int64_t{line[l].head} * work.k_dim;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = first + half * kHalf;
        if (at >= work.k_dim) continue;
        if (kAligned) {
          const float4 low = __ldcg(reinterpret_cast<const float4*>(from + at));
          const float4 high = __ldcg(reinterpret_cast<const float4*>(from + at) + 1);
          float(&to)[8] = x[l][half];
          to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
          to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
        } else {
#pragma unroll
          for (int d = 0; d < 8; ++d) x[l][half][d] = from[at + d];
        }
      }
      if (!work.fresh.factors) continue;
#pragma unroll
      for (int d = 0; d < 8; d += 2) {
        const float4 two = factors.of[group][l][d / 2];
        math::rotate_pair(x[l][0][d], x[l][1][d], two.x, two.y);
        math::rotate_pair(x[l][0][d + 1], x[l][1][d + 1], two.z, two.w);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const float(&a)[8] = x[0][half], (&b)[8] = x[1][half];
        query[(group + half * kGroups) * 2 + step] = {
            bfloat_pair(a[step * 4], a[step * 4 + 1]), bfloat_pair(b[step * 4], b[step * 4 + 1]),
            bfloat_pair(a[step * 4 + 2], a[step * 4 + 3]), bfloat_pair(b[step * 4 + 2], b[step * 4 + 3])};
      }
  }
}

constexpr int kStages = 2, kBlocksOfSm = 2;
constexpr int kMostSets = 2;
constexpr int kFewestChunks = 4;  // for two sets

/// What the second of two sets of warps has found of a chunk, on its way to the first, which adds all chunks in order:
/// a place for each thread.
template <int kDims>
struct HandedPart {
  float4 lines[kThreads];  // largest scores and sums of both
  float4 output[kDims / 8][kThreads];

  __device__ static void say_filled() { say<kFilled>(); }
  __device__ static void await_filled() { await<kFilled>(); }
  __device__ static void say_emptied() { say<kEmptied>(); }
  __device__ static void await_emptied() { await<kEmptied>(); }

 private:
  static constexpr int kFilled = kMostSets, kEmptied = kFilled + 1;  // barriers behind those of the sets
  template <int kBarrier>
  __device__ static void say() {
    asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(kMostSets * kThreads) : "memory");
  }
  template <int kBarrier>
  __device__ static void await() {
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kMostSets * kThreads) : "memory");
  }
};
template <int kDims>
constexpr size_t shared_bytes(int sets) {
  return sizeof(Stage<kDims>) * size_t(kStages * sets) + (sets > 1 ? sizeof(HandedPart<kDims>) : 0);
}

/// kSets: of warps, which take chunks by turns: where a block is alone on its SM, one warp for each scheduler would
/// mostly wait for its own instructions. Of trees, a block leaves the sum of the chunks below them
/// (AttentionPlan::chunks_below).
template <int kDims, class Tile, int kSets = 1>
__global__ void __launch_bounds__(kThreads* kSets, kBlocksOfSm / kSets)
    attention_many_kernel(AttentionWork work, const __grid_constant__ PageMaps maps) {
  constexpr int kHalves = kDims / 64;  // of the dimensions, whose outputs are in registers together
  constexpr int kValueTiles = kDims / 8 / kHalves;
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(8) uint64_t barriers[kSets * 2 * kStages];
  // the last tiles, which see the most keys, begin first
  const Tile tile = work.tile_at(work.plan.num_tiles - 1 - int(blockIdx.y), static_cast<const Tile*>(nullptr));
  const int set = kSets == 1 ? 0 : int(threadIdx.x) / kThreads, thread = int(threadIdx.x) % kThreads;
  const int kv_head = blockIdx.x, warp = thread / 32, lane = thread % 32;
  const KeyRange& keys = tile.keys;
  const ChunkRange chunks = ChunkRange(keys).within(tile.begin_chunk, tile.end_chunk);
  const Takers takers{.threads = kThreads, .first = set * kThreads, .number = set};
  auto* const stages = reinterpret_cast<Stage<kDims>*>(memory);
  StageRing<kDims> ring(stages + set * kStages, barriers + set * 2 * kStages, kStages, kChunkParts, kWarps,
                        takers.first);
  StageRing<kDims> to_fill = ring;
  KeyFetcher<kDims, kChunkParts> fetcher(work, maps, tile, kv_head, keys.first, keys.last, chunks.begin + set, kSets);
  const auto fetch = [&](int chunk) {
    if (chunk >= chunks.end) return;
    Stage<kDims>& stage = to_fill.next_to_fill();
    fetcher.fetch(stage, to_fill.filled_barrier());
    to_fill.advance();
  };
  const int first_chunk = chunks.begin + set;
  const bool is_early = first_chunk < chunks.end && work.is_early(first_chunk, tile.own);
  if (!is_early) wait_for_predecessor();
  fetch(first_chunk);
  const Line line[2] = {line_of(work, tile, kv_head, warp * 16 + lane / 4),
                        line_of(work, tile, kv_head, warp * 16 + lane / 4 + 8)};
  QueryFactors<kDims> factors;
  factors.load(work, line);
  if (is_early) wait_for_predecessor();
  uint4 query[kDims / 16];
  if (work.q_aligned)
    load_queries<kDims, true>(work, line, factors, query);
  else
    load_queries<kDims, false>(work, line, factors, query);
  launch_dependents();  // not before, as in norm.cu

  const StageReader<kDims> reader;
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {}, output[kHalves][kValueTiles][4] = {};
  auto& handed = *reinterpret_cast<HandedPart<kDims>*>(stages + kSets * kStages);
#pragma unroll 1
  for (int chunk = first_chunk; chunk < chunks.end; chunk += kSets) {
    const int32_t chunk_begin = chunk * kDeviceChunk;
    fetch(chunk + kSets);
    Stage<kDims>& here = ring.next_filled();
    bool non_numbers = false;  // of values: they must not reach the lines that do not see their keys
    const bool all_see_whole = keys.all_see_whole(chunk_begin);
    if (!all_see_whole) {
      const bool wants_numbers = !keys.all_see(chunk_begin);
      takers.barrier();  // the ring has it, but racecheck does not see that a lane arrives for its warp
      non_numbers = clear_values(takers, chunk_begin, keys.first, keys.last, wants_numbers, here);
      if (!wants_numbers) takers.barrier();
    }

    float score[kKeyTiles][4] = {};
#pragma unroll
    for (int pair = 0; pair < kDims / 32; ++pair)  // of steps
#pragma unroll
      for (int t = 0; t < kKeyTiles; ++t) {
        const uint4 k = reader.key_unit(here, t * 8, pair);
        mma(score[t], query[pair * 2], uint2{k.x, k.y});
        mma(score[t], query[pair * 2 + 1], uint2{k.z, k.w});
      }
    if (!all_see_whole) {
      asm volatile("");  // a branch: most chunks are seen whole
#pragma unroll
      for (int t = 0; t < kKeyTiles; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (!line[j / 2].sees(chunk_begin + key_of_score(t * 8, j))) score[t][j] = -INFINITY;
    }
    float chunk_largest[2];
    LineWeights weights_of[2];
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      const float most = largest_of(score, l);
      chunk_largest[l] = most;
      weights_of[l] = LineWeights(work, most);
    }
    uint4 weight[kDeviceChunk / 16];
#pragma unroll
    for (int step = 0; step < kDeviceChunk / 16; ++step) {
      const auto pair = [&](int t, int l) { return weights_of[l].pair(score[t][l * 2], score[t][l * 2 + 1]); };
      weight[step] = {pair(step * 2, 0), pair(step * 2, 1), pair(step * 2 + 1, 0), pair(step * 2 + 1, 1)};
    }
    float sums[4] = {};  // columns of ones
#pragma unroll
    for (int step = 0; step < kDeviceChunk / 16; ++step) mma(sums, weight[step], uint2{kOnes, kOnes});
    Rescale rescale[2];
    const auto rescale_sums = [&](int32_t begin, const float(&largest_of)[2], float first, float second) {
      rescale_to(line, begin, largest_of, work.scale, largest, rescale);
      sum[0] = rescale[0].add(sum[0], first), sum[1] = rescale[1].add(sum[1], second);
    };
    if (set == 0) {
      rescale_sums(chunk_begin, chunk_largest, sums[0], sums[2]);
    } else {
      if (chunk > first_chunk) handed.await_emptied();
      handed.lines[thread] = {chunk_largest[0], chunk_largest[1], sums[0], sums[2]};
    }
    const auto add = [&](float(&to)[4], float4 part) {
      to[0] = rescale[0].add(to[0], part.x), to[1] = rescale[0].add(to[1], part.y);
      to[2] = rescale[1].add(to[2], part.z), to[3] = rescale[1].add(to[3], part.w);
    };
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float part[kValueTiles][4] = {};
#pragma unroll
      for (int step = 0; step < kDeviceChunk / 16; ++step)
#pragma unroll
        for (int t = 0; t < kValueTiles; t += 2) {
          const uint4 v = load_transposed(reader.value_row(here, step * 16, half * kValueTiles + t));
          mma(part[t], weight[step], uint2{v.x, v.y});
          mma(part[t + 1], weight[step], uint2{v.z, v.w});
        }
      if (non_numbers) add_non_numbers(work, tile, kv_head, line, weight, chunk_begin, half * kValueTiles, part);
#pragma unroll
      for (int t = 0; t < kValueTiles; ++t) {
        const float4 mine = {part[t][0], part[t][1], part[t][2], part[t][3]};
        if (set == 0)
          add(output[half][t], mine);
        else
          handed.output[half * kValueTiles + t][thread] = mine;
      }
    }
    ring.give_back();
    if (set > 0) {
      handed.say_filled();
    } else if (kSets > 1 && chunk + 1 < chunks.end) {
      handed.await_filled();
      const float4 lines = handed.lines[thread];
      rescale_sums(chunk_begin + kDeviceChunk, {lines.x, lines.y}, lines.z, lines.w);
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int t = 0; t < kValueTiles; ++t) add(output[half][t], handed.output[half * kValueTiles + t][thread]);
      if (chunk + 3 < chunks.end) handed.say_emptied();
    }
  }
  if (set > 0) return;
#pragma unroll
  for (int l = 0; l < 2; ++l) {
    if (line[l].begin == line[l].end && !line[l].is_padding) continue;
    if constexpr (kOfTree<Tile>) {
      float* const left = work.part_of(line[l].row, line[l].head, 0);
      if (lane % 4 == 0) *reinterpret_cast<float2*>(left) = {largest[l], sum[l]};
#pragma unroll
      for (int tile_of = 0; tile_of < kDims / 8; ++tile_of) {
        const float* const o = &output[tile_of / kValueTiles][tile_of % kValueTiles][l * 2];
        const int d = tile_of * 8 + lane % 4 * 2;
        if (d < work.v_dim) *reinterpret_cast<float2*>(left + kHeader + d) = {o[0], o[1]};
      }
      continue;
    }
    const float factor = factor_of(sum[l]);
    LineOut(work, line[l], 0).template put_all<kDims / 8>((work.v_dim + 7) / 8, [&](int tile_of) {
      const float* const o = &output[tile_of / kValueTiles][tile_of % kValueTiles][l * 2];
      return line[l].is_padding ? float2{} : float2{o[0] * factor, o[1] * factor};
    });
  }
}

template <int kDims>
void run(const AttentionWork& work, const PageMaps& maps, LaunchTo queue) {
  const int sets = work.plan.warp_sets;
  const auto kernel = work.plan.tree_tile ? attention_many_kernel<kDims, TreeTile>
                      : sets > 1          ? attention_many_kernel<kDims, LineTile, kMostSets>
                                          : attention_many_kernel<kDims, LineTile>;
  launch(kernel, dim3(unsigned(work.num_kv_heads), unsigned(work.plan.num_tiles)), dim3(unsigned(sets * kThreads)),
         shared_bytes<kDims>(sets), queue, work, maps);
}

bool has_room_for_sets(const cudaDeviceProp& device) {
  return shared_bytes<128>(kMostSets) + kReservedShared <= device.sharedMemPerBlockOptin;
}

}  // namespace

int attention_warp_sets(const KvView& kv, const AttentionPlan& plan, const cudaDeviceProp& device) {
  const bool is_alone = plan.num_tiles * kv.num_kv_heads <= device.multiProcessorCount;
  return is_alone && plan.num_chunks >= kFewestChunks && has_room_for_sets(device) ? kMostSets : 1;
}

void prepare_attention_many(const cudaDeviceProp& device) {
  const auto allow = [](auto* kernel, size_t bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)),
          "cudaFuncSetAttribute");
  };
  for (const auto kernel : {attention_many_kernel<128, LineTile>, attention_many_kernel<128, TreeTile>})
    allow(kernel, shared_bytes<128>(1));
  if (!has_room_for_sets(device)) return;
  allow(attention_many_kernel<64, LineTile, kMostSets>, shared_bytes<64>(kMostSets));
  allow(attention_many_kernel<128, LineTile, kMostSets>, shared_bytes<128>(kMostSets));
}

void attention_many(const AttentionWork& work, const PageMaps& maps, LaunchTo queue) {
  work.k_dim <= 64 ? run<64>(work, maps, queue) : run<128>(work, maps, queue);
}

}  // namespace paceline::cuda
