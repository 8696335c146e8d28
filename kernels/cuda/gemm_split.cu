// The GEMM of 33 rows and more. Of up to 128 each weight is read once, by one block for 128 outputs and all rows;
// beyond, by two blocks, a cluster, each with 128 or 96 rows of its own: each copies half of the weights into the
// shared memory of both. Persistent teams (a block or such a pair) take whole tiles of outputs in turn; the chunks of
// those that are left over are shared by all, or they make a narrow tile for each (split_shares.h). wgmma has the bits
// of mma.m16n8k16 (wgmma.cuh), chunks and tree are those of gemm_bf16.cu: so are the bits of an output.
//
// Two warpgroups compute, each 64 outputs x all rows in registers. Two more warps copy weights and rows through a ring,
// the weights before the predecessor ends. What a block has summed of a tile that is left over lies in memory at the
// place of its first chunk, but for rows that it keeps and finishes itself; a block that has put all of its own there
// says so, warp by warp, and waits only then, for the others that share the tile. Each of them finishes some of the
// rows: it adds all sums as the tree wants. (One block that finished the tile for all took three times as long.) The
// first warpgroup has the first eight outputs of each tile of 16, the second one the others: so their matrices lie
// evenly spaced, as wgmma wants them, and of a gated product a warp has a gate and what it gates.
//
// Small blocks of straight code and no spilled registers: at 128 rows shared memory leaves the L1 next to nothing, and
// with spills in a chunk's addition the product took three times as long. What a block does once, before its first
// stage and behind its last one, takes as long as its instructions are under way: 0.3 us a hundred. So nothing is
// divided there, what the host can know comes from it, and a turn of a loop does little.

#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/row_finish.cuh"
#include "kernels/cuda/split_ring.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace paceline::cuda {
namespace {

using namespace split;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
/// A thread's sums: of 16 outputs of its warp, those of two for each two of 8 rows.
template <class S>
struct Sums {
  float of[S::kSums];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < S::kSums; ++i) of[i] = 0.0f;
  }
  /// wgmmas read and write them from here on, or have done so: no move of them passes.
  __device__ __forceinline__ void hold() {
#pragma unroll
    for (int i = 0; i < S::kSums; ++i) asm volatile("" : "+f"(of[i])::"memory");
  }
  __device__ __forceinline__ void add(const Sums& x) {
#pragma unroll
    for (int i = 0; i < S::kSums; ++i) of[i] = x.of[i] + of[i];
  }
  /// x: the first of kRowTiles places, kThreads apart.
  __device__ __forceinline__ void add(const float4* x) {
#pragma unroll
    for (int t = 0; t < S::kRowTiles; ++t) {
      const float4 y = x[t * kThreads];
      float* const sum = of + t * 4;
      sum[0] = y.x + sum[0], sum[1] = y.y + sum[1], sum[2] = y.z + sum[2], sum[3] = y.w + sum[3];
    }
  }
  /// to: the first of row_tiles places, kThreads apart.
  __device__ __forceinline__ void put(float4* to, int row_tiles) const {
#pragma unroll
    for (int t = 0; t < S::kRowTiles; ++t)
      if (t < row_tiles) to[t * kThreads] = row_tile(t);
  }
  /// Those of [begin, end) to the places from `here` on.
  __device__ __forceinline__ void put(float4* to, int row_tiles, int begin, int end, float4* here) const {
    const unsigned all = (1u << row_tiles) - 1, near = ((1u << end) - 1) & ~((1u << begin) - 1), far = all & ~near;
#pragma unroll
    for (int t = 0; t < S::kRowTiles; ++t) {
      if (near >> t & 1) here[t * kThreads] = row_tile(t);
      if (far >> t & 1) to[t * kThreads] = row_tile(t);
    }
  }

 private:
  __device__ __forceinline__ float4 row_tile(int t) const {
    return {of[t * 4], of[t * 4 + 1], of[t * 4 + 2], of[t * 4 + 3]};
  }
};

/// The sums of the chunk at `at`. The wgmmas of a stage run while the next one comes, those of the first one beside
/// `beside()`.
template <class S, class Beside>
__device__ __forceinline__ void multiply_chunk(typename S::Shared& shared, StageCursor<S>& at, int row_tiles,
                                               Sums<S>& sums, const Beside& beside) {
  constexpr int kMatrix = 8 * sizeof(uint4), kStepBytes = 4 * kMatrix;  // of a tile of weights
  const int warpgroup = __shfl_sync(0xffffffffu, int(threadIdx.x) / 128, 0), lane = threadIdx.x % 32;
  const int row_step_bytes = row_tiles * 2 * kMatrix;
  const auto begin = [&] {
    const int steps = at.steps();
    wait_at(shared_address(&shared.full[at.ring.slot]), at.ring.parity);
    // the first warpgroup has the first eight outputs of each tile
    const uint64_t weights =
        matrices_at(shared.weights[at.ring.slot][0] + warpgroup * 8, 2 * kMatrix, sizeof(shared.weights[0][0]));
    const uint64_t rows = matrices_at(shared.rows[at.ring.slot], kMatrix, 2 * kMatrix);
    const auto multiply = [&](int step) {
      wgmma(sums.of, weights + bytes_on(step * kStepBytes), rows + step * bytes_on(row_step_bytes));
    };
    begin_wgmmas();
    if (steps == kStageSteps) {  // no conditions between wgmmas: the compiler would wait after each
#pragma unroll
      for (int step = 0; step < kStageSteps; ++step) multiply(step);
      commit_wgmmas();
    } else {
#pragma unroll
      for (int step = 0; step < kStageSteps - 1; ++step)
        if (step < steps) multiply(step);
      commit_wgmmas();
    }
  };
  const auto give_back = [&](int slot) {
    __syncwarp();
    const uint32_t empty = shared_address(&shared.empty[slot]);
    if constexpr (S::kBlocks > 1) {  // at the neighbour first: behind its own a warp may be a round late
      static_assert(S::kBlocks == 2);
      if (lane == 0) arrive_at_block(empty, cluster_rank() ^ 1);
    }
    arrive_if(lane == 0, empty);
  };
  sums.clear();
  sums.hold();
  begin();
  beside();
#pragma unroll 1
  for (;;) {
    const int slot = at.ring.slot;
    at.advance();
    if (at.step == 0) {
      await_wgmmas<0>();
      give_back(slot);
      return sums.hold();
    }
    begin();
    await_wgmmas<1>();
    give_back(slot);
  }
}

/// A thread's sums of a piece at its place: [place][block of the team][8 rows][kThreads].
template <class S>
__device__ __forceinline__ float4* sums_at(const SplitPlaces& places, int place) {
  const int of_block = place * S::kBlocks + number_in_team<S>();
  return places.sums + int64_t{of_block} * (S::kRowTiles * kThreads) + threadIdx.x;
}
/// A warp's flag, [block][kWarps]: the number of the last launch whose sums it has put into their places.
template <class S>
__device__ __forceinline__ uint32_t* flag_of(const SplitPlaces& places, int team) {
  return places.flags + (team * S::kBlocks + number_in_team<S>()) * kWarps + threadIdx.x / 32;
}
template <class S>
__device__ __forceinline__ void announce(const SplitPlaces& places, int team, uint32_t launch) {
  __syncwarp();
  if (threadIdx.x % 32 == 0)
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag_of<S>(places, team)), "r"(launch) : "memory");
}
/// Ends: all blocks run at once, and each announces its sums before it waits.
template <class S>
__device__ __forceinline__ void await(const SplitPlaces& places, int team, uint32_t launch) {
  const uint32_t* const flag = flag_of<S>(places, team);
  uint32_t found;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");
  } while (found != launch);
}

/// By a warp, once those that compute have emptied the ring, and so have the launch's number (who has no chunk needs
/// none). The last block makes that of the next launch: who did so at a block's end would let the next kernel's wait
/// for the counter.
__device__ __forceinline__ void count_block(SplitPlaces::Launches& launches) {
  if (threadIdx.x % 32 != 0) return;
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(&launches.blocks) : "memory");
  if (before + 1 != gridDim.x) return;
  launches.blocks = 0;
  ++launches.number;
}

/// The sum of a piece of `count` chunks: 1, 2, 4, or 8, a whole tile. That of its first half waits in shared memory.
template <class S>
__device__ __forceinline__ void multiply_piece(typename S::Shared& shared, StageCursor<S>& at, int count, int row_tiles,
                                               Sums<S>& sums) {
  float4* const half = shared.sums[0] + threadIdx.x;
  Sums<S> before = {}, right;
#pragma unroll 1
  for (int done = 0;; done += 2) {
    multiply_chunk(shared, at, row_tiles, sums, [&] {
      if (done == 4) before.put(half, S::kRowTiles);
    });
    if (count == 1) return;
    multiply_chunk(shared, at, row_tiles, right, [] {});
    sums.add(right);
    if (done & 2) sums.add(before);
    if (done + 2 == count) break;
    before = sums;
  }
  if (count == 8) sums.add(half);
}

/// index: of those left over.
template <class S>
__device__ SharedTile shared_tile(const Split& split, int index, int team) {
  const TilePart part = part_of<S>(split, split.shares.whole + index);
  const int row_tiles = row_tiles_of<S>(split, part.group);
  const SplitShares::Piece last = split.shares.last_piece(team);
  return {.index = index,
          .part = part,
          .sharers = split.shares.sharers(index),
          .pieces = split.shares.pieces(index),
          .rows = split.shares.finished_by(team, index, row_tiles),
          .row_tiles = row_tiles,
          .kept = split.shares.keeps_last_piece() && last.index == index ? last.chunk : -1};
}

/// Those left over that the team has a share of.
template <class S>
__device__ __forceinline__ void list_shared_tiles(const Split& split, typename S::Shared& shared, int team) {
  const int first = split.shares.first_item(team), stop = split.shares.first_item(team + 1);
  const int index = split.shares.tile_over(first);
#pragma unroll 1
  for (int i = 0; i < 2; ++i)
    if (first < stop && (index + i) * split.shares.chunks < stop)
      shared.over[i] = shared_tile<S>(split, index + i, team);
    else
      shared.over[i].index = -1;
}

/// Of a narrow tile some warps have none, and multiply what lies there. warp: uniform, or ptxas takes the loop around
/// wgmmas for one in which lanes part, and moves what they need to uniform registers before each.
__device__ __forceinline__ bool has_outputs(const TilePart& part, int warp) {
  return first_tile_of_warp(warp) < part.tiles;
}

/// threadIdx.x where it is not kept from the loop before, in which registers are few.
__device__ __forceinline__ unsigned thread_again() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

/// The sums of a team's last piece to its place, but for the rows that the block finishes itself.
template <class S>
__device__ __forceinline__ void keep_last_piece(const Split& split, typename S::Shared& shared, const Sums<S>& sums) {
  const SharedTile& tile = shared.over[shared.over[1].index >= 0];
  if (!has_outputs(tile.part, int(threadIdx.x) / 32)) return;
  float4* const to = sums_at<S>(split.places, tile.index * split.shares.chunks + tile.kept);
  const SplitShares::Rows rows = tile.rows;
  sums.put(to, tile.row_tiles, rows.begin, rows.end, shared.sums[0] + thread_again());
}

template <class S, EpilogueKind kKind>
__device__ __forceinline__ RowFinish<kKind> finish_of(const Split& split, const Epilogue& epilogue,
                                                      const TilePart& part) {
  Operand::Row y = split.y;
  if constexpr (S::kBlocks > 1) {
    y.first += part.group * split.y_next_group;
    if (part.group + 1 == split.groups) y.next_step = split.y_last_next_step;
  }
  return {epilogue, y, split.x.rows, part.first_tile, part.group * S::kRows};
}

/// The block's part of the rows: what all sharers have put into places, as the tree. here: where what it has kept
/// begins.
template <class S, EpilogueKind kKind>
__device__ __forceinline__ void finish_shared(const Split& split, const Epilogue& epilogue, const SharedTile& tile,
                                              const float4* here, uint32_t launch) {
  const int lane = threadIdx.x % 32, begin = tile.rows.begin, end = tile.rows.end;
  if (begin == end || !has_outputs(tile.part, int(threadIdx.x) / 32)) return;
  const RowFinish<kKind> finish = finish_of<S, kKind>(split, epilogue, tile.part);
  constexpr int kNextPiece = S::kBlocks * S::kRowTiles * kThreads, kTogether = 2;
  float4 standing[kTogether] = {};
  finish.load_standing(begin, end, standing);
  if (lane < tile.sharers.count) await<S>(split.places, tile.sharers.first + lane, launch);
  __syncwarp();
  const float4* const from = sums_at<S>(split.places, tile.index * split.shares.chunks);
  const int kept = tile.kept;
  const unsigned pieces = tile.pieces, far_pieces = kept < 0 ? pieces : pieces & ~(1u << kept);
  here += thread_again();
#pragma unroll 1
  for (int t = begin; t < end; t += kTogether) {
    float4 sum[kStrictChunks][kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int row_tile = min(t + i, end - 1) * kThreads;
      const float4* const far = as_it_is(from + row_tile);
      const float4* const near = here + row_tile;
#pragma unroll
      for (int piece = 0; piece < kStrictChunks; ++piece)
        if (far_pieces >> piece & 1) sum[piece][i] = __ldcg(far + piece * kNextPiece);
      if (kept >= 0)
#pragma unroll
        for (int piece = 0; piece < kStrictChunks; ++piece)
          if (piece == kept) sum[piece][i] = *near;
    }
    float4 next[kTogether] = {};
    finish.load_standing(t + kTogether, end, next);
#pragma unroll
    for (int width = 1; width < kStrictChunks; width *= 2)
#pragma unroll
      for (int left = 0; left < kStrictChunks; left += 2 * width)
        if (pieces >> (left + width) & 1)  // else it is within the left one's piece
#pragma unroll
          for (int i = 0; i < kTogether; ++i) sum[left][i] = sum[left][i] + sum[left + width][i];
    finish.put(t, end, sum[0], standing);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) standing[i] = next[i];
  }
}
#endif

template <class S, EpilogueKind kKind>
__global__ void __launch_bounds__(S::kBlockThreads, 1)
    gemm_split_kernel(const __grid_constant__ WeightBoxes boxes, const __grid_constant__ Split split,
                      const __grid_constant__ Epilogue epilogue) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) char memory[];
  auto& shared = *reinterpret_cast<typename S::Shared*>(memory);
  // uniform: with a warp's number from threadIdx alone ptxas lets each wgmma wait for the one before
  const int team = int(blockIdx.x) / S::kBlocks, warp = __shfl_sync(0xffffffffu, int(threadIdx.x) / 32, 0);
  if (threadIdx.x == kThreads) {  // of the warp that copies weights: unless for a neighbour, it begins at once
    for (int stage = 0; stage < S::kStages; ++stage) {
      init_barrier(shared_address(&shared.full[stage]), 2);  // weights and rows
      init_barrier(shared_address(&shared.empty[stage]), S::kBlocks * kWarps);
    }
    publish_barriers();
  }
  if (S::kMovesRegisters && warp >= kWarps) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kCopying));
  await_ring<S>(warp == kWarps);
  if (warp == kWarps) {
    steer<S>(split, shared, team, WeightCopy<S>{split, boxes, shared}, launch_dependents);
  } else if (warp > kWarps) {
    if (S::kBlocks > 1) launch_dependents();  // a block alone once its ring is full
    if (warp == kWarps + 1) {
      wait_for_predecessor();
      RingPlace<S> ring = steer<S>(split, shared, team, RowCopy<S>{split, shared}, [] {});
#pragma unroll 1
      for (int stage = 0; stage < S::kStages; ++stage, ring.advance())
        wait_at(shared_address(&shared.empty[ring.slot]), ring.parity);
      count_block(*split.places.launches);
    }
  } else {
    if constexpr (S::kMovesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::kMultiplying));
    if (threadIdx.x == 0) list_shared_tiles<S>(split, shared, team);  // while the first rows are under way
    wait_for_predecessor();
    launch_dependents();
    if (threadIdx.x % 32 == 0) shared.launch[warp] = __ldcg(&split.places.launches->number) + 1;
    const SplitShares& shares = split.shares;
    StageCursor<S> at(split, team);
    Sums<S> sums;
    const bool keeps = shares.keeps_last_piece();
    while (!at.walk.is_over) {
      const int tile = at.walk.tile;
      const bool is_left_over = at.walk.is_left_over();
      const int place = is_left_over ? (tile - shares.whole) * shares.chunks + at.walk.chunk : 0;
      const TilePart part = part_of<S>(split, tile);
      const int row_tiles = row_tiles_of<S>(split, part.group);
      const int count = is_left_over ? piece_chunks(at.walk.chunk, at.walk.end) : shares.chunks;
      multiply_piece(shared, at, count, row_tiles, sums);
      if (keeps && at.walk.is_over) break;
      if (!has_outputs(part, warp)) continue;
      if (is_left_over) {
        sums.put(sums_at<S>(split.places, place), row_tiles);
      } else {
        sums.put(shared.sums[0] + threadIdx.x, S::kRowTiles);
        const RowFinish<kKind> finish = finish_of<S, kKind>(split, epilogue, part);
        constexpr int kTogether = 4;
#pragma unroll 1
        for (int t = 0; t < row_tiles; t += kTogether) {
          float4 sum[kTogether], standing[kTogether] = {};
          finish.load_standing(t, row_tiles, standing);
#pragma unroll
          for (int i = 0; i < kTogether; ++i) sum[i] = shared.sums[t + i][threadIdx.x];
          finish.put(t, row_tiles, sum, standing);
        }
      }
    }
    // behind the loop, whose branches stay uniform so
    asm volatile("bar.sync 2, %0;" ::"n"(kThreads) : "memory");  // the shared tiles are listed
    if (keeps && shared.over[0].index >= 0) keep_last_piece(split, shared, sums);
    __syncwarp();
    const uint32_t launch = shared.launch[warp];
    if (shared.over[0].index >= 0) announce<S>(split.places, team, launch);
#pragma unroll 1
    for (const SharedTile& tile : shared.over)
      if (tile.index >= 0) finish_shared<S, kKind>(split, epilogue, tile, shared.sums[0], launch);
  }
  if constexpr (S::kBlocks > 1) cluster_barrier();  // what comes from the neighbour comes before
#else
  __trap();  // has_wide() keeps it from code without wgmma
#endif
}

using Shape64 = Shape<64, 7>;
using Shape96 = Shape<96, 6>;
using Shape128 = Shape<128, 5>;
using ShapePairs = Shape<kWideRows, 5, 2>;  // more rows, two groups at a time
using ShapeNarrowPairs = Shape<kNarrowWideRows, 6, 2>;
static_assert(Shape128::kRows == kWideRows);
static_assert(sizeof(ShapeNarrowPairs::Shared) <= sizeof(ShapePairs::Shared));  // as many run at once

/// run(Shape) with the smallest that takes `rows`.
template <class Run>
void with_shape(int rows, Run&& run) {
  if (rows <= Shape64::kRows) return run(Shape64{});
  if (rows <= Shape96::kRows) return run(Shape96{});
  if (rows <= Shape128::kRows) return run(Shape128{});
  if (wide_group_rows(rows) == kNarrowWideRows) return run(ShapeNarrowPairs{});
  run(ShapePairs{});
}

/// run(kernel) with that of `kind`.
template <class S, class Run>
void with_kernel(EpilogueKind kind, Run&& run) {
  switch (kind) {
    case EpilogueKind::gated: return run(gemm_split_kernel<S, EpilogueKind::gated>);
    case EpilogueKind::added: return run(gemm_split_kernel<S, EpilogueKind::added>);
    case EpilogueKind::written: return run(gemm_split_kernel<S, EpilogueKind::written>);
    case EpilogueKind::any: return run(gemm_split_kernel<S, EpilogueKind::any>);
  }
}

/// From how many rows on gemm_split is faster than gemm_bf16, which reads the weights once for kMaxRowTile rows.
constexpr int kFewestWideRows = 33;

#ifdef PACELINE_SM_90A
constexpr bool kBuiltForWgmma = true;
#else
constexpr bool kBuiltForWgmma = false;
#endif

/// wgmma belongs to 9.0 alone, and to code that was built for sm_90a.
bool has_wide(const cudaDeviceProp& device) {
  return kBuiltForWgmma && device.major == 9 && device.minor == 0 &&
         device.sharedMemPerBlockOptin >= sizeof(Shape128::Shared);
}

}  // namespace

SplitPlaces SumHandover::places(const cudaDeviceProp& device, cudaStream_t stream) {
  const size_t blocks = size_t(device.multiProcessorCount);
  constexpr size_t kCounts = sizeof(SplitPlaces::Launches);
  if (flags_.bytes() == 0) flags_ = DeviceMemory(kCounts + blocks * kWarps * sizeof(uint32_t), stream);
  if (sums_.bytes() == 0) sums_ = DeviceMemory(blocks * kSplitPlacesOfBlock * kSplitPlaceBytes, stream);
  static_assert(kSplitPlaceBytes == Shape128::kRowTiles * kThreads * sizeof(float4));
  auto* const launches = flags_.as<SplitPlaces::Launches>();
  return {.sums = sums_.as<float4>(), .flags = reinterpret_cast<uint32_t*>(launches + 1), .launches = launches};
}

int SumHandover::pairs_at_once() {
  if (pairs_at_once_ > 0) return pairs_at_once_;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {.x = ShapePairs::kBlocks, .y = 1, .z = 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(ShapePairs::kBlocks);
  config.blockDim = dim3(ShapePairs::kBlockThreads);
  config.dynamicSmemBytes = sizeof(ShapePairs::Shared);
  config.attrs = &cluster;
  config.numAttrs = 1;
  check(cudaOccupancyMaxActiveClusters(&pairs_at_once_, gemm_split_kernel<ShapePairs, EpilogueKind::any>, &config),
        "cudaOccupancyMaxActiveClusters");
  if (pairs_at_once_ == 0) check(cudaErrorLaunchOutOfResources, "clusters of two blocks");
  return pairs_at_once_;
}

RowLayout strict_layout(const cudaDeviceProp& device, int rows) {
  return rows >= kFewestWideRows && has_wide(device) ? RowLayout::wide : RowLayout::fragments;
}

void prepare_gemm_split(const cudaDeviceProp& device) {
  if (!has_wide(device)) return;
  for (const int rows : {Shape64::kRows, Shape96::kRows, Shape128::kRows, kWideRows + 1, 2 * kWideRows})
    with_shape(rows, [](auto shape) {
      using S = decltype(shape);
      for (const EpilogueKind kind :
           {EpilogueKind::gated, EpilogueKind::added, EpilogueKind::written, EpilogueKind::any})
        with_kernel<S>(kind, [](auto* kernel) {
          check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     int(sizeof(typename S::Shared))),
                "cudaFuncSetAttribute");
        });
    });
}

WeightBoxes weight_boxes(const CudaWeight& w) {
  const int64_t tile_bytes = w.order().tile_values() * 2;
  const auto boxes_of = [&](int tiles) {
    return tensor_map({.type = CU_TENSOR_MAP_DATA_TYPE_INT64,
                       .data = w.memory.as<const uint4>(),
                       .rows = w.tiles(),
                       .cols = tile_bytes / 8,
                       .row_bytes = tile_bytes,
                       .box_rows = tiles,
                       .box_cols = kStageSteps * kStepWords});
  };
  return {.half = boxes_of(kBoxTiles), .quarter = boxes_of(kQuarterTiles)};
}

void gemm_split(const GemmArgs& args, const Operand& x, const Operand& y, SumHandover& handover,
                const cudaDeviceProp& device, LaunchTo queue) {
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  with_shape(args.x.rows, [&](auto shape) {
    using S = decltype(shape);
    const int row_tiles = math::ceil_div(x.groups(), S::kBlocks);
    const int tiles = math::ceil_div(int(w.tiles()), kWarps) * row_tiles;
    const int most_teams = S::kBlocks == 1 ? device.multiProcessorCount : handover.pairs_at_once();
    const int groups = x.groups();
    const Operand::Row first_y = y.values ? y.row(0) : Operand::Row{},
                       last_y = y.values ? y.row((groups - 1) * S::kRows) : first_y;
    const Split split{.x = x,
                      .y = first_y,
                      .y_next_group = groups > 1 ? (last_y.first - first_y.first) / (groups - 1) : 0,
                      .y_last_next_step = last_y.next_step,
                      .row_tiles = row_tiles,
                      .by_row_tiles = math::Divisor(row_tiles),
                      .groups = groups,
                      .last_row_tiles = x.row_tiles(groups - 1),
                      .shares = S::kBlocks == 1 ? SplitShares::with_narrow(tiles, w.k_chunks, most_teams)
                                                : SplitShares::of(tiles, w.k_chunks, most_teams),
                      .places = handover.places(device, queue.stream)};
    Epilogue ends = epilogue(args, y);
    if (!hands_over(args, x)) ends.push = {};
    with_kernel<S>(kind_of(ends), [&](auto* kernel) {
      launch_with({.cluster = dim3(S::kBlocks)}, kernel, dim3(unsigned(split.shares.teams * S::kBlocks)),
                  dim3(S::kBlockThreads), sizeof(typename S::Shared), queue, w.boxes, split, ends);
    });
  });
}

}  // namespace paceline::cuda
