#pragma once
// Which part of a model a rank holds: arithmetic only, before any file is read.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/model/weight_table.h"
#include "engine/weights/tensor_source.h"
#include "kernels/backend.h"

namespace paceline {

struct ShardPlan {
  int tp_rank = 0;
  int tp_size = 1;
  int layer_begin = 0;  // layers [layer_begin, layer_end)
  int layer_end = 0;
  bool first_stage = true;    // holds the embedding
  bool last_stage = true;     // holds the final norm and the head
  DType dtype = DType::bf16;  // storage of the packed matrices
};

/// Query heads are split in order, and a rank holds each KV head that one of them reads: neighbours hold the same one
/// where there are fewer KV heads than ranks, or where a rank begins inside a group. The vocabulary is padded to
/// vocab_rows * tp_size rows.
struct ShardShape {
  int num_heads = 0;  // query heads [tp_rank * num_heads, …)
  int kv_head_begin = 0;
  int num_kv_heads = 0;
  int head_offset = 0;   // of the first query head within its group
  int heads_per_kv = 1;  // query heads that share a KV head, on any rank
  int intermediate = 0;  // rows [tp_rank * intermediate, …) of gate and up, columns of down
  int vocab_begin = 0;
  int vocab_rows = 0;           // padding included, the same on every rank
  int real_vocab_rows = 0;      // 0 on a rank that holds padding only
  int row_parallel_chunks = 8;  // strict chunks of o and down that this shard holds
};

/// REQUIRES a plan that validate_parallel accepts.
ShardShape shard_shape(const ModelSpec& spec, const ShardPlan& plan);

/// A matrix as a rank packs it: rows of one role, or of several stacked.
struct PackedMatrix {
  struct Rows {
    TensorRole role = TensorRole::embed;
    TensorRange range;  // of the role's weight
  };
  std::vector<Rows> rows;
  PackSpec pack;  // its dtype is the plan's

  int64_t num_rows() const;  // padding aside
  int64_t num_cols() const { return rows.front().range.num_cols; }
};

struct LayerMatrices {
  PackedMatrix qkv, o, gate_up, down;
};

/// What this rank holds of a layer, of the embedding and of a head of its own.
LayerMatrices layer_matrices(const ModelSpec& spec, const ShardPlan& plan, int layer);
PackedMatrix embedding_matrix(const ModelSpec& spec, const ShardPlan& plan);
PackedMatrix head_matrix(const ModelSpec& spec, const ShardPlan& plan);
/// Of a role that every rank of a stage holds whole (position, project_in, project_out); empty: the model has none.
std::optional<PackedMatrix> whole_matrix(const ModelSpec& spec, TensorRole role);

/// Throws Error(usage) naming the number at fault and the sizes that work.
void validate_parallel(const ModelSpec& spec, int tp, int pp);

/// Bytes that load_shard will hold: packed matrices (output rows rounded up to panels), in fast numerics with their row
/// copies, and fp32 vectors.
size_t weight_bytes(const ModelSpec& spec, const ShardPlan& plan, Numerics numerics = Numerics::strict);

}  // namespace paceline
