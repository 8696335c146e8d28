#pragma once
// What the blocks of gemm_split work on: tiles of 128 outputs or fewer and a team's rows, and the ring of stages
// through which weights and rows come into shared memory. Two warps of a block steer it, one for the weights and one
// for the rows.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/split_shares.h"

namespace paceline::cuda::split {

constexpr int kWarps = 8;  // that compute, two warpgroups; each takes a tile of 16 outputs
constexpr int kThreads = kWarps * 32;
constexpr int kStageSteps = 4;
/// Weights as a tensor map has them: a row is a tile of 16 outputs, in words of 8 bytes; a stage is two boxes. What
/// lies behind a chunk comes with its last stage.
constexpr int kStepWords = kTileStepValues * 2 / 8;
constexpr int kBoxTiles = 4, kStageBoxes = kWarps / kBoxTiles;
constexpr int kQuarterTiles = kWarps / kTileQuarters;  // a narrow tile's last one is a box
static_assert(kBoxTiles == 2 * kQuarterTiles && kNarrowQuarters == 3);

/// What a block has of a tile.
struct TilePart {
  int first_tile;  // of 16 outputs
  int tiles;       // kWarps; fewer of a narrow one
  int group;       // of the operand's rows; none may be there
};
/// A tile that is left over, as one of its sharers sees it.
struct SharedTile {
  int index;  // -1: none
  TilePart part;
  SplitShares::Sharers sharers;
  unsigned pieces;
  SplitShares::Rows rows;  // that the sharer finishes
  int row_tiles;           // of all rows
  int kept;                // where the piece begins of which it keeps these rows; -1: none
};

/// Rows of a block at most; stages of the ring; blocks of a team, which is a cluster then: they have the same outputs,
/// each with rows of its own, and copy the weights for each other.
template <int kRows_, int kStages_, int kBlocks_ = 1>
struct Shape {
  static constexpr int kRows = kRows_, kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kRowTiles = kRows / 8;
  static constexpr int kSums = kRows / 2;  // of a thread
  /// Many sums take registers that a third warpgroup gives up, of which two warps copy.
  static constexpr bool kMovesRegisters = kRows > 64;
  static constexpr int kMultiplying = 216, kCopying = 72;  // a thread's, where they move
  static_assert(2 * kMultiplying + kCopying <= 3 * 168, "more than the block is launched with");
  static constexpr int kBlockThreads = kThreads + (kMovesRegisters ? 128 : 64);
  struct Shared {
    uint4 weights[kStages][kWarps][kStageSteps * 32];
    uint4 rows[kStages][kStageSteps * kRowTiles * Operand::kTileWords];
    float4 sums[kRowTiles][kThreads];  // a thread's own: of half a tile, a tile, or what is kept of a share
    SharedTile over[2];                // those left over that the team has a share of
    uint32_t launch[kWarps];           // this one's number
    uint64_t full[kStages];            // the stage's bytes have come
    uint64_t empty[kStages];           // all warps that compute have read it, those of the neighbour, too
  };
};

struct Split {
  Operand x;
  Operand::Row y;  // the first one of what is written in place of y, in the first group
  int64_t y_next_group;
  int y_last_next_step;  // of the last group
  int row_tiles;         // tiles of the same outputs, whose rows a team takes in turn
  math::Divisor by_row_tiles;
  int groups;          // of a block's rows
  int last_row_tiles;  // of 8 rows, in the last group
  SplitShares shares;  // of tiles of 128 outputs and a team's rows
  SplitPlaces places;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <class S>
__device__ __forceinline__ TilePart part_of(const Split& split, int tile) {
  const int number = S::kBlocks == 1 ? tile : split.by_row_tiles.quotient(tile),
            team_rows = tile - number * split.row_tiles;
  const SplitShares::Outputs outputs = split.shares.outputs(number);
  return {.first_tile = outputs.first * kQuarterTiles,
          .tiles = outputs.count * kQuarterTiles,
          .group = S::kBlocks == 1 ? 0 : team_rows * S::kBlocks + int(cluster_rank())};
}
/// Tiles of 8 rows there.
template <class S>
__device__ __forceinline__ int row_tiles_of(const Split& split, int group) {
  if (S::kBlocks == 1 || group + 1 == split.groups) return split.last_row_tiles;
  return group < split.groups ? S::kRowTiles : 0;
}
/// Number of the block among those of a team.
template <class S>
__device__ __forceinline__ int number_in_team() {
  if constexpr (S::kBlocks == 1) return 0;
  return int(cluster_rank());
}

/// By all warps, in one place of the code (synccheck reports waits for a barrier in several): the ring's barriers are
/// there, in all of the team's blocks. is_maker: of a warp that has made them; in a block that is alone it goes on at
/// once.
template <class S>
__device__ __forceinline__ void await_ring(bool is_maker) {
  if constexpr (S::kBlocks > 1) {
    cluster_barrier();
  } else if (is_maker) {
    __syncwarp();
    asm volatile("bar.arrive 1, %0;" ::"n"(S::kBlockThreads) : "memory");
  } else {
    asm volatile("bar.sync 1, %0;" ::"n"(S::kBlockThreads) : "memory");
  }
}

/// Where a ring stands: a slot, and the parity of the phase that is waited for there.
template <class S>
struct RingPlace {
  int slot = 0;
  uint32_t parity = 0;

  __device__ void advance() {
    parity ^= slot + 1 == S::kStages;
    slot = slot + 1 == S::kStages ? 0 : slot + 1;
  }
};

/// A block's stages, kStageSteps steps of a chunk each; the last one of a chunk may hold fewer.
template <class S>
struct StageCursor {
  SplitWalk walk;
  int chunk_steps;
  int step = 0;  // of the chunk
  RingPlace<S> ring;

  __device__ StageCursor(const Split& split, int team) : walk(split.shares, team), chunk_steps(split.x.order.steps) {}
  __device__ int steps() const { return min(kStageSteps, chunk_steps - step); }
  __device__ void advance() {
    step += steps();
    if (step == chunk_steps) {
      step = 0;
      walk.advance();
    }
    ring.advance();
  }
};

/// Steers the ring for one warp: copy.begin(walk) at a chunk, copy.stage(slot, steps) where a stage is free. Little
/// happens a stage, as the warp may not be slower than the copies. filled(): once, when the ring is full or nothing is
/// left. Returns where the ring stands behind the last stage.
template <class S, class Copy, class Filled>
__device__ __forceinline__ RingPlace<S> steer(const Split& split, typename S::Shared& shared, int team, Copy copy,
                                              const Filled& filled) {
  int to_fill = S::kStages;
  const int chunk_steps = split.x.order.steps;
  RingPlace<S> ring{.slot = 0, .parity = 1};  // all are free at first
#pragma unroll 1
  for (SplitWalk walk(split.shares, team); !walk.is_over; walk.advance()) {
    copy.begin(walk);
#pragma unroll 1
    for (int step = 0; step < chunk_steps; step += kStageSteps) {
      wait_at(shared_address(&shared.empty[ring.slot]), ring.parity);
      copy.stage(ring.slot, min(kStageSteps, chunk_steps - step));
      ring.advance();
      if (--to_fill == 0) filled();
    }
  }
  if (to_fill > 0) filled();
  return ring;
}

/// The weights, box by box: of a pair each block copies one of a stage's boxes for both. They are constant: nothing is
/// waited for.
template <class S>
struct WeightCopy {
  const Split& split;
  const WeightBoxes& boxes;
  typename S::Shared& shared;
  const int my_box;
  int tile = 0, word = 0;  // where that of the next stage begins
  int tiles_left = 0;      // of the part, from my box on; a box is kBoxTiles or kQuarterTiles of them
  uint32_t bytes = 0;      // of a stage

  __device__ WeightCopy(const Split& split_, const WeightBoxes& boxes_, typename S::Shared& shared_)
      : split(split_),
        boxes(boxes_),
        shared(shared_),
        my_box(S::kBlocks == 1 ? int(threadIdx.x % 32) : number_in_team<S>()) {}
  __device__ void begin(const SplitWalk& walk) {
    const TilePart part = part_of<S>(split, walk.tile);
    tile = part.first_tile + my_box * kBoxTiles;
    tiles_left = my_box < kStageBoxes ? part.tiles - my_box * kBoxTiles : 0;
    bytes = uint32_t(part.tiles) * sizeof(shared.weights[0][0]);
    word = walk.chunk * split.x.order.steps * kStepWords;
  }
  __device__ void stage(int slot, int) {
    const int lane = threadIdx.x % 32;
    const uint32_t full = shared_address(&shared.full[slot]);
    if (lane == 0) expect_bytes(full, bytes);
    __syncwarp();
    if (lane < kStageBoxes / S::kBlocks && tiles_left > 0) {
      const uint32_t to = shared_address(shared.weights[slot][my_box * kBoxTiles]);
      const CUtensorMap* const map = tiles_left < kBoxTiles ? &boxes.quarter : &boxes.half;
      if constexpr (S::kBlocks == 1)
        copy_box_once(to, map, word, tile, full);
      else
        copy_box_once_to_cluster(to, map, word, tile, full, (1u << S::kBlocks) - 1);
    }
    word += kStageSteps * kStepWords;
  }
};

/// The rows, once the predecessor has made them.
template <class S>
struct RowCopy {
  const Split& split;
  typename S::Shared& shared;
  int step_words = 0;
  const uint4* from = nullptr;

  __device__ void begin(const SplitWalk& walk) {
    const int group = part_of<S>(split, walk.tile).group;
    step_words = row_tiles_of<S>(split, group) * Operand::kTileWords;
    const __nv_bfloat16* const rows = split.x.values + group * (S::kRows * split.x.row_values());
    from = reinterpret_cast<const uint4*>(rows) + int64_t{walk.chunk * split.x.order.steps} * step_words;
  }
  __device__ void stage(int slot, int steps) {
    if (threadIdx.x % 32 == 0) {
      uint64_t& full = shared.full[slot];
      const uint32_t bytes = uint32_t(steps * step_words * sizeof(uint4));
      expect_bytes(shared_address(&full), bytes);
      if (S::kBlocks == 1 || bytes > 0)
        copy_here(shared_address(shared.rows[slot]), from, bytes, shared_address(&full));
    }
    from += kStageSteps * step_words;
  }
};
#endif

}  // namespace paceline::cuda::split
