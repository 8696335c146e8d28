#pragma once
// How the warps of a weight-streaming product share its weights, and how each gets its own into registers: through a
// ring in shared memory, which bulk copies fill ahead.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/unit_shares.h"

namespace paceline::cuda {

constexpr int kStageWords = 8 * 32;  // uint4: 8 steps of one tile, or 4 of two
constexpr int kMostStages = 4;       // of a ring
/// Of a stage, with `tiles` side by side.
constexpr int steps_of_stage(int tiles) { return kStageWords / 32 / tiles; }

/// The weights of a product, and who takes what. A team is `chunks` warps, a chunk each.
struct WeightShares {
  const uint4* w;
  int tiles;
  int chunks, chunk_bits;  // a power of two
  int steps;               // of a chunk
  UnitShares units;
};

/// Where a warp's words lie.
template <int kTiles>
struct Strip {
  const uint4* chunk;  // of the first tile
  int tile_words;
  int tiles;
  int last_steps;  // of a unit's last stage

  __device__ Strip(const WeightShares& shares, int chunk_index)
      : chunk(shares.w + int64_t{chunk_index} * shares.steps * 32),
        tile_words(shares.chunks * shares.steps * 32),
        tiles(shares.tiles),
        last_steps(shares.steps - (shares.units.unit_stages - 1) * steps_of_stage(kTiles)) {}
  __device__ const uint4* at(const Walk& walk) const {
    return chunk + int64_t{walk.unit} * kTiles * tile_words + walk.stage * (steps_of_stage(kTiles) * 32);
  }
  /// From there to the second tile: the last unit may lack it, and gets the first again.
  __device__ int to_second(const Walk& walk) const { return walk.unit * 2 + 1 < tiles ? tile_words : 0; }
  __device__ int steps_at(const Walk& walk) const {
    return walk.stage + 1 < walk.unit_stages ? steps_of_stage(kTiles) : last_steps;
  }
};

/// One warp's weights in the order in which it multiplies them: stages of up to kSteps steps of kTiles tiles, the last
/// one of a chunk may hold fewer. await(), take() whatever it holds, give_back().
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
      publish_barriers();
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

  /// Until the next stage is there.
  __device__ void await() { wait_at(barrier_ + stage_ * 8, parity_); }
  /// Each lane's words of its steps from `first` on, as far as there are: num_steps.
  template <int kCount>
  __device__ void take(uint4 (&words)[kTiles][kCount], int first, int num_steps) const {
    const uint4* from = ring_ + stage_ * kStageWords + threadIdx.x % 32;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int step = first + i;
        words[tile][i] = step < num_steps ? load_matrices(from + (tile * kSteps + step) * 32) : uint4{0, 0, 0, 0};
      }
  }
  /// Its words have been used: what they lay in may be filled again.
  __device__ void give_back() {
    __syncwarp();
    --ahead_;
    if (++stage_ == num_stages_) {
      stage_ = 0;
      parity_ ^= 1;
    }
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
    copy_once(to, from_, bytes, barrier);
    if (kTiles == 2) copy_once(to + kSteps * 32 * sizeof(uint4), from_ + to_second_, bytes, barrier);
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
  int to_second_;
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
  __device__ void await() {}
  template <int kCount>
  __device__ void take(uint4 (&words)[kTiles][kCount], int first, int num_steps) const {
    const uint4* const from = strip_.at(walk_);
    const int to_second = strip_.to_second(walk_);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int step = first + i;
        words[tile][i] = step < num_steps ? load_four(from + (tile ? to_second : 0) + step * 32) : uint4{0, 0, 0, 0};
      }
  }
  __device__ void give_back() { walk_.advance(); }

 private:
  /// A lane's words of the four matrices of a step.
  __device__ static uint4 load_four(const uint4* step) {
    const uint32_t* const from = reinterpret_cast<const uint32_t*>(step) + threadIdx.x % 32;
    return {load_stream(from), load_stream(from + 32), load_stream(from + 64), load_stream(from + 96)};
  }

  const Strip<kTiles> strip_;
  Walk walk_;
};
#endif

}  // namespace paceline::cuda
