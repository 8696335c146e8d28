// The GEMM of 33 to 128 rows: each weight is read once, by one block for 128 outputs and all rows. Persistent blocks
// take whole tiles of outputs in turn; the chunks of those that are left over are shared by all (split_shares.h). wgmma
// has the bits of mma.m16n8k16 (wgmma.cuh), chunks and tree are those of gemm_bf16.cu: so are the bits of an output.
//
// Two warpgroups compute, each 64 outputs x all rows in registers. Two more warps copy weights and rows through a ring,
// the weights before the predecessor ends. What a block has summed of a tile that is left over lies in memory at the
// place of its first chunk; a block that has put all of its own there says so, warp by warp, and waits only then, for
// the others that share the tile. Each of them finishes some of the rows: it adds all sums as the tree wants. (One
// block that finished the tile for all took three times as long.) Of a gated product a warp has 8 outputs of the gate
// and the same 8 of the other half, so that no warp needs another's sums.
//
// Small blocks of straight code and no spilled registers: at 128 rows shared memory leaves the L1 next to nothing, and
// with spills in a chunk's addition the product took three times as long.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/row_finish.cuh"
#include "kernels/cuda/split_shares.h"
#include "kernels/cuda/wgmma.cuh"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 8;  // that compute, two warpgroups; each takes a tile of 16 outputs
constexpr int kThreads = kWarps * 32;
constexpr int kStageSteps = 4;

/// A tile that is left over, as one of its sharers sees it.
struct SharedTile {
  int index;  // -1: none
  SplitShares::Sharers sharers;
  unsigned pieces;
  int begin, end;  // tiles of 8 rows that the sharer finishes
};

/// Rows at most, and stages of the ring.
template <int kRows_, int kStages_>
struct Shape {
  static constexpr int kRows = kRows_, kStages = kStages_;
  static constexpr int kRowTiles = kRows / 8;
  static constexpr int kSums = kRows / 2;  // of a thread
  /// Many sums take registers that a third warpgroup gives up, of which two warps copy.
  static constexpr bool kMovesRegisters = kRows > 64;
  static constexpr int kMultiplying = 216, kCopying = 72;  // a thread's, where they move
  static_assert(2 * kMultiplying + kCopying <= 3 * 168, "more than the block is launched with");
  static constexpr int kBlockThreads = kThreads + (kMovesRegisters ? 128 : 64);
  static constexpr bool kHalfIsShared = kRows <= 64;  // else it lies among the places
  struct Shared {
    uint4 weights[kStages][kWarps][kStageSteps * 32];
    uint4 rows[kStages][kStageSteps * kRowTiles * Operand::kTileWords];
    float4 sums[kRowTiles][kThreads];  // a thread's own: of two chunks in the tree, then of a tile
    float4 half[kHalfIsShared ? kRowTiles : 1][kHalfIsShared ? kThreads : 1];  // of half a tile
    SharedTile over[2];       // those left over that the team has a share of
    uint64_t full[kStages];   // the stage's bytes have come
    uint64_t empty[kStages];  // all threads that compute have read it
  };
};

struct Split {
  const uint4* w;
  int num_tiles;  // of 16 outputs
  Operand x;
  Operand::Row y;      // the first one of what is written in place of y
  SplitShares shares;  // of tiles of 128 outputs; a team is a block
  SplitPlaces places;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
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
/// happens a stage, as the warp may not be slower than the copies.
template <class S, class Copy>
__device__ __forceinline__ void steer(const Split& split, typename S::Shared& shared, int team, Copy copy) {
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
    }
  }
}

/// The weights: the first lanes copy a tile of 16 outputs each. They are constant: nothing is waited for.
template <class S>
struct WeightCopy {
  const Split& split;
  typename S::Shared& shared;
  int num_tiles = 0;
  const uint4* from = nullptr;

  __device__ void begin(const SplitWalk& walk) {
    const int lane = threadIdx.x % 32, first_tile = walk.tile * kWarps;
    num_tiles = max(0, min(kWarps, split.num_tiles - first_tile));
    const int64_t chunk = int64_t{first_tile + lane} * split.shares.chunks + walk.chunk;
    from = split.w + chunk * split.x.order.steps * 32;
  }
  __device__ void stage(int slot, int steps) {
    const int lane = threadIdx.x % 32;
    const uint32_t bytes = uint32_t(steps * 32 * sizeof(uint4));  // of a tile
    if (lane == 0) expect_bytes(shared_address(&shared.full[slot]), num_tiles * bytes);
    __syncwarp();
    if (lane < num_tiles)
      copy_here(shared_address(shared.weights[slot][lane]), from, bytes, shared_address(&shared.full[slot]));
    from += kStageSteps * 32;
  }
};

/// The rows, once the predecessor has made them.
template <class S>
struct RowCopy {
  const Split& split;
  typename S::Shared& shared;
  const int step_words;
  const uint4* from = nullptr;

  __device__ RowCopy(const Split& split_, typename S::Shared& shared_)
      : split(split_), shared(shared_), step_words(split_.x.row_tiles(0) * Operand::kTileWords) {}
  __device__ void begin(const SplitWalk& walk) {
    from = reinterpret_cast<const uint4*>(split.x.group(0)) + int64_t{walk.chunk * split.x.order.steps} * step_words;
  }
  __device__ void stage(int slot, int steps) {
    if (threadIdx.x % 32 == 0) {
      uint64_t& full = shared.full[slot];
      const uint32_t bytes = uint32_t(steps * step_words * sizeof(uint4));
      expect_bytes(shared_address(&full), bytes);
      copy_here(shared_address(shared.rows[slot]), from, bytes, shared_address(&full));
    }
    from += kStageSteps * step_words;
  }
};

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
  __device__ __forceinline__ void add_to(const Sums& left) {
#pragma unroll
    for (int i = 0; i < S::kSums; ++i) of[i] = left.of[i] + of[i];
  }
  /// left: the first of kRowTiles places, kThreads apart. kTogether: loads under way; registers are few.
  template <int kTogether>
  __device__ __forceinline__ void add_to(const float4* left) {
#pragma unroll
    for (int t = 0; t < S::kRowTiles; ++t) {
      const float4 x = left[t * kThreads];
      float* const sum = of + t * 4;
      sum[0] = x.x + sum[0], sum[1] = x.y + sum[1], sum[2] = x.z + sum[2], sum[3] = x.w + sum[3];
      if (t % kTogether == kTogether - 1) asm volatile("" ::: "memory");
    }
  }
  /// to: the first of row_tiles places, kThreads apart.
  __device__ __forceinline__ void put(float4* to, int row_tiles) const {
#pragma unroll
    for (int t = 0; t < S::kRowTiles; ++t)
      if (t < row_tiles) to[t * kThreads] = {of[t * 4], of[t * 4 + 1], of[t * 4 + 2], of[t * 4 + 3]};
  }
};

/// What a lane multiplies of a step. gated: rows 0 to 7 of the matrix come from a gate's tile, 8 to 15 from the other.
__device__ __forceinline__ uint4 fragment(const uint4 (*tile)[kStageSteps * 32], int warp, int at, bool gated) {
  if (!gated) return tile[warp][at];
  const uint4 gate = tile[warp & ~1][at], up = tile[warp | 1][at];
  if (warp % 2 == 0) return {gate.x, up.x, gate.z, up.z};
  return {gate.y, up.y, gate.w, up.w};
}

/// A stage's weights in registers, in use until its wgmmas are over.
struct StageWords {
  uint4 of[kStageSteps];

  /// Of what a compiler may not use again before: the wgmmas read them as they run.
  __device__ __forceinline__ void hold() {
#pragma unroll
    for (uint4& word : of) asm volatile("" : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w)::"memory");
  }
};

/// The sums of the chunk at `at`. The wgmmas of a stage run while the next one's weights are fetched.
template <class S>
__device__ __forceinline__ void multiply_chunk(typename S::Shared& shared, StageCursor<S>& at, int row_tiles,
                                               bool gated, Sums<S>& sums) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const auto begin = [&](StageWords& words) {
    const int steps = at.steps();
    wait_at(shared_address(&shared.full[at.ring.slot]), at.ring.parity);
#pragma unroll
    for (int step = 0; step < kStageSteps; ++step)
      words.of[step] = fragment(shared.weights[at.ring.slot], warp, step * 32 + lane, gated);
    begin_wgmmas();
#pragma unroll
    for (int step = 0; step < kStageSteps; ++step)
      if (step < steps)
        wgmma(sums.of, words.of[step],
              row_descriptor(shared.rows[at.ring.slot] + step * row_tiles * Operand::kTileWords));
    commit_wgmmas();
  };
  const auto give_back = [&](StageWords& words, int slot) {
    words.hold();
    fence_before_copy();
    arrive(shared_address(&shared.empty[slot]));
  };
  StageWords even, odd;
  sums.clear();
  sums.hold();
  begin(even);
#pragma unroll 1
  for (;;) {
    int slot = at.ring.slot;
    at.advance();
    if (at.step == 0) {
      await_wgmmas<0>();
      give_back(even, slot);
      return sums.hold();
    }
    begin(odd);
    await_wgmmas<1>();
    give_back(even, slot);
    slot = at.ring.slot;
    at.advance();
    if (at.step == 0) {
      await_wgmmas<0>();
      give_back(odd, slot);
      return sums.hold();
    }
    begin(even);
    await_wgmmas<1>();
    give_back(odd, slot);
  }
}

/// A thread's sums of a piece at its place: [place][8 rows][kThreads].
template <class S>
__device__ __forceinline__ float4* sums_at(const SplitPlaces& places, int place) {
  return places.sums + int64_t{place} * (S::kRowTiles * kThreads) + threadIdx.x;
}
/// A warp's flag, [team][kWarps]: the number of the last launch whose sums it has put into their places.
__device__ __forceinline__ uint32_t* flag_of(const SplitPlaces& places, int team) {
  return places.flags + team * kWarps + threadIdx.x / 32;
}
__device__ __forceinline__ void announce(const SplitPlaces& places, int team, uint32_t launch) {
  __syncwarp();
  if (threadIdx.x % 32 == 0)
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag_of(places, team)), "r"(launch) : "memory");
}
/// Ends: all blocks run at once, and each announces its sums before it waits.
__device__ __forceinline__ void await(const SplitPlaces& places, int team, uint32_t launch) {
  const uint32_t* const flag = flag_of(places, team);
  uint32_t found;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");
  } while (found != launch);
}

/// The sum of a piece of `count` chunks: 1, 2, 4, or 8, a whole tile. half: where that of four chunks waits.
template <class S>
__device__ __forceinline__ void multiply_piece(typename S::Shared& shared, float4* half, StageCursor<S>& at, int count,
                                               int row_tiles, bool gated, Sums<S>& sums) {
  float4* const two = shared.sums[0] + threadIdx.x;
#pragma unroll 1
  for (int done = 0; done < count; done += 2) {
    multiply_chunk(shared, at, row_tiles, gated, sums);
    if (count > 1) {
      const Sums<S> left = sums;
      multiply_chunk(shared, at, row_tiles, gated, sums);
      sums.add_to(left);
    }
    if (done & 2) {
      sums.template add_to<4>(two);
    } else if (count > 2) {
      sums.put(two, S::kRowTiles);
      continue;
    }
    if (done & 4)
      sums.template add_to<8>(half);
    else if (count > 4)
      sums.put(half, S::kRowTiles);
  }
}

/// index: of those left over.
__device__ SharedTile shared_tile(const Split& split, int index, int team) {
  const SplitShares::Sharers sharers = split.shares.sharers(index);
  const int row_tiles = split.x.row_tiles(0), number = team - sharers.first;
  return {.index = index,
          .sharers = sharers,
          .pieces = split.shares.pieces(index),
          .begin = row_tiles * number / sharers.count,
          .end = row_tiles * (number + 1) / sharers.count};
}

/// The team's part of the rows: what all sharers have put into places, as the tree.
template <class S>
__device__ __forceinline__ void finish_shared(const Split& split, const Epilogue& epilogue, const SharedTile& tile,
                                              uint32_t launch) {
  const int lane = threadIdx.x % 32, begin = tile.begin, end = tile.end;
  if (begin == end) return;
  const RowFinish finish(epilogue, split.y, split.x.rows, (split.shares.first_over() + tile.index) * kWarps);
  if (lane < tile.sharers.count) await(split.places, tile.sharers.first + lane, launch);
  __syncwarp();
  const float4* const from = sums_at<S>(split.places, tile.index * split.shares.chunks);
  const unsigned pieces = tile.pieces;
  constexpr int kNextPiece = S::kRowTiles * kThreads, kTogether = S::kRowTiles > 4 ? 2 : 1;
#pragma unroll 1
  for (int t = begin; t < end; t += kTogether) {
    float4 sum[kStrictChunks][kTogether];
#pragma unroll
    for (int piece = 0; piece < kStrictChunks; ++piece)
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (pieces >> piece & 1) sum[piece][i] = __ldcg(from + piece * kNextPiece + min(t + i, end - 1) * kThreads);
#pragma unroll
    for (int width = 1; width < kStrictChunks; width *= 2)
#pragma unroll
      for (int left = 0; left < kStrictChunks; left += 2 * width)
        if (pieces >> (left + width) & 1)  // else it is within the left one's piece
#pragma unroll
          for (int i = 0; i < kTogether; ++i) sum[left][i] = sum[left][i] + sum[left + width][i];
    finish.put(t, end, sum[0]);
  }
}
#endif

template <class S>
__global__ void __launch_bounds__(S::kBlockThreads, 1)
    gemm_split_kernel(const __grid_constant__ Split split, const __grid_constant__ Epilogue epilogue) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) char memory[];
  auto& shared = *reinterpret_cast<typename S::Shared*>(memory);
  const int team = int(blockIdx.x);
  if (threadIdx.x == 32) {
    const int first = split.shares.first_item(team), stop = split.shares.first_item(team + 1);
    const int index = first / split.shares.chunks;
    for (int i = 0; i < 2; ++i)
      if (first < stop && (index + i) * split.shares.chunks < stop)
        shared.over[i] = shared_tile(split, index + i, team);
      else
        shared.over[i].index = -1;
  }
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < S::kStages; ++stage) {
      init_barrier(shared_address(&shared.full[stage]), 2);  // weights and rows
      init_barrier(shared_address(&shared.empty[stage]), kThreads);
    }
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x >= kThreads) {
    if constexpr (S::kMovesRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kCopying));
    launch_dependents();
    if (threadIdx.x < kThreads + 32) {
      steer<S>(split, shared, team, WeightCopy<S>{split, shared});
    } else if (threadIdx.x < kThreads + 64) {
      wait_for_predecessor();
      steer<S>(split, shared, team, RowCopy<S>(split, shared));
    }
  } else {
    if constexpr (S::kMovesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::kMultiplying));
    wait_for_predecessor();
    launch_dependents();
    const int row_tiles = split.x.row_tiles(0);
    const uint32_t launch = __ldcg(&split.places.launches->number) + 1;
    const SplitShares& shares = split.shares;
    StageCursor<S> at(split, team);
    Sums<S> sums;
    float4* half;
    if constexpr (S::kHalfIsShared)
      half = shared.half[0] + threadIdx.x;
    else
      half = sums_at<S>(split.places, shares.items() + team);
    while (!at.walk.is_over) {
      const int tile = at.walk.tile, first = at.walk.chunk;
      const bool is_left_over = at.walk.is_left_over();
      const int count = is_left_over ? piece_chunks(first, at.walk.end) : shares.chunks;
      multiply_piece(shared, half, at, count, row_tiles, epilogue.glu, sums);
      if (is_left_over) {
        const int place = (tile - shares.first_over()) * shares.chunks + first;
        sums.put(sums_at<S>(split.places, place), row_tiles);
      } else {
        sums.put(shared.sums[0] + threadIdx.x, S::kRowTiles);
        const RowFinish finish(epilogue, split.y, split.x.rows, tile * kWarps);
        constexpr int kTogether = 2;
#pragma unroll 1
        for (int t = 0; t < row_tiles; t += kTogether) {
          float4 sum[kTogether];
#pragma unroll
          for (int i = 0; i < kTogether; ++i) sum[i] = shared.sums[t + i][threadIdx.x];
          finish.put(t, row_tiles, sum);
        }
      }
    }
    if (shared.over[0].index >= 0) announce(split.places, team, launch);
#pragma unroll 1
    for (const SharedTile& tile : shared.over)
      if (tile.index >= 0) finish_shared<S>(split, epilogue, tile, launch);
  }
  __syncthreads();
  SplitPlaces::Launches& launches = *split.places.launches;
  if (threadIdx.x == 0 && atomicAdd(&launches.ended, 1) + 1 == gridDim.x) {  // the last block
    launches.ended = 0;
    ++launches.number;
  }
#else
  __trap();  // has_wide() keeps it from code without wgmma
#endif
}

using Shape64 = Shape<64, 5>;
using Shape96 = Shape<96, 5>;
using Shape128 = Shape<128, 5>;
static_assert(Shape128::kRows == kWideRows);

/// run(Shape) with the smallest that takes `rows`.
template <class Run>
void with_shape(int rows, Run&& run) {
  if (rows <= Shape64::kRows) return run(Shape64{});
  if (rows <= Shape96::kRows) return run(Shape96{});
  run(Shape128{});
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

size_t split_shared_bytes() { return sizeof(Shape128::Shared); }

void prepare_gemm_split() {
  for (const int rows : {Shape64::kRows, Shape96::kRows, Shape128::kRows})
    with_shape(rows, [](auto shape) {
      using S = decltype(shape);
      check(cudaFuncSetAttribute(gemm_split_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 int(sizeof(typename S::Shared))),
            "cudaFuncSetAttribute");
    });
}

void gemm_split(const GemmArgs& args, const Operand& x, const Operand& y, SumHandover& handover,
                const cudaDeviceProp& device, LaunchTo queue) {
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  with_shape(args.x.rows, [&](auto shape) {
    using S = decltype(shape);
    const int tiles = int((w.tiles() + kWarps - 1) / kWarps);
    const Split split{.w = w.memory.as<const uint4>(),
                      .num_tiles = int(w.tiles()),
                      .x = x,
                      .y = y.values ? y.row(0) : Operand::Row{},
                      .shares = SplitShares::of(tiles, w.k_chunks, device.multiProcessorCount),
                      .places = handover.places(device, queue.stream)};
    launch(gemm_split_kernel<S>, dim3(unsigned(split.shares.teams)), dim3(S::kBlockThreads), sizeof(typename S::Shared),
           queue, split, epilogue(args, y));
  });
}

}  // namespace paceline::cuda
