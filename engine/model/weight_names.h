#pragma once
// Where a family keeps its tensors. Shapes follow from ModelSpec; only the loader reads this.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_spec.h"

namespace paceline {

/// Module names: the tensor is name + ".weight" (and ".bias" where the spec says so); "{}" stands for the layer.
struct WeightNames {
  std::string_view embed;
  std::string_view final_norm;
  std::string_view head;
  std::string_view attn_norm;
  std::string_view mlp_norm;
  std::string_view q, k, v, o;
  std::string_view gate, up, down;                     // gate: gated MLP only
  std::span<const std::string_view> ignored_suffixes;  // tensors that may be there and are recomputed instead
};

/// Module name of `pattern` in a layer (which a pattern without "{}" ignores).
std::string module_name(std::string_view pattern, int layer);
std::string weight_name(std::string_view pattern, int layer = 0);
std::string bias_name(std::string_view pattern, int layer = 0);

/// What a tensor is in the forward pass. The order is that of expected_tensors; new roles go to the end, since a role's
/// value names the tensor's random numbers (kernels/math/random_weight.h).
enum class TensorRole : uint8_t { embed, attn_norm, q, k, v, o, mlp_norm, gate, up, down, final_norm, head };

enum class TensorPiece : uint8_t { weight, bias };

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
  TensorRole role = TensorRole::embed;
  TensorPiece piece = TensorPiece::weight;
  int layer = 0;  // 0 outside the layers
};

/// Every tensor that a checkpoint of `spec` must hold. REQUIRES spec.names.
std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec);

}  // namespace paceline
