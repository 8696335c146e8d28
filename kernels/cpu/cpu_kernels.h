#pragma once
// The table of bodies that one instruction set brings: single-threaded, bit-identical in every table. The drivers
// (gemm.cpp, attention.cpp, cpu_backend.cpp) cut ops into calls of these. Plain structs and pointers only, since
// instruction-set-specific files include this header.

#include <cstdint>

#include "kernels/block_format.h"
#include "kernels/math/activation.h"

namespace paceline {

/// Index of the storage type in the tables below.
enum StorageIndex : int { kStoreF32 = 0, kStoreF16 = 1, kStoreBf16 = 2, kNumStorage = 3 };

inline constexpr int kLanes = 16;              // = kPanel
inline constexpr int kChunkKeys = 256;         // = kAttentionChunk
inline constexpr int kMaxTileRows = 12;        // gemm register tile
inline constexpr int kMaxAttentionLines = 12;  // (row, head) pairs that share one read of K and V

/// Chunks whose steps lie side by side in a panel.
inline constexpr int kInterleave = 2;

/// Values of k that one step of a panel holds: two bfloat16 make a 32-bit word, the first in its upper half.
PACELINE_MATH constexpr int values_per_step(StorageIndex storage) { return storage == kStoreBf16 ? 2 : 1; }

/// The order of a panel's k: chunk c is [c k / k_chunks, (c + 1) k / k_chunks), cut into steps, the last ones filled
/// with zeros until all chunks have as many. Groups of up to kInterleave chunks follow each other; in a group lies
/// step by step, the group's chunks side by side, so that several chains run over one stream of memory. Activations
/// are packed in the same order.
struct PanelOrder {
  int64_t k = 0;
  int k_chunks = 1;
  int step_values = 1;
  int interleave = 1;
  int64_t length = 0;  // steps of a chunk

  PACELINE_MATH PanelOrder(int64_t k_, int k_chunks_, StorageIndex storage)
      : k(k_),
        k_chunks(k_chunks_),
        step_values(values_per_step(storage)),
        interleave(k_chunks_ < kInterleave ? k_chunks_ : kInterleave),
        length(((k_ + k_chunks_ - 1) / k_chunks_ + step_values - 1) / step_values) {}
  PACELINE_MATH int64_t chunk_begin(int chunk) const { return chunk * k / k_chunks; }
  PACELINE_MATH int64_t chunk_values(int chunk) const { return chunk_begin(chunk + 1) - chunk_begin(chunk); }
  /// Values of a row, the zeros included.
  PACELINE_MATH int64_t values() const { return length * k_chunks * step_values; }
  /// Steps before the first of `chunk`; its next one comes `interleave` steps later.
  PACELINE_MATH int64_t first_step(int chunk) const {
    return chunk / interleave * interleave * length + chunk % interleave;
  }
};

/// Rows are cut into num_tiles tiles of num_rows / num_tiles rows, the first num_rows % num_tiles one more.
struct GemmWork {
  PanelOrder order;
  const float* x = nullptr;  // tile t of R rows, first row r: x + r * order.values(), as pack_rows left it
  int num_rows = 0;
  int num_tiles = 0;
  const void* w = nullptr;      // [panel][step in PanelOrder][16][value]
  const float* bias = nullptr;  // [n] or null
  float* y = nullptr;
  int64_t y_stride = 0;
  int64_t n = 0;  // columns of y that hold w's rows (pair_panels: gate rows, then up rows)
  bool add = false;
  bool pair_panels = false;
  bool glu = false;
  Activation activation = Activation::silu;

  PACELINE_MATH int tile_begin(int tile) const {
    const int more = num_rows % num_tiles;
    return tile * (num_rows / num_tiles) + (tile < more ? tile : more);
  }
  /// A unit is a panel, or with pair_panels a gate panel and its up panel.
  PACELINE_MATH int64_t num_units() const { return ((pair_panels ? n / 2 : n) + kLanes - 1) / kLanes; }
};

struct NormWork {
  bool layer = false;  // else rms
  float* residual = nullptr;
  int64_t residual_stride = 0;
  const float* delta = nullptr;
  int64_t delta_stride = 0;
  const float* delta_bias = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float eps = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  int cols = 0;
};

struct AttentionWork {
  const float* q = nullptr;
  int64_t q_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  float scale = 1;
  float softcap = 0;
  int32_t window = 0;
  const int32_t* kv_len = nullptr;      // [rows]
  const int32_t* path_begin = nullptr;  // [rows]; this and the next as in KeyPaths
  const int32_t* place = nullptr;
  const void* k = nullptr;  // [block][kv head][k_dim][block_size]
  const void* v = nullptr;  // [block][kv head][block_size][v_dim]; null: the first v_dim of K
  int block_size = 16;
  int num_kv_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
};

/// Lines [line_begin, line_end) of one sequence and KV head; line l is row first_row + l / num_heads, query head
/// head_begin + l % num_heads.
struct AttentionTile {
  const int32_t* block = nullptr;  // the sequence's pages
  int32_t first_row = 0;
  int32_t kv_head = 0;
  int32_t head_begin = 0;
  int32_t num_heads = 0;
  int32_t line_begin = 0;
  int32_t line_end = 0;
  int32_t tree_begin = INT32_MAX;  // SeqSpan::tree_begin
};

/// What a chunk of keys leaves for a line: max, sum, 1 if any key was visible, padding to 16, then o[v_dim padded].
inline constexpr int64_t kPartialHeader = 16;
PACELINE_MATH constexpr int64_t partial_stride(int v_dim) {
  return kPartialHeader + (v_dim + kLanes - 1) / kLanes * kLanes;
}
/// Floats of scratch for one attention_partial call.
PACELINE_MATH constexpr int64_t attention_scratch(int k_dim, int v_dim) {
  return int64_t{kMaxAttentionLines} * (k_dim + 2 * kChunkKeys) + int64_t{kChunkKeys} * (v_dim + kLanes);
}

struct StoreKvWork {
  const float* k = nullptr;
  int64_t k_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  const int32_t* slot = nullptr;
  void* k_page = nullptr;
  void* v_page = nullptr;
  int block_size = 16;
  int num_kv_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
};

struct RopeWork {
  float* x = nullptr;  // one row
  int num_heads = 0;
  int head_dim = 0;
  int rotary_dim = 0;
  bool interleaved = false;
  const float* cos = nullptr;  // [rotary_dim / 2]
  const float* sin = nullptr;
};

struct BlockDecoder {
  int elements, bytes;  // of a block
  /// Columns [begin, end) of the row of blocks at `row`, to `out` as a storage type. Cuts may lie inside blocks.
  void (*decode[kNumStorage])(const uint8_t* row, int64_t begin, int64_t end, void* out);
};

struct CpuKernels {
  int max_tile_rows;
  int max_attention_lines;
  /// [rows][stride] to the form that gemm of this storage type reads, at most rows * order.values() floats, rounded to
  /// gemm_operand; rows <= kMaxTileRows. Memory from `ahead` on, as many bytes as x has, is fetched meanwhile.
  void (*pack_rows[kNumStorage])(const float* x, int64_t stride, int rows, const PanelOrder& order, float* out,
                                 const char* ahead);
  void (*gemm[kNumStorage])(const GemmWork& work, int tile_begin, int tile_end, int64_t unit_begin, int64_t unit_end);
  /// 16 rows or fewer (missing ones become zeros) to a panel: [source][target]
  void (*pack_panel[kNumStorage][kNumStorage])(const void* rows, int64_t stride, int num_rows, const PanelOrder& order,
                                               void* panel);
  void (*norm)(const NormWork& work, int64_t row_begin, int64_t row_end);
  /// Row `row` of a packed matrix, widened.
  void (*unpack_row[kNumStorage])(const void* w, int64_t row, const PanelOrder& order, float* out);
  /// Whether one of `count` words, without the bits outside of `mask`, is at least `limit`.
  bool (*any_at_least16)(const uint16_t* words, int64_t count, uint16_t mask, uint16_t limit);
  bool (*any_at_least32)(const uint32_t* words, int64_t count, uint32_t mask, uint32_t limit);
  BlockDecoder blocks[kNumBlockFormats];  // by BlockFormat
  void (*rope)(const RopeWork& work);
  void (*activation)(float* x, int64_t count, Activation activation);
  void (*softcap)(float* x, int64_t count, float cap);
  /// Rows [row_begin, row_end) of one KV head.
  void (*store_kv[kNumStorage])(const StoreKvWork& work, int kv_head, int64_t row_begin, int64_t row_end);
  /// partial: [kMaxAttentionLines][partial_stride]
  void (*attention_partial[kNumStorage])(const AttentionWork& work, const AttentionTile& tile, int64_t chunk,
                                         float* partial, float* scratch);
  void (*attention_merge)(int num_lines, int v_dim, float* left, const float* right);
  void (*attention_finish)(const AttentionWork& work, const AttentionTile& tile, const float* state);
};

/// Null when this build has no such bodies.
const CpuKernels* scalar_kernels();
const CpuKernels* avx2_kernels();
const CpuKernels* avx512_kernels();
const CpuKernels* avx512_bf16_kernels();

}  // namespace paceline
