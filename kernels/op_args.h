#pragma once
// What the ops of a backend take: weights as files hold them and as devices pack them, and one struct for each op.
// Plain data, for host and device code alike.

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/mat_view.h"
#include "kernels/math/activation.h"

namespace paceline {

/// Sums over K are cut into this many chunks, added as a fixed binary tree (docs/numerics.md).
inline constexpr int kStrictChunks = 8;
/// Keys are reduced in chunks of this many absolute positions, merged left to right.
inline constexpr int kAttentionChunk = 256;
/// Weights are packed in panels of this many output rows.
inline constexpr int kPanel = 16;

/// Rows of a matrix that are made when they are asked for.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// Rows [begin, begin + count) to `out`, one behind the other, as the matrix's dtype. Any thread.
  virtual void make(int64_t begin, int64_t count, void* out) const = 0;
};

/// A weight matrix as a checkpoint holds it: rows of `cols` elements, `row_stride` elements apart. A tensor
/// parallel shard is a row range (column-parallel layers) or a column range (row-parallel) of the file's rows.
struct HostWeight {
  const void* data = nullptr;  // null: `made` has the rows
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;
  const RowSource* made = nullptr;
};

struct PackSpec {
  DType dtype = DType::bf16;     // storage: f32, f16 or bf16
  int k_chunks = kStrictChunks;  // chunks of the strict sum that this shard holds: 8 / tp for row-parallel shards
  int64_t pad_rows_to = 0;       // zero rows appended after the last source row (padded vocabulary)
  bool pair_panels =
      false;  // two parts of equal rows, panels interleaved gate, up, gate, up, …: needed by Epilogue glu
  bool looked_up_only = false;  // by embed: no gemm multiplies it
};

/// A packed weight [n, k], const after pack(); shared by a target and its self-draft.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  int64_t n = 0;  // output rows, padding included
  int64_t k = 0;  // inputs
  DType dtype = DType::bf16;
  int k_chunks = kStrictChunks;
  bool pair_panels = false;
  size_t bytes = 0;  // device bytes held
  /// A value was NaN or infinite, or is so in dtype (find_unstorable, kernels/host_weight.h).
  bool has_unstorable = false;
};
using Weight = std::shared_ptr<const PackedWeight>;

enum class NormKind : uint8_t { rms, layer };
enum class RopeLayout : uint8_t { half_split, interleaved };

/// The type to which a GEMM rounds x, to nearest even, before it is multiplied by weights of a type; sums are float32.
/// bfloat16 matrix units take both operands so, on CPUs (where subnormal numbers are zeros) and on GPUs.
constexpr DType gemm_operand(DType weights) { return weights == DType::bf16 ? DType::bf16 : DType::f32; }

/// A sum over ranks that the ops around it carry out; the device's own.
struct PeerSum;

/// Fast numerics: products of this many rows or more may be made by a library, in an order of its own; those of fewer
/// rows, which are bound by reading weights, have the bits of strict.
inline constexpr int kFewestFastRows = 65;

/// y[m, n] = x[m, k] · Wᵀ (+ bias[n]), x as gemm_operand says; with add, y += that; with glu (pair_panels weight):
/// y[m, n / 2] = act(gate) * up.
struct GemmArgs {
  MatView x;  // [m, k] f32
  const PackedWeight* w = nullptr;
  const float* bias = nullptr;  // [n] (pair_panels: gate rows first, then up rows) or null
  MatView y;                    // [m, n] or [m, n / 2] f32
  bool add = false;             // not with glu
  bool glu = false;
  Activation activation = Activation::silu;
  const PackedWeight* reader = nullptr;  // set: only the next product reads y, by this weight: y may stay unwritten
  const PeerSum* sum = nullptr;          // set: y is this rank's part of that sum, for a norm (Communicator::next_sum)
  bool attention_follows = false;        // the next op is attention over y, for which a device may leave room
};

/// residual += delta (+ delta_bias) when delta is given; then out = norm(residual) * weight (+ bias).
struct NormArgs {
  NormKind kind = NormKind::rms;
  MatView residual;                   // [m, d] f32, in and out
  MatView delta;                      // [m, d] f32, or data == null
  const float* delta_bias = nullptr;  // [d] or null
  const PeerSum* sum = nullptr;       // set: delta is this rank's part of that sum (Communicator::next_sum)
  const float* weight = nullptr;      // [d]
  const float* bias = nullptr;        // [d] or null
  float eps = 1e-5f;
  MatView out;  // [m, d] f32; data == null: only the residual is added
};

/// Stands for the token that a draw leaves in a cell of the backend's memory (SampleArgs::token_cells), which the host
/// may not know yet. Below -1.
constexpr int32_t token_in_cell(int32_t cell) { return -2 - cell; }
/// The cell of such a token, -1 of any other.
constexpr int32_t cell_of_token(int32_t token) { return token < -1 ? -2 - token : -1; }

/// out row r = table row (token[r] - row_begin); tokens outside the table's rows give rows of -0.0, so that
/// the sum over vocabulary shards is exact. token -1 (padding row) gives -0.0 too.
struct EmbedArgs {
  const PackedWeight* table = nullptr;  // [rows of this shard, d]
  int32_t row_begin = 0;
  std::span<const int32_t> token;        // [m]; token_in_cell(): what stands there when the op runs
  const int32_t* token_cells = nullptr;  // as in SampleArgs; null: tokens below -1 are padding, too
  float scale = 1.0f;                    // multiplies the rows
  MatView out;                           // [m, d] f32
};

/// Each head of a row by itself, in place: norm(head) * weight, without bias. Heads lie side by side.
struct HeadNormArgs {
  NormKind kind = NormKind::rms;
  MatView x;  // [m, num_heads * head_dim] f32 (stride may be larger: a part of qkv)
  int num_heads = 0;
  int head_dim = 0;
  const float* weight = nullptr;  // [head_dim], or with weight_per_head [num_heads, head_dim]
  bool weight_per_head = false;
  float eps = 1e-5f;
};

/// x[m, d] = cap * tanh(x / cap) (Gemma 2)
struct SoftcapArgs {
  MatView x;
  float cap = 0.0f;
};

/// Rotates the first rotary_dim of each head in place. Angle of pair i at position p: p * inv_freq[i].
struct RopeArgs {
  MatView x;  // [m, num_heads * head_dim] f32 (stride may be larger: a part of qkv)
  int num_heads = 0;
  int head_dim = 0;
  int rotary_dim = 0;
  RopeLayout layout = RopeLayout::half_split;
  std::span<const double> inv_freq;   // [rotary_dim / 2]
  float attention_factor = 1.0f;      // multiplies cos and sin
  std::span<const int32_t> position;  // [m]; < 0: padding row, left alone
};

/// to row `to_row[i]` = from row `row[i]`; from and to do not overlap.
struct GatherRowsArgs {
  MatView from;                          // [m, d] f32
  std::span<const int32_t> row;          // what is copied
  MatView to;                            // f32, as wide
  std::span<const int32_t> to_row = {};  // [row.size()], no two alike; empty: 0, 1, …
};

/// x[m, d] = act(x)
struct ActivationArgs {
  MatView x;
  Activation activation = Activation::gelu;
};

/// One layer's pages. The layout inside a block is the backend's own; slot = block * block_size + offset.
/// v null: V is the first v_dim of K.
struct KvView {
  void* k = nullptr;
  void* v = nullptr;
  DType dtype = DType::f32;
  int block_size = 16;
  int num_kv_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
};

/// Bytes of one block of one layer: K and V of `block_size` positions.
constexpr size_t kv_block_bytes(const KvView& kv) {
  return size_t(kv.block_size) * size_t(kv.num_kv_heads) * size_t(kv.k_dim + (kv.v ? kv.v_dim : 0)) *
         dtype_bytes(kv.dtype);
}

struct StoreKvArgs {
  MatView k;                      // [m, num_kv_heads * k_dim] f32
  MatView v;                      // [m, num_kv_heads * v_dim] f32
  std::span<const int32_t> slot;  // [m]; < 0: not stored
  KvView kv;
};

struct SlotMove {
  int32_t from = 0;
  int32_t to = 0;
};

/// A whole block between pages and host memory.
struct BlockSwap {
  int32_t block = 0;
  int32_t host_block = 0;
  bool to_host = true;
};

/// Rows [first_row, first_row + num_rows) of one sequence whose pages are block[block_begin …]: position p lies in
/// block[block_begin + p / block_size]. They are at consecutive positions, but for drafts that branch.
struct SeqSpan {
  static constexpr int32_t kNoTree = INT32_MAX;

  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t block_begin = 0;
  int32_t tree_begin = kNoTree;  // position of the first draft where drafts branch: see KeyPaths
};

/// Where drafts branch, a row sees those that it follows and no other. Of a span with a tree, row r's key of position
/// p >= tree_begin lies in the place of position place[begin[r] + p - tree_begin], which grows with p, is at least p
/// and less than p + 64. The drafts are the span's last rows, at consecutive places; those before them were stored by
/// earlier calls. Sums go by position, so the row's bits are those of its path as a chain.
struct KeyPaths {
  std::span<const int32_t> begin;  // [m]
  std::span<const int32_t> place;
};

/// out = softmax(scale * q · Kᵀ) · V over positions [0, kv_len[r]) of the row's sequence, or the last
/// `window` of them. kv_len[r] == 0: padding row, out row set to 0.
struct AttentionArgs {
  MatView q;                // [m, num_heads * k_dim] f32
  MatView out;              // [m, num_heads * v_dim] f32
  int num_heads = 0;        // query heads of this shard: head h reads KV head (h + head_offset) / group
  int group = 0;            // query heads that share a KV head; 0: num_heads / kv.num_kv_heads
  int32_t head_offset = 0;  // of head 0 within its group, where a shard begins inside one
  float scale = 1.0f;
  float softcap = 0.0f;  // scores become softcap * tanh(score / softcap); 0: they stay
  int32_t window = 0;    // 0: no sliding window
  std::span<const SeqSpan> seqs;
  std::span<const int32_t> kv_len;  // [m]
  std::span<const int32_t> block;
  KeyPaths paths;  // empty where no span has a tree
  KvView kv;
  const PackedWeight* reader = nullptr;  // of out, as in GemmArgs
};

/// Of the row's last key, where seq has a tree that the row reaches.
inline int32_t last_place(const AttentionArgs& args, const SeqSpan& seq, int32_t row) {
  return args.paths.place[size_t(args.paths.begin[size_t(row)] + args.kv_len[size_t(row)] - 1 - seq.tree_begin)];
}

}  // namespace paceline
