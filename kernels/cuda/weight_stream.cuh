#pragma once
// How the warps of a weight-streaming product share its weights, and how each gets its own into registers: through a
// ring in shared memory, which bulk copies fill ahead.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/device_code.cuh"

namespace paceline::cuda {

constexpr int kStageWords = 8 * 32;  // uint4: 8 steps of one tile, or 4 of two
constexpr int kMostStages = 3;       // of a ring
/// Of a stage, with `tiles` side by side.
constexpr int steps_of_stage(int tiles) { return kStageWords / 32 / tiles; }

/// The weights of a product, and who takes what. A team of `chunks` warps takes a unit of tiles, a chunk each.
struct WeightShares {
  const uint4* w;
  int tiles;
  int chunks, chunk_bits;  // a power of two
  int steps;               // of a chunk
  int unit_stages;         // of a chunk of a unit: one tile, or two side by side
  int teams;
  int turns, over;  // units / teams, and what is left of them
  bool cuts;        // which is cut in two
};

/// A team's stages in the order in which it takes them. Teams take units in turn. Of those that are left over when
/// there are not enough for another turn each may be cut in two: the team that has the first half takes it before all
/// else, the one that has the second half after all else, so that nobody waits for sums.
struct Walk {
  int unit_stages;
  int stride;                 // teams
  int whole, num_whole;       // units to come that are the team's alone
  int last_unit, last_stage;  // where the piece begins that comes last
  int left;                   // stages
  int unit, stage;            // now
  int stop;                   // of the unit's stages: where this piece of it ends

  __device__ Walk(const WeightShares& shares, int team)
      : unit_stages(shares.unit_stages), stride(shares.teams), whole(team), num_whole(shares.turns) {
    const int over = shares.over, first_over = num_whole * stride, half = unit_stages / 2;
    const bool begins = shares.cuts && team < over, ends = shares.cuts && team >= over && team < 2 * over;
    if (!shares.cuts && team < over) ++num_whole;
    last_unit = first_over + team - over, last_stage = half;
    left = num_whole * unit_stages + (begins ? half : ends ? unit_stages - half : 0);
    if (begins)
      unit = first_over + team, stage = 0, stop = half;
    else
      next_piece();
  }
  __device__ void next_piece() {
    stop = unit_stages;
    if (num_whole > 0) {
      unit = whole, stage = 0;
      whole += stride;
      --num_whole;
    } else {
      unit = last_unit, stage = last_stage;
    }
  }
  /// Whether a piece begins.
  __device__ bool advance() {
    --left;
    if (++stage < stop) return false;
    next_piece();
    return true;
  }
};

/// Where a warp's words lie.
template <int kTiles>
struct Strip {
  const uint4* chunk;  // of the first tile
  int64_t tile_words;
  int tiles;
  int last_steps;  // of a unit's last stage

  __device__ Strip(const WeightShares& shares, int chunk_index)
      : chunk(shares.w + int64_t{chunk_index} * shares.steps * 32),
        tile_words(int64_t{shares.chunks} * shares.steps * 32),
        tiles(shares.tiles),
        last_steps(shares.steps - (shares.unit_stages - 1) * steps_of_stage(kTiles)) {}
  __device__ const uint4* at(const Walk& walk) const {
    return chunk + int64_t{walk.unit} * kTiles * tile_words + walk.stage * (steps_of_stage(kTiles) * 32);
  }
  /// From there to the second tile: the last unit may lack it, and gets the first again.
  __device__ int64_t to_second(const Walk& walk) const { return walk.unit * 2 + 1 < tiles ? tile_words : 0; }
  __device__ int steps_at(const Walk& walk) const {
    return walk.stage + 1 < walk.unit_stages ? steps_of_stage(kTiles) : last_steps;
  }
};

/// One warp's weights in the order in which it multiplies them. next() gives each lane its words of up to kSteps steps
/// of kTiles tiles; the last stage of a chunk may hold fewer.
#if __CUDA_ARCH__ >= 900
template <int kTiles, bool kPaced>
class WarpStream {
 public:
  static constexpr int kSteps = steps_of_stage(kTiles);

  /// ring: num_stages stages; barriers: kMostStages. is_paced: one stage is on its way at a time, since whatever else
  /// the device reads would wait behind more. The first is on its way.
  __device__ WarpStream(const uint4* ring, const uint64_t* barriers, int num_stages, const Strip<kTiles>& strip,
                        const Walk& walk, bool is_paced)
      : ring_(ring),
        ring_address_(shared_address(ring)),
        barrier_(shared_address(barriers)),
        num_stages_(num_stages),
        strip_(strip),
        walk_(walk),
        is_paced_(kPaced && is_paced) {
    begin_piece();
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int stage = 0; stage < kMostStages; ++stage) init_barrier(barrier_ + stage * 8, 1);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      if (walk_.left > 0) fill();
    }
    __syncwarp();
  }

  /// The whole ring, before anything is taken.
  __device__ void fill_ring() {
    if (threadIdx.x % 32 == 0)
#pragma unroll 1
      while (walk_.left > 0 && ahead_ < num_stages_) {
        if (is_paced_) wait_at(barrier_ + newest_ * 8, newest_parity_);
        fill();
      }
    __syncwarp();
  }
  /// One more stage, if there is room and its turn has come.
  __device__ void fill_more() {
    if (threadIdx.x % 32 == 0 && walk_.left > 0 && ahead_ < num_stages_ &&
        (!is_paced_ || ahead_ == 0 || is_past(barrier_ + newest_ * 8, newest_parity_)))
      fill();
  }

  __device__ void next(uint4 (&words)[kTiles][kSteps], int num_steps) {
    wait_at(barrier_ + stage_ * 8, parity_);
    const uint4* from = ring_ + stage_ * kStageWords + threadIdx.x % 32;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        words[tile][step] = step < num_steps ? from[(tile * kSteps + step) * 32] : uint4{0, 0, 0, 0};
    if (++stage_ == num_stages_) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }
  /// The words of next() have been used: what they lay in may be filled again.
  __device__ void give_back() {
    __syncwarp();
    --ahead_;
    fill_more();
  }

 private:
  /// The next stage, which is free; walk_.left > 0. Every warp waits for its lane 0 here: few instructions.
  __device__ void fill() {
    ++ahead_;
    if (++newest_ == num_stages_) {
      newest_ = 0;
      newest_parity_ ^= 1;
    }
    const uint32_t barrier = barrier_ + newest_ * 8, to = ring_address_ + newest_ * (kStageWords * sizeof(uint4));
    const uint32_t bytes = uint32_t(strip_.steps_at(walk_)) * 32 * sizeof(uint4);
    expect_bytes(barrier, bytes * kTiles);
    copy_here(to, from_, bytes, barrier);
    if (kTiles == 2) copy_here(to + kSteps * 32 * sizeof(uint4), from_ + to_second_, bytes, barrier);
    from_ += kSteps * 32;
    if (walk_.advance()) begin_piece();
  }
  __device__ void begin_piece() {
    from_ = strip_.at(walk_);
    to_second_ = strip_.to_second(walk_);
  }

  const uint4* const ring_;
  const uint32_t ring_address_, barrier_;
  const int num_stages_;
  const Strip<kTiles> strip_;
  Walk walk_;  // of what is filled next, and where that lies
  const uint4* from_;
  int64_t to_second_;
  const bool is_paced_;
  int stage_ = 0, newest_ = -1, ahead_ = 0;  // taken next, filled last, of those filled not taken
  uint32_t parity_ = 0, newest_parity_ = 0;
};
#else
/// Without bulk copies: straight to registers.
template <int kTiles, bool kPaced>
class WarpStream {
 public:
  static constexpr int kSteps = steps_of_stage(kTiles);

  __device__ WarpStream(const uint4*, const uint64_t*, int, const Strip<kTiles>& strip, const Walk& walk, bool)
      : strip_(strip), walk_(walk) {}
  __device__ void fill_ring() {}
  __device__ void fill_more() {}
  __device__ void next(uint4 (&words)[kTiles][kSteps], int num_steps) {
    const uint4* const from = strip_.at(walk_) + threadIdx.x % 32;
    const int64_t to_second = strip_.to_second(walk_);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        words[tile][step] =
            step < num_steps ? load_stream(from + (tile ? to_second : 0) + step * 32) : uint4{0, 0, 0, 0};
    walk_.advance();
  }
  __device__ void give_back() {}

 private:
  const Strip<kTiles> strip_;
  Walk walk_;
};
#endif

}  // namespace paceline::cuda
