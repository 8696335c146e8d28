#pragma once
// Blocks of a cluster that share a tile's chunks, where tiles are few (attention_few.cu).

#include "kernels/cuda/attention_tiles.cuh"

namespace paceline::cuda {

/// A thread's two lines over one chunk: the largest scores, not scaled yet; the sums of weights; the outputs of the
/// warp's dimensions.
template <int kDims>
struct ChunkPart {
  static constexpr int kDimTiles = kDims / 8 / kWarps;  // of eight

  float largest[2];
  float sum[2];
  float output[kDimTiles][4] = {};
};

/// Blocks of a team, at most.
constexpr int kMostTeamBlocks = 4;

/// What a block hands to the first of its team of a chunk's part: a place for each thread.
template <int kDims>
struct HandedChunk {
  static constexpr int kMostThreads = kFewLines / 16 * kThreads;

  float4 lines[kMostThreads];  // largest scores, not scaled yet, and sums of both
  float4 output[ChunkPart<kDims>::kDimTiles][kMostThreads];
};

/// A block that takes all chunks itself.
struct NoTeam {
  using Barriers = uint64_t[1];

  template <class... Arguments>
  __device__ explicit NoTeam(const Arguments&...) {}
  __device__ static void meet() {}
  __device__ static void await_others() {}
  __device__ static bool is_first() { return true; }
  __device__ static int rank() { return 0; }
  __device__ static int size() { return 1; }
  __device__ static int chunk_of(int, int) { return -1; }
  template <class Part>
  __device__ static void hand(const Part&, int) {}
  template <class Part>
  __device__ static void take(Part&, int, int) {}
};

#if __CUDA_ARCH__ >= 900
/// Blocks of a cluster that take the chunks of a tile by turns, in rounds; all but the first hand theirs to the first,
/// which adds all of them from left to right. A place serves one chunk after the other.
template <int kDims>
class Team {
 public:
  using Barriers = uint64_t[kMostTeamBlocks];  // of the first block: what the others hand has come; else: it was taken

  /// By all threads, before a barrier of the block. handed: a place for each block but the first. takers: threads that
  /// hand and take. num_chunks: of the tile.
  __device__ Team(HandedChunk<kDims>* handed, Barriers& barriers, int size, int num_chunks, int takers)
      : handed_(handed),
        barriers_(shared_address(&barriers)),
        rank_(int(cluster_rank())),
        size_(size),
        num_chunks_(num_chunks),
        takers_(takers) {
    if (threadIdx.x != 0) return;
#pragma unroll 1
    for (int block = 1; block < size_; ++block)
      init_barrier(barrier_of(block), is_first() ? 1u : uint32_t(takers_ / 32));
#pragma unroll 1
    for (int block = 1; is_first() && block < size_; ++block) expect(block, 0);
  }
  /// By all threads, behind that barrier; by those that hand or take, before they do.
  __device__ static void meet() { arrive_at_cluster_barrier(); }
  __device__ static void await_others() { await_cluster_barrier(); }
  __device__ bool is_first() const { return rank_ == 0; }
  __device__ int rank() const { return rank_; }
  __device__ int size() const { return size_; }
  /// Of a round, what comes from block `block`; -1: nothing.
  __device__ int chunk_of(int block, int round) const {
    const int chunk = round * size_ + block;
    return chunk < num_chunks_ ? chunk : -1;
  }

  /// By all takers of a block behind the first.
  __device__ __forceinline__ void hand(const ChunkPart<kDims>& part, int round) const {
    if (round > 0) wait_at(barrier_of(rank_), (round - 1) & 1);
    const uint32_t barrier = address_in_block(barrier_of(rank_), 0);
    const auto send = [&](float4& to, float4 x) { send_four(address_in_block(shared_address(&to), 0), x, barrier); };
    HandedChunk<kDims>& to = handed_[rank_ - 1];
    send(to.lines[threadIdx.x], {part.largest[0], part.largest[1], part.sum[0], part.sum[1]});
#pragma unroll
    for (int t = 0; t < ChunkPart<kDims>::kDimTiles; ++t)
      send(to.output[t][threadIdx.x], {part.output[t][0], part.output[t][1], part.output[t][2], part.output[t][3]});
  }
  /// By all takers of the first block.
  __device__ __forceinline__ void take(ChunkPart<kDims>& part, int block, int round) const {
    wait_at(barrier_of(block), round & 1);
    const HandedChunk<kDims>& from = handed_[block - 1];
    const float4 lines = from.lines[threadIdx.x];
    part.largest[0] = lines.x, part.largest[1] = lines.y, part.sum[0] = lines.z, part.sum[1] = lines.w;
#pragma unroll
    for (int t = 0; t < ChunkPart<kDims>::kDimTiles; ++t) {
      const float4 x = from.output[t][threadIdx.x];
      part.output[t][0] = x.x, part.output[t][1] = x.y, part.output[t][2] = x.z, part.output[t][3] = x.w;
    }
    if (chunk_of(block, round + 1) < 0) return;
    if (threadIdx.x == 0) expect(block, round + 1);
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive_at_block(barrier_of(block), uint32_t(block));
  }

 private:
  __device__ uint32_t barrier_of(int block) const { return barriers_ + uint32_t(block) * 8; }
  __device__ void expect(int block, int round) const {
    constexpr int kBytes = 16 * (1 + ChunkPart<kDims>::kDimTiles);
    if (chunk_of(block, round) >= 0) expect_bytes(barrier_of(block), uint32_t(takers_ * kBytes));
  }

  HandedChunk<kDims>* const handed_;
  const uint32_t barriers_;
  const int rank_, size_, num_chunks_, takers_;
};
#else  // it is never launched there
template <int kDims>
using Team = NoTeam;
#endif

}  // namespace paceline::cuda
