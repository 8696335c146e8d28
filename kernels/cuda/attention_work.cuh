#pragma once
// What the kernels of attention work on. A chunk of a row and head leaves its maximum score, its sum of weights and its
// unnormalised output; parts are added from left to right, by attention_merge_kernel or by a block that takes all
// chunks itself, with the same operations.

#include <type_traits>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/page_maps.h"
#include "kernels/math/divisor.h"
#include "kernels/math/elementary.h"

namespace paceline::cuda {

inline constexpr int kHeader = 4;  // maximum, sum; 16 bytes, so that copies find parts aligned

struct AttentionWork {
  const float* q;
  int64_t q_stride;
  float* out;
  int64_t out_stride;
  Operand operand;  // written in place of out where it has values
  const void* k;
  const void* v;
  DType dtype;  // of both
  AttentionPlan plan;
  float* workspace;  // [row][head][part][kHeader + v_dim]; of pieces: where LineTile::first_part says
  int num_heads;
  int group;
  math::Divisor by_group;
  int head_offset;
  int num_kv_heads;
  int k_dim;
  int v_dim;
  int v_stride;  // values between V's positions: v_dim, or k_dim where V is a part of K
  int block_size;
  int window;
  float scale;
  float softcap;   // 0: none
  bool q_aligned;  // to kSteps values, or to fours
  FreshRows fresh;

  __device__ void put(int row, int head, int d, float x) const {
    const int64_t col = int64_t{head} * v_dim + d;
    if (operand.values)
      operand.row(row).put(col, x);
    else
      out[row * out_stride + col] = x;
  }
  /// Where a page's position `offset` of a KV head lies, in rows of K, and of V.
  __device__ int64_t row_of_page(int kv_head, int32_t page, int offset) const {
    return (int64_t{page} * num_kv_heads + kv_head) * block_size + offset;
  }
  /// Of a sequence.
  __device__ int row_of_line(int line) const { return by_group.quotient(line); }
  __device__ int32_t first_key(int32_t len) const { return cuda::first_key(window, len); }
  /// Whether a chunk's keys, as far as they are not fresh, are there before the kernel's predecessor ends. own:
  /// LineTile::own.
  __device__ bool is_early(int chunk, int32_t own) const {
    return plan.keys_stay && (fresh.k || (chunk + 1) * kDeviceChunk <= own);
  }
  __device__ float* part_of(int row, int head, int part) const {
    return workspace + ((int64_t{row - plan.first_row} * num_heads + head) * plan.num_parts + part) * (kHeader + v_dim);
  }
  /// Where a block that takes all chunks leaves its sum, or a chunk's part.
  __device__ float* left_by(const LineTile& tile, int row, int head, int part) const {
    const int64_t first = tile.first_part + (int64_t{row - tile.first_row} * num_heads + head) * tile.row_parts;
    return workspace + (first + part) * (kHeader + v_dim);
  }
  __device__ float* left_by(const TreeTile&, int row, int head, int part) const { return part_of(row, head, part); }

  // What tiles of trees have of their own.
  __device__ const LineTile& tile_at(int index, const LineTile*) const { return plan.tile[index]; }
  __device__ const TreeTile& tile_at(int index, const TreeTile*) const { return plan.tree_tile[index]; }
  /// Row `index` of a tile's sequence, or path.
  __device__ int row_of(const LineTile& tile, int index) const { return tile.first_row + index; }
  __device__ int row_of(const TreeTile& tile, int index) const {
    return tile.rows < 0 ? tile.first_row + index : plan.row[tile.rows + index];
  }
  /// The position in whose place a key lies.
  __device__ int32_t place_of(const LineTile&, int32_t position) const { return position; }
  __device__ int32_t place_of(const TreeTile& tile, int32_t position) const {
    return position < tile.tree_begin ? position : plan.place[tile.path + position - tile.tree_begin];
  }
};

/// Whether tiles are of trees.
template <class Tile>
inline constexpr bool kOfTree = std::is_same_v<Tile, TreeTile>;

/// How the sum so far (left) and a chunk's part are scaled when they are added.
struct alignas(8) Rescale {
  float left, part;
  /// largest: of both, NaN if one is.
  __device__ static Rescale of(float left_largest, float part_largest, float largest) {
    const float base = largest == -INFINITY ? 0.0f : largest;
    return {math::exp_of(left_largest - base), math::exp_of(part_largest - base)};
  }
  __device__ float add(float to, float x) const { return __fmaf_rn(x, part, to * left); }
};

/// What a line's outputs are multiplied by in the end. sum: of its weights.
__device__ __forceinline__ float factor_of(float sum) { return 1.0f / sum; }

/// Of a block's shared memory, what the driver and a kernel itself take at most.
inline constexpr size_t kReservedShared = 2048;

/// Rows in lines (LineTile) and bfloat16 pages by tensor cores: for blocks that take one chunk; up to kFewLines, and
/// many, for those that take all. Only the first two take fresh rows.
void attention_chunks(const AttentionWork& work, const PageMaps& maps, LaunchTo queue);
void attention_few(const AttentionWork& work, const PageMaps& maps, LaunchTo queue);
void attention_many(const AttentionWork& work, const PageMaps& maps, LaunchTo queue);
/// Rows of AttentionPlan::merged, from the parts that pieces have left.
void merge_pieces(const AttentionWork& work, LaunchTo queue);
void prepare_attention_few(const cudaDeviceProp& device);
void prepare_attention_many(const cudaDeviceProp& device);

}  // namespace paceline::cuda
