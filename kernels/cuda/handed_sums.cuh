#pragma once
// A warp's sums of a unit that it only begins, for the warp of another team that goes on with them. Who takes them
// leaves zeros, so that the next launch, whose teams hand over after their wait, finds no marks.

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/marked_words.cuh"

namespace paceline::cuda {

/// sum: [tile][tile of rows][mma's four]
template <int kTiles, int kRowTiles>
class SumPassage {
 public:
  /// words: SumHandover::words(). giver: number of the warp that hands over, of all teams.
  __device__ SumPassage(uint4* words, int giver) : first_(words + int64_t{giver} * (kWords * 32) + threadIdx.x % 32) {}

  __device__ void give(const float (&sum)[kTiles][kRowTiles][4]) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const float* const two = &sum[i / 2 / kRowTiles][i / 2 % kRowTiles][i % 2 * 2];
      put_marked(first_ + i * 32, two[0], two[1], kMark);
    }
  }
  /// As early as may be, before take().
  __device__ void ask() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) pair_[i] = MarkedPair::at(first_ + i * 32);
  }
  __device__ void take(float (&sum)[kTiles][kRowTiles][4]) {
    for (;;) {
      bool all_here = true;
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        all_here = all_here && pair_[i].has(kMark);
        float* const two = &sum[i / 2 / kRowTiles][i / 2 % kRowTiles][i % 2 * 2];
        two[0] = pair_[i].first(), two[1] = pair_[i].second();
      }
      if (__all_sync(0xffffffffu, all_here)) break;
      ask();
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) put_marked(first_ + i * 32, 0.0f, 0.0f, 0);
  }

 private:
  static constexpr int kWords = kTiles * kRowTiles * 2;
  static constexpr uint32_t kMark = 1;
  uint4* first_;
  MarkedPair pair_[kWords];
};

}  // namespace paceline::cuda
