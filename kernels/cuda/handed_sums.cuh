#pragma once
// A warp's sums of a unit that it only begins, for the warp of another team that goes on with them. A value travels
// with the launch's number beside it, so that the reader sees by itself whether it has come (each half of 16 bytes is
// written and read whole).

#include "kernels/cuda/gemm.h"

namespace paceline::cuda {

/// sum: [tile][tile of rows][mma's four]
template <int kTiles, int kRowTiles>
class SumPassage {
 public:
  /// giver: number of the warp that hands over, of all teams.
  __device__ SumPassage(const HandedSums& handed, int giver)
      : number_(handed.number), first_(handed.words + int64_t{giver} * (kWords * 32) + threadIdx.x % 32) {}

  __device__ void give(const float (&sum)[kTiles][kRowTiles][4]) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const float* const two = &sum[i / 2 / kRowTiles][i / 2 % kRowTiles][i % 2 * 2];
      asm volatile("st.volatile.global.v4.u32 [%0], {%1, %3, %2, %3};" ::"l"(first_ + i * 32),
                   "r"(__float_as_uint(two[0])), "r"(__float_as_uint(two[1])), "r"(number_)
                   : "memory");
    }
  }
  /// As early as may be, before take().
  __device__ void ask() {
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word_[i].x), "=r"(word_[i].y), "=r"(word_[i].z), "=r"(word_[i].w)
                   : "l"(first_ + i * 32)
                   : "memory");
  }
  __device__ void take(float (&sum)[kTiles][kRowTiles][4]) {
    for (;;) {
      bool all_here = true;
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        all_here = all_here && word_[i].y == number_ && word_[i].w == number_;
        float* const two = &sum[i / 2 / kRowTiles][i / 2 % kRowTiles][i % 2 * 2];
        two[0] = __uint_as_float(word_[i].x), two[1] = __uint_as_float(word_[i].z);
      }
      if (__all_sync(0xffffffffu, all_here)) return;
      ask();
    }
  }

 private:
  static constexpr int kWords = kTiles * kRowTiles * 2;
  uint32_t number_;
  uint4* first_;
  uint4 word_[kWords];
};

}  // namespace paceline::cuda
