#pragma once
// One rank's weights, packed for its backend straight from a checkpoint's mapping, or as a rule makes them.

#include <cstddef>
#include <vector>

#include "engine/model/model_spec.h"
#include "engine/weights/shard_weights_plan.h"
#include "engine/weights/tensor_source.h"
#include "kernels/backend.h"

namespace paceline {

/// Vectors are fp32; an empty one means that the family has none. Row-parallel biases (o, down) are whole on every
/// rank: they are added once, after the sum over ranks.
struct LayerWeights {
  std::vector<float> attn_norm, attn_norm_bias;                                           // [hidden]
  std::vector<float> mlp_norm, mlp_norm_bias;                                             // [hidden]
  std::vector<float> attn_out_norm, attn_out_norm_bias, mlp_out_norm, mlp_out_norm_bias;  // [hidden]
  std::vector<float> q_norm, k_norm;  // [head_dim], or [num_heads * head_dim], [num_kv_heads * head_dim]
  Weight qkv;                         // [(num_heads + 2 * num_kv_heads) * head_dim, hidden]: q rows, k rows, v rows
  std::vector<float> qkv_bias;        // [qkv rows]
  Weight o;                           // [hidden, num_heads * head_dim]
  std::vector<float> o_bias;          // [hidden]
  Weight gate_up;  // gated: [2 * intermediate, hidden] as pair panels; plain: up, [intermediate, hidden]
  std::vector<float> gate_up_bias;  // gate rows first, then up rows
  Weight down;                      // [hidden, intermediate]
  std::vector<float> down_bias;     // [hidden]
};

/// Const after load_shard; shared by a target and its self-draft.
struct ShardWeights {
  ShardPlan plan;
  int num_heads = 0;                               // of this shard
  int num_kv_heads = 0;                            // of this shard
  int head_offset = 0;                             // of its first query head within that head's group
  int heads_per_kv = 1;                            // query heads of a group
  int intermediate = 0;                            // of this shard
  int vocab_begin = 0;                             // first token id of this shard; beyond vocab_size: padding only
  int vocab_rows = 0;                              // padding included
  Weight embed;                                    // [vocab_rows, embed_cols]; first stage
  Weight positions;                                // [positions.rows, hidden]; first stage, whole on every rank
  Weight project_in;                               // [hidden, embed_cols]; first stage, whole on every rank
  Weight project_out;                              // [embed_cols, hidden]; last stage, whole on every rank
  std::vector<LayerWeights> layers;                // of layers [plan.layer_begin, plan.layer_end)
  std::vector<float> final_norm, final_norm_bias;  // [hidden]; last stage
  Weight head;       // [vocab_rows, embed_cols]; last stage; == embed when tied and this rank holds both
  size_t bytes = 0;  // packed matrices and vectors
};

/// Throws Error(model_file) listing every tensor that is missing or has another shape than config.json implies (at
/// most 20). Returns the names of tensors that nothing will use.
std::vector<std::string> check_tensors(const TensorSource& source, const ModelSpec& spec);

/// Loads this rank's part and asks `source` for no more than that; rank 0 of the first stage warns of tensors that
/// nothing uses, and compares a tied head's copy with what it copies. A tensor's memory is released as soon as it is
/// packed. Called on the rank's thread; ranks may load at the same time. REQUIRES validate_parallel(spec, plan.tp_size,
/// …). Throws Error(model_file): see check_tensors; a head beside a tied embedding from which it differs; a value that
/// is NaN, infinite or too large for plan.dtype (tensor and first index are named); a file that shrank meanwhile.
ShardWeights load_shard(const TensorSource& source, const ModelSpec& spec, const ShardPlan& plan, Backend& backend);

}  // namespace paceline
