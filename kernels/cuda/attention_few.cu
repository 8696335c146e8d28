// Attention by tensor cores where lines are few, or blocks: four warps share 16 lines, a quarter of a chunk's keys for
// the scores, a quarter of the dimensions for the output. A block takes one KV head and either one chunk of the keys
// for all lines of a tile, whose parts the merge adds, or all chunks. A value is made by the instructions of
// attention_many.cu in their order, so the bits are the same. Where tiles are few, a team of blocks takes all chunks of
// one. Fresh rows need no kernel of their own: queries are turned on their way in, and the block whose chunk holds a
// row's key turns and stores it.

#include "kernels/cuda/attention_team.cuh"
#include "kernels/math/rope.h"

namespace paceline::cuda {
namespace {

constexpr int kGroupLines = 16;
/// Of a block.
constexpr int most_groups(bool whole) { return (whole ? kFewLines : kChunkLines) / kGroupLines; }
/// Of a block, that only fetch; else its first warp does besides.
template <bool kWhole>
constexpr int kFetchingThreads = kWhole ? 32 : 0;
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
constexpr size_t shared_bytes(int stages, int groups, int team_blocks = 1) {
  return sizeof(Stage<kDims>) * size_t(stages) + size_t(groups) * sizeof(Group<kDims>) +
         size_t(team_blocks - 1) * sizeof(HandedChunk<kDims>);
}

/// What turns four pairs of dimensions.
struct QuadFactors {
  float4 first = {}, second = {};

  /// factors: of a position, the first one's.
  __device__ __forceinline__ static QuadFactors at(const float2* factors) {
    const auto* const fours = reinterpret_cast<const float4*>(factors);
    return {__ldcg(fours), __ldcg(fours + 1)};
  }
};
/// Four neighbouring dimensions of the first half of a head, and those of the second half that are turned with them.
struct Quads {
  float4 low, high;

  __device__ __forceinline__ void turn(const QuadFactors& factors) {
    const float4 &first = factors.first, &second = factors.second;
    math::rotate_pair(low.x, high.x, first.x, first.y);
    math::rotate_pair(low.y, high.y, first.z, first.w);
    math::rotate_pair(low.z, high.z, second.x, second.y);
    math::rotate_pair(low.w, high.w, second.z, second.w);
  }
};
__device__ __forceinline__ uint2 bfloat_four(float4 x) { return {bfloat_pair(x.x, x.y), bfloat_pair(x.z, x.w)}; }

/// Keys and values [begin, end) of a tile's own rows, of which `fresh` is the first, into the stage and their pages.
template <int kDims>
__device__ __forceinline__ void take_fresh(const Takers& takers, const AttentionWork& work, const LineTile& tile,
                                           int kv_head, int32_t chunk_begin, int32_t fresh, int32_t begin, int32_t end,
                                           Stage<kDims>& stage) {
  constexpr int kHalf = kDims / 2, kRowItems = kDims / 4;  // of keys, then as many of values
#pragma unroll 1
  for (int i = threadIdx.x; i < (end - begin) * kRowItems; i += takers.threads) {
    const int32_t position = begin + i / kRowItems;
    const bool is_value = i % kRowItems >= kRowItems / 2;
    const int d = i % (kRowItems / 2) * 4, key = position - chunk_begin;
    const float* const from = (is_value ? work.fresh.v : work.fresh.k) +
                              int64_t{tile.first_row + position - fresh} * work.fresh.stride + kv_head * kDims + d;
    Quads x = {__ldcg(reinterpret_cast<const float4*>(from)), __ldcg(reinterpret_cast<const float4*>(from + kHalf))};
    if (!is_value) x.turn(QuadFactors::at(work.fresh.factors + int64_t{position} * kHalf + d));
    const uint2 low = bfloat_four(x.low), high = bfloat_four(x.high);
    uint4* const rows = is_value ? stage.value : stage.key;
    reinterpret_cast<uint2*>(rows + Stage<kDims>::place(key, d / 8))[d / 4 % 2] = low;
    reinterpret_cast<uint2*>(rows + Stage<kDims>::place(key, (kHalf + d) / 8))[d / 4 % 2] = high;
    auto* const page = static_cast<__nv_bfloat16*>(is_value ? work.fresh.v_pages : work.fresh.k_pages) +
                       row_in_pages(work, kv_head, page_of(work, tile, position), position) * kDims + d;
    *reinterpret_cast<uint2*>(page) = low;
    *reinterpret_cast<uint2*>(page + kHalf) = high;
  }
  fence_before_copy();
}

/// Keys and values of a path at positions [begin, end) from their pages into the stage.
template <int kDims>
__device__ __forceinline__ void take_path(const Takers& takers, const AttentionWork& work, const TreeTile& tile,
                                          int kv_head, int32_t chunk_begin, int32_t begin, int32_t end,
                                          Stage<kDims>& stage) {
  constexpr int kUnits = Stage<kDims>::kUnits;  // of a key, then as many of its value
#pragma unroll 1
  for (int i = threadIdx.x; i < (end - begin) * 2 * kUnits; i += takers.threads) {
    const int32_t position = begin + i / (2 * kUnits), place = work.place_of(tile, position);
    const bool is_value = i % (2 * kUnits) >= kUnits;
    const int unit = i % kUnits;
    const auto* const from = static_cast<const __nv_bfloat16*>(is_value ? work.v : work.k) +
                             row_in_pages(work, kv_head, page_of(work, tile, place), place) * work.k_dim + unit * 8;
    (is_value ? stage.value : stage.key)[Stage<kDims>::place(position - chunk_begin, unit)] =
        unit * 8 < work.k_dim ? __ldcg(reinterpret_cast<const uint4*>(from)) : uint4{};
  }
  fence_before_copy();
}

/// What turns a line's queries of an octet (take_query).
template <int kDims>
struct OctetFactors {
  QuadFactors of[2];

  __device__ __forceinline__ void load(const AttentionWork& work, const Line& line, int octet) {
    if (!work.fresh.factors || line.begin >= line.end) return;
    const float2* const factors = work.fresh.factors + int64_t{line.end - 1} * (kDims / 2) + octet * 8;
    of[0] = QuadFactors::at(factors), of[1] = QuadFactors::at(factors + 4);
  }
};

/// Line `index` of a group: its queries of eight dimensions, and of those half of all further on. octet: which.
template <int kDims>
__device__ __forceinline__ void take_query(const AttentionWork& work, const Line& line, int index, int octet,
                                           const OctetFactors<kDims>& factors, Group<kDims>& group) {
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
      for (int i = 0; i < 2; ++i) x[i].turn(factors.of[i]);
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

/// Over keys that lie in `stage`, for all warps of a group together. query(step): of 16 dimensions, as the product
/// takes them. found_largest(): once part.largest is known, while the rest is on its way.
template <int kDims, class Tile, class Query, class FoundLargest>
__device__ __forceinline__ void attend(const AttentionWork& work, const Tile& tile, int kv_head, const Line (&line)[2],
                                       int32_t chunk_begin, bool non_numbers, const Stage<kDims>& stage,
                                       Group<kDims>& group, int group_index, bool wants_sum, const Query& query,
                                       const FoundLargest& found_largest, ChunkPart<kDims>& part) {
  constexpr int kDimTiles = ChunkPart<kDims>::kDimTiles;
  const int warp = int(threadIdx.x) % kThreads / 32, lane = int(threadIdx.x) % 32;
  const StageReader<kDims> reader;
  float score[kWarpKeyTiles][4] = {};
#pragma unroll
  for (int pair = 0; pair < kDims / 32; ++pair)  // of steps
#pragma unroll
    for (int t = 0; t < kWarpKeyTiles; ++t) {
      const uint4 k = reader.key_unit(stage, (warp * kWarpKeyTiles + t) * 8, pair);
      mma(score[t], query(pair * 2), uint2{k.x, k.y});
      mma(score[t], query(pair * 2 + 1), uint2{k.z, k.w});
    }
  if (!tile.keys.all_see_whole(chunk_begin)) {
#pragma unroll
    for (int t = 0; t < kWarpKeyTiles; ++t)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (!line[j / 2].sees(chunk_begin + key_of_score((warp * kWarpKeyTiles + t) * 8, j))) score[t][j] = -INFINITY;
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
  found_largest();
#pragma unroll
  for (int step = 0; step < kChunkSteps; ++step)
#pragma unroll
    for (int t = 0; t < kDimTiles; t += 2) {
      const uint4 v = load_transposed(reader.value_row(stage, step * 16, warp * kDimTiles + t));
      mma(part.output[t], weight[step], uint2{v.x, v.y});
      mma(part.output[t + 1], weight[step], uint2{v.z, v.w});
    }
  if (non_numbers) add_non_numbers(work, tile, kv_head, line, weight, chunk_begin, warp * kDimTiles, part.output);
  if (wants_sum) {
    float sums[4] = {};  // columns of ones
#pragma unroll
    for (int step = 0; step < kChunkSteps; ++step) mma(sums, weight[step], uint2{kOnes, kOnes});
    part.sum[0] = sums[0], part.sum[1] = sums[2];
  }
}

/// A line's part, or sum of chunks; `l`: which of a thread's two; from eight dimensions, which are first_tile, on.
template <int kTiles>
__device__ __forceinline__ void leave(float* left, int v_dim, int first_tile, int l, float largest, float sum,
                                      const float (&output)[kTiles][4]) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const int d = (first_tile + t) * 8 + lane % 4 * 2;
    if (d < v_dim) *reinterpret_cast<float2*>(left + kHeader + d) = {output[t][l * 2], output[t][l * 2 + 1]};
  }
  if (first_tile == 0 && lane % 4 == 0) *reinterpret_cast<float2*>(left) = {largest, sum};
}

/// Of a block as its registers are dealt: as many as two blocks of one group that take all chunks have together, so
/// that they fit beside each other; more than there are of those that take one chunk, for 64 registers.
template <bool kWhole>
constexpr int kDealtThreads = kWhole ? 2 * (kThreads + kFetchingThreads<true>) : 512;

/// kWhole: a block takes all chunks, or those of a piece, and its last warp fetches them; else one chunk. Of trees: all
/// chunks below, whose sum it leaves; one chunk of a list. kOfTeam: blocks take all chunks together.
template <int kDims, bool kWhole, class Tile, bool kOfTeam = false>
__global__ void __launch_bounds__(kDealtThreads<kWhole>, kWhole ? 1 : 2)
    attention_few_kernel(AttentionWork work, const __grid_constant__ PageMaps maps) {
  static_assert(most_groups(kWhole) * kThreads + kFetchingThreads<kWhole> <= kDealtThreads<kWhole>);
  static_assert(!kOfTeam || (kWhole && !kOfTree<Tile>), "a team takes all chunks");
  constexpr int kOctets = kDims / 16;  // of a line, each with the one that is turned with it
  constexpr int kDimTiles = ChunkPart<kDims>::kDimTiles;
  extern __shared__ __align__(1024) char memory[];
  __shared__ __align__(8) uint64_t barriers[2 * (kWhole ? kStagesAlone : 1)];
  const Takers takers{int(blockDim.x) - kFetchingThreads<kWhole>};
  const int stages = kWhole ? work.plan.ring_stages : 1;

  constexpr bool kListed = kOfTree<Tile> && !kWhole;  // chunks, in x
  // the last tiles, which see the most keys, begin first
  TileChunk at{.tile = work.plan.num_tiles - 1 - int(blockIdx.y), .chunk = int(blockIdx.z)};
  if constexpr (kListed) at = work.plan.chunk[blockIdx.x];
  const Tile tile = work.tile_at(at.tile, static_cast<const Tile*>(nullptr));
  const int kv_head = kListed ? blockIdx.y : kOfTeam ? blockIdx.x / unsigned(work.plan.team_blocks) : blockIdx.x;
  const KeyRange& keys = tile.keys;
  ChunkRange chunks(keys);
  chunks = kWhole ? chunks.within(tile.begin_chunk, tile.end_chunk) : chunks.only(at.chunk);
  using Sharers = std::conditional_t<kOfTeam, Team<kDims>, NoTeam>;
  __shared__ __align__(8) typename Sharers::Barriers team_barriers;
  const Sharers team(
      reinterpret_cast<HandedChunk<kDims>*>(memory + shared_bytes<kDims>(stages, takers.threads / kThreads)),
      team_barriers, work.plan.team_blocks, chunks.end - chunks.begin, takers.threads);
  const int first_chunk = chunks.begin + team.rank();
  const bool adds = kWhole && tile.begin_chunk == 0 && team.is_first();  // else each chunk leaves its part
  const int group_index = int(threadIdx.x) / kThreads, thread = int(threadIdx.x) % kThreads;
  const int warp = thread / 32, lane = thread % 32;
  const int index = thread / kOctets, octet = thread % kOctets;  // whose query this thread takes
  const auto line_at = [&](int i) { return line_of(work, tile, kv_head, group_index * kGroupLines + i); };
  const Line mine = line_at(index), line[2] = {line_at(lane / 4), line_at(lane / 4 + 8)};
  const LineOut out[2] = {{work, line[0], warp * kDimTiles}, {work, line[1], warp * kDimTiles}};
  constexpr int kFillers = kWhole ? 1 : kChunkParts;
  StageRing<kDims> ring(reinterpret_cast<Stage<kDims>*>(memory), barriers, stages, kFillers, takers.threads / 32);
  team.meet();
  OctetFactors<kDims> factors;
  KeyFetcher<kDims, kFillers> fetcher(work, maps, tile, kv_head, keys.first, keys.last, first_chunk, team.size());
  if constexpr (kWhole) {
    if (int(threadIdx.x) >= takers.threads) {
      bool has_waited = false;
      for (int chunk = first_chunk; chunk < chunks.end; chunk += team.size()) {
        if (!has_waited && !work.is_early(chunk, tile.own)) wait_for_predecessor(), has_waited = true;
        Stage<kDims>& stage = ring.next_to_fill();
        fetcher.fetch(stage, ring.filled_barrier());
        ring.advance();
      }
      if (!has_waited) wait_for_predecessor();
      KeyFetcher<kDims, kFillers>::finish();
      return;
    }
    if (!work.plan.keys_stay) wait_for_predecessor();
    if (index < kGroupLines) factors.load(work, mine, octet);
    wait_for_predecessor();
  } else {
    const bool any = chunks.begin < chunks.end, is_early = any && work.is_early(chunks.begin, tile.own);
    if (!is_early) wait_for_predecessor();
    if (!any) return;
    if (threadIdx.x < kFillers * 32) fetcher.fetch(ring.next_to_fill(), ring.filled_barrier());
    if (index < kGroupLines) factors.load(work, mine, octet);
    const int32_t chunk_begin = chunks.begin * kDeviceChunk;
    if (!keys.all_see_whole(chunk_begin))
      clear_values(takers, chunk_begin, keys.first, keys.last, false, ring.next_filled());
    if (is_early) wait_for_predecessor();
  }

  Group<kDims>& group = reinterpret_cast<Group<kDims>*>(memory + stages * sizeof(Stage<kDims>))[group_index];
  const int32_t fresh = !kOfTree<Tile> && work.fresh.k ? tile.own : INT32_MAX;  // the first position
  if (index < kGroupLines) take_query<kDims>(work, mine, index, octet, factors, group);
  if (kWhole) {
    launch_dependents();  // not before, as in norm.cu
    group.barrier(group_index);
  }

  uint4 of_step[kWhole ? kDims / 16 : 1] = {};  // in registers where they serve several chunks
  if constexpr (kWhole)
#pragma unroll
    for (int step = 0; step < kDims / 16; ++step) of_step[step] = group.query[step][lane];
  const auto query = [&](int step) {
    if constexpr (kWhole)
      return of_step[step];
    else
      return group.query[step][lane];
  };

  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {}, output[kDimTiles][4] = {};
  // from there on a line does not see all keys, or some do not lie in their pages yet
  int32_t plain_end = min(keys.seen_last, fresh);
  if constexpr (kListed) plain_end = min(plain_end, tile.tree_begin);
  const auto add = [&](const ChunkPart<kDims>& part, const Rescale(&rescale)[2]) {
#pragma unroll
    for (int l = 0; l < 2; ++l) sum[l] = rescale[l].add(sum[l], part.sum[l]);
#pragma unroll
    for (int t = 0; t < kDimTiles; ++t)
#pragma unroll
      for (int j = 0; j < 4; ++j) output[t][j] = rescale[j / 2].add(output[t][j], part.output[t][j]);
  };
  const auto add_handed = [&](int round) {
#pragma unroll 1
    for (int block = 1; block < team.size(); ++block) {
      const int chunk = team.chunk_of(block, round);
      if (chunk < 0) break;
      ChunkPart<kDims> part;
      team.take(part, block, round);
      Rescale rescale[2];
      rescale_to(line, (chunks.begin + chunk) * kDeviceChunk, part.largest, work.scale, largest, rescale);
      add(part, rescale);
    }
  };
  team.await_others();
  int round = 0;
  for (int chunk = first_chunk; chunk < chunks.end; chunk += team.size(), ++round) {
    const int32_t chunk_begin = chunk * kDeviceChunk;
    const bool is_plain = chunk_begin >= keys.seen_first && chunk_begin + kDeviceChunk <= plain_end;
    Stage<kDims>& stage = ring.next_filled();
    bool takes_more = false;
    bool non_numbers = false;  // of values: they must not reach the lines that do not see their keys
    if (!is_plain) {
      const int32_t begin = max(keys.first, chunk_begin), end = min(keys.last, chunk_begin + kDeviceChunk);
      if constexpr (kListed) {
        const int32_t path_begin = max(tile.tree_begin, begin);
        takes_more = path_begin < end;
        if (takes_more) take_path<kDims>(takers, work, tile, kv_head, chunk_begin, path_begin, end, stage);
      } else if constexpr (!kOfTree<Tile>) {
        const int32_t fresh_begin = max(fresh, begin);
        takes_more = fresh_begin < end;
        if (takes_more) take_fresh<kDims>(takers, work, tile, kv_head, chunk_begin, fresh, fresh_begin, end, stage);
      }
    }
    const bool wants_numbers = !is_plain && !keys.all_see(chunk_begin),
               at_once = wants_numbers && kWhole && !takes_more;
    if (kWhole && !keys.all_see_whole(chunk_begin))  // what others write meanwhile lies within, and is let alone here
      non_numbers = clear_values(takers, chunk_begin, keys.first, keys.last, at_once, stage);
    if (!kWhole) launch_dependents();
    if (!kWhole || (!is_plain && !at_once)) takers.barrier();
    if (wants_numbers && !at_once) non_numbers = clear_values(takers, chunk_begin, keys.first, keys.last, true, stage);

    ChunkPart<kDims> part;
    Rescale rescale[2];
    const auto found_largest = [&] {
      if (kOfTeam && adds && round > 0) add_handed(round - 1);  // which have come meanwhile
      if (adds) rescale_to(line, chunk_begin, part.largest, work.scale, largest, rescale);
    };
    attend<kDims>(work, tile, kv_head, line, chunk_begin, non_numbers, stage, group, group_index, kWhole || warp == 0,
                  query, found_largest, part);
    if (adds) {
      add(part, rescale);
    } else if (kOfTeam) {
      team.hand(part, round);
    } else {
      const int index_of_part = kWhole || kListed ? chunk - tile.before_part : chunk;
#pragma unroll
      for (int l = 0; l < 2; ++l) {
        if (!line[l].sees_any(chunk_begin)) continue;
        float* const left = kWhole ? work.left_by(tile, line[l].row, line[l].head, index_of_part)
                                   : work.part_of(line[l].row, line[l].head, index_of_part);
        leave<kDimTiles>(left, work.v_dim, warp * kDimTiles, l, part.largest[l] * work.scale, part.sum[l], part.output);
      }
    }
    if (!kWhole) return;
    ring.give_back();
  }
  if constexpr (kWhole) {
    if (!adds) return;
    if (kOfTeam && round > 0) add_handed(round - 1);
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      if (line[l].begin == line[l].end && !line[l].is_padding) continue;
      if (kOfTree<Tile> || tile.row_parts > 0) {
        leave<kDimTiles>(work.left_by(tile, line[l].row, line[l].head, 0), work.v_dim, warp * kDimTiles, l, largest[l],
                         sum[l], output);
        continue;
      }
      const float factor = factor_of(sum[l]);
#pragma unroll
      for (int t = 0; t < kDimTiles; ++t) {
        if ((warp * kDimTiles + t) * 8 >= work.v_dim) break;
        out[l].put(t, line[l].is_padding ? 0.0f : output[t][l * 2] * factor,
                   line[l].is_padding ? 0.0f : output[t][l * 2 + 1] * factor);
      }
    }
  }
}

template <int kDims, bool kWhole>
void run(const AttentionWork& work, const PageMaps& maps, LaunchTo queue) {
  const AttentionPlan& plan = work.plan;
  const unsigned team = kWhole ? unsigned(plan.team_blocks) : 1;
  const auto start = [&](auto* kernel, int most_lines, dim3 grid) {
    const int groups = (most_lines + kGroupLines - 1) / kGroupLines;
    launch_with({.cluster = dim3(team)}, kernel, grid, dim3(unsigned(groups * kThreads + kFetchingThreads<kWhole>)),
                shared_bytes<kDims>(kWhole ? plan.ring_stages : 1, groups, int(team)), queue, work, maps);
  };
  const unsigned heads = unsigned(work.num_kv_heads), tiles = unsigned(plan.num_tiles);
  if (team > 1)
    start(attention_few_kernel<kDims, true, LineTile, true>, plan.most_lines, dim3(heads * team, tiles));
  else if (!plan.tree_tile)
    start(attention_few_kernel<kDims, kWhole, LineTile>, plan.most_lines,
          dim3(heads, tiles, kWhole ? 1u : unsigned(plan.num_chunks)));
  else if (kWhole)
    start(attention_few_kernel<kDims, kWhole, TreeTile>, plan.most_lines, dim3(heads, tiles));
  else
    start(attention_few_kernel<kDims, kWhole, TreeTile>, plan.most_chunk_lines,
          dim3(unsigned(plan.num_tile_chunks), heads));
}

/// The most stages up to `wanted` for which a block finds room; 0: none of these numbers.
template <int kDims>
int stages_with_room(int wanted, const cudaDeviceProp& device) {
  for (const int stages : {kStagesAlone, kStagesBeside})
    if (stages <= wanted && shared_bytes<kDims>(stages, most_groups(true)) <= device.sharedMemPerBlockOptin)
      return stages;
  return 0;
}

/// Of a team's block.
template <int kDims>
constexpr size_t kTeamBytes = shared_bytes<kDims>(kStagesBeside, most_groups(true), kMostTeamBlocks);
bool has_room_for_teams(const cudaDeviceProp& device) {
  return device.major >= 9 && kTeamBytes<128> + kReservedShared <= device.sharedMemPerBlockOptin;
}

template <int kDims, bool kWhole>
void prepare(const cudaDeviceProp& device) {
  const int stages = kWhole ? stages_with_room<kDims>(kStagesAlone, device) : 1;
  if (stages == 0) return;
  const auto allow = [](auto* kernel, size_t bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)),
          "cudaFuncSetAttribute");
  };
  for (const auto kernel :
       {attention_few_kernel<kDims, kWhole, LineTile>, attention_few_kernel<kDims, kWhole, TreeTile>})
    allow(kernel, shared_bytes<kDims>(stages, most_groups(kWhole)));
  if (kWhole && has_room_for_teams(device)) allow(attention_few_kernel<kDims, true, LineTile, true>, kTeamBytes<kDims>);
}

}  // namespace

int attention_blocks_each(int most_lines) {
  return most_lines > kGroupLines ? 1 : 2;  // two groups and a warp leave no registers for another block
}

int attention_ring_stages(const KvView& kv, int num_tiles, int most_lines, int team_blocks,
                          const cudaDeviceProp& device) {
  if (most_lines > kFewLines) return 0;
  if (team_blocks > 1) return kStagesBeside;
  const bool is_alone =
      num_tiles * kv.num_kv_heads <= device.multiProcessorCount || attention_blocks_each(most_lines) == 1;
  const int wanted = is_alone ? kStagesAlone : kStagesBeside;
  return kv.k_dim <= 64 ? stages_with_room<64>(wanted, device) : stages_with_room<128>(wanted, device);
}

int attention_team_blocks(int num_rows, int num_pairs, const cudaDeviceProp& device) {
  constexpr int kFewestRows = 17;  // of fewer, what chunks leave is soon merged
  const int sms = device.multiProcessorCount;
  if (num_rows < kFewestRows || num_pairs * kMostTeamBlocks < sms * 2 / 3 || !has_room_for_teams(device)) return 1;
  // clusters of 2, 3 and 4 that run at once: 66, 39 and 30 on 132 multiprocessors (cudaOccupancyMaxActiveClusters)
  return num_pairs <= sms * 2 / 9 ? 4 : num_pairs <= sms * 3 / 10 ? 3 : num_pairs <= sms / 2 ? 2 : 1;
}

void prepare_attention_few(const cudaDeviceProp& device) {
  prepare<64, false>(device), prepare<64, true>(device), prepare<128, false>(device), prepare<128, true>(device);
}

void attention_few(const AttentionWork& work, const PageMaps& maps, LaunchTo queue) {
  work.k_dim <= 64 ? run<64, true>(work, maps, queue) : run<128, true>(work, maps, queue);
}

void attention_chunks(const AttentionWork& work, const PageMaps& maps, LaunchTo queue) {
  work.k_dim <= 64 ? run<64, false>(work, maps, queue) : run<128, false>(work, maps, queue);
}

}  // namespace paceline::cuda
