#pragma once
// Pieces of the kernels of attention by tensor cores (attention_few.cu, attention_many.cu).

#include "kernels/cuda/attention_stages.cuh"
#include "kernels/cuda/mma.cuh"

namespace paceline::cuda {

constexpr int kWarps = kMmaLines / 16;
constexpr int kThreads = kWarps * 32;
constexpr int kKeyTiles = kDeviceChunk / 8;
constexpr uint32_t kOnes = 0x3f803f80u;  // two of bfloat16

/// A query head of a row.
struct Line {
  int row = 0, head = 0;
  int32_t begin = 0, end = 0;  // keys that it sees; none: not a line
  bool is_padding = false;     // a row without keys

  __device__ bool sees(int32_t key) const { return key >= begin && key < end; }
  /// Of the chunk that begins there.
  __device__ bool sees_any(int32_t chunk_begin) const {
    return begin < chunk_begin + kDeviceChunk && end > max(chunk_begin, begin);
  }
};

template <class Tile>
__device__ inline Line line_of(const AttentionWork& work, const Tile& tile, int kv_head, int index) {
  Line line;
  if (uint32_t(index) >= uint32_t(tile.num_lines)) return line;
  const int row_of_tile = work.row_of_line(tile.first_line + index);
  line.row = work.row_of(tile, row_of_tile);
  line.head = kv_head * work.group + tile.first_line + index - row_of_tile * work.group - work.head_offset;
  if (line.head < 0 || line.head >= work.num_heads) return {};
  const int32_t len = work.plan.kv_len[line.row];
  line.is_padding = len <= 0;
  line.begin = work.first_key(len);
  line.end = max(len, line.begin);
  return line;
}

/// Over the four lanes that hold a line.
template <class Combine>
__device__ __forceinline__ float over_line(float x, Combine combine) {
  x = combine(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return combine(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/// The largest score of a thread's line `l` over kTiles times eight keys, for the four lanes that hold it.
template <int kTiles>
__device__ __forceinline__ float largest_of(const float (&score)[kTiles][4], int l) {
  float most = -INFINITY;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) most = Larger{}(Larger{}(most, score[t][l * 2]), score[t][l * 2 + 1]);
  return over_line(most, Larger{});
}

/// Chunks that hold keys that any row of a tile sees.
struct ChunkRange {
  int begin, end;

  __device__ explicit ChunkRange(const KeyRange& keys) : begin(keys.first_chunk()), end(keys.end_chunk()) {}
  __device__ ChunkRange within(int first, int last) const {
    ChunkRange range(*this);
    range.begin = max(begin, first);
    range.end = max(range.begin, min(end, last));
    return range;
  }
  /// That chunk, or none.
  __device__ ChunkRange only(int chunk) const {
    ChunkRange range(*this);
    range.begin = chunk, range.end = chunk + int(chunk >= begin && chunk < end);
    return range;
  }
};

/// Weights e^(score - largest) of a line's keys, from scores that are not scaled yet.
struct LineWeights {
  float scale = 0.0f, base = 0.0f;  // of powers of two

  LineWeights() = default;
  __device__ __forceinline__ LineWeights(const AttentionWork& work, float largest)
      : scale(work.scale * kLog2E), base(largest == -INFINITY ? 0.0f : largest * scale) {}
  __device__ __forceinline__ uint32_t pair(float x, float y) const {
    return bfloat_pair(power_of_two_approximate(__fmaf_rn(x, scale, -base)),
                       power_of_two_approximate(__fmaf_rn(y, scale, -base)));
  }
};

/// What a thread reads of a stage. Keys: its unit of a group of 32 dimensions, of eight keys from `first_key` on.
/// Values: the row that it gives to load_transposed() for 16 keys and 16 dimensions, two units from an even one on.
template <int kDims>
class StageReader {
 public:
  __device__ StageReader() {
    const int lane = int(threadIdx.x) % 32, key = key_at(lane / 4), row = key_at(lane % 8);
    key_ = key * 8 + (lane % 4 ^ key);
    value_ = (lane % 16 / 8 * 8 + row) * 8 + (lane / 16 ^ row);
  }
  __device__ __forceinline__ uint4 key_unit(const Stage<kDims>& stage, int first_key, int group) const {
    return stage.key[Stage<kDims>::place_of(group / 2, first_key) + (key_ ^ group % 2 * 4)];
  }
  __device__ __forceinline__ const uint4* value_row(const Stage<kDims>& stage, int first_key, int unit) const {
    return stage.value + Stage<kDims>::place_of(unit / 8, first_key) + (value_ ^ unit % 8);
  }

 private:
  int key_, value_;  // from the first key's units
};

/// The weight of a key for line `l` of this thread, which another of the line's four lanes holds. All lanes together.
__device__ inline float weight_at(const uint4 (&weight)[kDeviceChunk / 16], int key, int l) {
  uint32_t pair = 0;
#pragma unroll
  for (int step = 0; step < kDeviceChunk / 16; ++step) {
    const uint4 of = weight[step];
    if (key / 16 == step) pair = key / 8 % 2 ? (l ? of.w : of.z) : (l ? of.y : of.x);
  }
  const int index = index_of(key % 8);
  pair = __shfl_sync(0xffffffffu, pair, (threadIdx.x & 28) | index / 2);
  return __uint_as_float(index % 2 ? pair & 0xffff0000u : pair << 16);
}

/// To `part`, kTiles times eight dimensions from first_tile on, what values that are no numbers give to the lines that
/// see them.
template <int kTiles, class Tile>
__device__ __forceinline__ void add_non_numbers(const AttentionWork& work, const Tile& tile, int kv_head,
                                                const Line (&line)[2], const uint4 (&weight)[kDeviceChunk / 16],
                                                int32_t chunk_begin, int first_tile, float (&part)[kTiles][4]) {
#pragma unroll 1
  for (int key = 0; key < kDeviceChunk; ++key) {
    const int32_t position = chunk_begin + key;
    if (position < tile.keys.first || position >= tile.keys.last) continue;
    const int32_t place = work.place_of(tile, position);
    const auto* const value = static_cast<const __nv_bfloat16*>(work.v) +
                              row_in_pages(work, kv_head, page_of(work, tile, place), place) * work.k_dim;
    const float weight_of[2] = {weight_at(weight, key, 0), weight_at(weight, key, 1)};
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int d = (first_tile + t) * 8 + int(threadIdx.x) % 4 * 2 + j % 2;
        const float x = d < work.v_dim ? widen(value[d]) : 0.0f;
        if (!isfinite(x) && line[j / 2].sees(position)) part[t][j] += weight_of[j / 2] * x;
      }
  }
}

/// Of a chunk, the key of a thread's score `j` of eight keys from `first` on.
__device__ __forceinline__ int key_of_score(int first, int j) {
  return first + key_at(int(threadIdx.x) % 4 * 2 + j % 2);
}

/// Rescale::of for a thread's two lines, by the four lanes that hold them: each makes one of the four factors.
__device__ __forceinline__ void rescale_by_four(const float (&left)[2], const float (&part)[2],
                                                const float (&largest)[2], Rescale (&rescale)[2]) {
  const int lane = threadIdx.x % 32, first = lane & ~3;
  const bool second_line = lane & 2;
  const float most = second_line ? largest[1] : largest[0];
  const float of_left = second_line ? left[1] : left[0], of_part = second_line ? part[1] : part[0];
  const float mine = math::exp_of((lane & 1 ? of_part : of_left) - (most == -INFINITY ? 0.0f : most));
#pragma unroll
  for (int l = 0; l < 2; ++l)
    rescale[l] = {__shfl_sync(0xffffffffu, mine, first + l * 2), __shfl_sync(0xffffffffu, mine, first + l * 2 + 1)};
}

/// A chunk's largest scores, which are scaled here, among those of a thread's two lines; how the sums so far, of
/// weights and outputs, and the chunk's are added then.
__device__ __forceinline__ void rescale_to(const Line (&line)[2], int32_t chunk_begin, const float (&chunk_largest)[2],
                                           float scale, float (&largest)[2], Rescale (&rescale)[2]) {
  const float here[2] = {chunk_largest[0] * scale, chunk_largest[1] * scale};
  const float most[2] = {Larger{}(here[0], largest[0]), Larger{}(here[1], largest[1])};
  rescale_by_four(largest, here, most, rescale);
#pragma unroll
  for (int l = 0; l < 2; ++l) {
    if (!line[l].sees_any(chunk_begin))
      rescale[l] = {1.0f, -0.0f};  // its parts are zeros, and minus zero leaves every bit
    largest[l] = most[l];
  }
}

/// Where a line's outputs go, from first_tile on, which is even; a thread holds two neighbours of each eight.
struct LineOut {
  __nv_bfloat16* operand = nullptr;
  int64_t next_step;
  int next_half;
  float* out;

  __device__ LineOut(const AttentionWork& work, const Line& line, int first_tile) {
    // heads begin at whole steps
    const int64_t first = int64_t{line.head} * work.v_dim + first_tile * 8 + threadIdx.x % 4 * 2;
    out = work.out + line.row * work.out_stride + first;
    if (!work.operand.values) return;
    const Operand::Row row = work.operand.row(line.row);
    operand = row.place(first);
    next_step = row.next_step;
    next_half = row.next_half;
  }
  /// value(eight): two, of each of the first `eights` of kEights; written where it goes without a branch between.
  template <int kEights, class Value>
  __device__ __forceinline__ void put_all(int eights, const Value& value) const {
    if (operand) {
      __nv_bfloat16* to = as_it_is(operand);
#pragma unroll
      for (int eight = 0; eight < kEights; ++eight) {
        const float2 two = value(eight);
        if (eight < eights) *reinterpret_cast<uint32_t*>(to + eight % 2 * next_half) = bfloat_pair(two.x, two.y);
        if (eight % 2 == 1) to = as_it_is(to + next_step);
      }
      return;
    }
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) {
      const float2 two = value(eight);
      if (eight < eights) out[eight * 8] = two.x, out[eight * 8 + 1] = two.y;
    }
  }
  /// eight: from first_tile on.
  __device__ __forceinline__ void put(int eight, float x, float y) const {
    if (operand) {
      *reinterpret_cast<uint32_t*>(operand + (eight / 2 * next_step + eight % 2 * next_half)) = bfloat_pair(x, y);
    } else {
      out[eight * 8] = x;
      out[eight * 8 + 1] = y;
    }
  }
};

}  // namespace paceline::cuda
