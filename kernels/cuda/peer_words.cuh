#pragma once
// How kernels of several devices hand each other small rows of floats, marked with the number of their message.
//
// A room holds two messages, as a rank may be one ahead of another: who has begun message m + 1 has ended m, since its
// kernels follow each other, so whoever has words of m + 1 from all peers may overwrite what it sent in m.

#include <type_traits>

#include "kernels/cuda/marked_words.cuh"
#include "kernels/cuda/push_sum.h"
#include "kernels/math/tree_sum.h"

namespace paceline::cuda {

/// run(std::integral_constant) with the kRanks for a group of `size`.
template <class Run>
void with_ranks(int size, Run&& run) {
  if (size <= 2) return run(std::integral_constant<int, 2>{});
  if (size <= 4) return run(std::integral_constant<int, 4>{});
  run(std::integral_constant<int, kMostPushers>{});
}

/// Looks at the other devices' words between two at whether the wait is over for another reason.
inline constexpr int kLooksBetween = 1024;

__device__ __forceinline__ bool is_given_up(const int* flag) {
  int value;
  asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value != 0;
}

/// The number of a sum's message, or of its words (PeerSum, PushWords).
template <class Sum>
__device__ __forceinline__ uint32_t message_of(const Sum& sum) {
  return sum.base ? __ldcg(sum.base) + sum.message : sum.message;
}

/// Pairs of `rank`'s message in the room of `of`.
__host__ __device__ __forceinline__ uint4* pairs_of(const PushGroup& group, int of, uint32_t message, int rank) {
  return group.room[of] + (int64_t{message % 2} * group.size + rank) * (kPushFloats / 2);
}
/// Pair `pair` of this rank's part, to all peers. kRanks: at least group.size, a power of two; here and below.
template <int kRanks>
__device__ __forceinline__ void push_pair(const PushGroup& group, uint32_t message, int64_t pair, float2 x) {
#pragma unroll
  for (int peer = 0; peer < kRanks; ++peer) {
    if (peer >= group.size || peer == group.rank) continue;
    put_marked(pairs_of(group, peer, message, group.rank) + pair, x.x, x.y, message);
  }
}
/// x: this rank's values of some pairs, then their sums over all ranks; void once the group is given up. pair: < 0:
/// none. All looks of a round are under way together.
template <int kRanks, int kPairs>
__device__ __forceinline__ void sum_pairs(const PushGroup& group, uint32_t message, const int64_t (&pair)[kPairs],
                                          float2 (&x)[kPairs]) {
  constexpr int kTogether = kRanks <= 4 ? kRanks : 2;  // ranks that are looked at in one round; registers are few
  float first[kPairs][kRanks], second[kPairs][kRanks];
#pragma unroll
  for (int begin = 0; begin < kRanks; begin += kTogether) {
    MarkedPair words[kTogether][kPairs];
    const auto each = [&](auto&& body) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
#pragma unroll
        for (int p = 0; p < kPairs; ++p)
          if (begin + i < group.size && begin + i != group.rank && pair[p] >= 0) body(i, p, words[i][p]);
    };
    bool all_here = true;
    int looks = 0;
    do {
      each([&](int i, int p, MarkedPair& word) {
        word = MarkedPair::at(pairs_of(group, group.rank, message, begin + i) + pair[p]);
      });
      all_here = true;
      each([&](int, int, const MarkedPair& word) { all_here = all_here && word.has(message); });
      if (++looks % kLooksBetween == 0 && is_given_up(group.given_up)) break;
    } while (!all_here);
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        const bool mine = begin + i == group.rank;
        first[p][begin + i] = mine ? x[p].x : words[i][p].first();
        second[p][begin + i] = mine ? x[p].y : words[i][p].second();
      }
  }
#pragma unroll
  for (int p = 0; p < kPairs; ++p)
    x[p] = {math::tree_sum_of(first[p], group.size), math::tree_sum_of(second[p], group.size)};
}

}  // namespace paceline::cuda
