#pragma once
// The weights of an EAGLE-3 head, packed for the rank that decides.

#include <vector>

#include "engine/weights/shard_weights.h"
#include "speculative/eagle3_spec.h"

namespace paceline {

/// Const after loading. h, t, n as in Eagle3Spec.
struct Eagle3Weights {
  Weight fc;                        // [h, n * t]
  Weight qkv;                       // [(num_heads + 2 * num_kv_heads) * head_dim, 2 * h]: over a token, then a feature
  Weight o;                         // [h, num_heads * head_dim]
  Weight gate_up;                   // [2 * intermediate_size, h], pair panels
  Weight down;                      // [h, intermediate_size]
  Weight head;                      // [draft_vocab_size, h]
  Weight embed;                     // [vocab_size, h]
  std::vector<float> input_norm;    // [n * t]: of all taps with norm_before_fc, of each with fc_norm, else empty
  std::vector<float> token_norm;    // [h]
  std::vector<float> feature_norm;  // [h]
  std::vector<float> mlp_norm;      // [h]
  std::vector<float> last_norm;     // [h]
  std::vector<float> q_norm, k_norm;  // [head_dim] or empty
  std::vector<float> qkv_bias;        // [qkv rows] or empty
};

/// What it takes from a target whose own embedding or head it uses.
struct Eagle3Target {
  const TensorSource& source;
  const ModelSpec& spec;
  const ShardWeights* held = nullptr;  // of the deciding rank: shared where they are whole and of the same type
};

/// Bytes that load_eagle3_weights packs on a device of `numerics`. `is_alone`: the target is on the deciding rank
/// alone, in the same type.
size_t eagle3_weight_bytes(const Eagle3Spec& spec, DType dtype, bool is_alone, Numerics numerics);

/// Bytes of weights that a pass over one row reads, the table of embeddings aside.
size_t eagle3_read_bytes(const Eagle3Spec& spec, DType dtype);

/// On the deciding rank's thread. Throws Error(model_file) for values that are NaN, infinite or too large for `dtype`.
Eagle3Weights load_eagle3_weights(const TensorSource& source, const Eagle3Spec& spec, const Eagle3Target& target,
                                  DType dtype, Backend& backend);

}  // namespace paceline
