#pragma once
// What the parse functions of families share: bounds of sizes, activations, rotary positions.

#include <array>
#include <functional>
#include <string_view>

#include "engine/model/model_spec.h"
#include "engine/model/model_spec_reader.h"
#include "engine/model/weight_table.h"

namespace paceline {

// Generous bounds: ten times the largest public model, small enough that products of two fit 64 bits with room.
inline constexpr IntRange kLayers{1, 2048};
inline constexpr IntRange kWidth{1, 1 << 20};
inline constexpr IntRange kHeads{1, 8192};
inline constexpr IntRange kHeadDim{2, 4096};
inline constexpr IntRange kVocab{1, 1 << 24};
inline constexpr IntRange kPositions{1, 1 << 27};
inline constexpr RealRange kEps{1e-12, 0.1};
inline constexpr RealRange kTheta{1.0, 1e12};
inline constexpr RealRange kFactor{1.0, 1e6};

/// Names of checkpoints that begin with "model.", as most do, and tensors of the rotation that are made anew.
inline constexpr std::array<std::string_view, 2> kModelPrefixes = {"model.", ""};
inline constexpr std::array<std::string_view, 1> kRotaryRecomputed = {".rotary_emb.inv_freq"};

/// Where Llama and those that took its names keep their weights; modules of the norms of heads.
constexpr std::array<WeightSite, 14> llama_sites(std::string_view q_norm_module, std::string_view k_norm_module) {
  using enum TensorRole;
  return {WeightSite{.role = embed, .module = "embed_tokens"},
          WeightSite{.role = attn_norm, .module = "layers.{}.input_layernorm"},
          WeightSite{.role = q, .module = "layers.{}.self_attn.q_proj"},
          WeightSite{.role = k, .module = "layers.{}.self_attn.k_proj"},
          WeightSite{.role = v, .module = "layers.{}.self_attn.v_proj"},
          WeightSite{.role = q_norm, .module = q_norm_module},
          WeightSite{.role = k_norm, .module = k_norm_module},
          WeightSite{.role = o, .module = "layers.{}.self_attn.o_proj"},
          WeightSite{.role = mlp_norm, .module = "layers.{}.post_attention_layernorm"},
          WeightSite{.role = gate, .module = "layers.{}.mlp.gate_proj"},
          WeightSite{.role = up, .module = "layers.{}.mlp.up_proj"},
          WeightSite{.role = down, .module = "layers.{}.mlp.down_proj"},
          WeightSite{.role = final_norm, .module = "norm"},
          WeightSite{.role = head, .module = "lm_head", .without_prefix = true}};
}

/// The activation that `key` names, `otherwise` where it is absent. Throws Error(usage) with the supported names.
Activation parse_activation(const ConfigReader& config, std::string_view key, std::string_view otherwise);

/// What a family calls base and share outside of rope_parameters, where only these names count, and what they are where
/// nothing says so.
struct RopeKeys {
  std::string_view theta_key = "rope_theta", share_key = "partial_rotary_factor";
  double theta = 10000.0, share = 1.0;
};

/// Rotary positions of heads of `head_dim`, of which a share is turned. rope_parameters is the new home of rope_theta,
/// partial_rotary_factor and the scaling fields (rope_scaling).
RopeSpec parse_rope(const ConfigReader& config, int head_dim, int max_position, const RopeKeys& keys = {});

/// The same from one object that holds rope_theta, the scaling and its fields.
RopeSpec parse_rope_object(const ConfigReader& rope, int head_dim, int max_position, double usual_theta);

/// What multiplies turned queries and keys under YaRN (Peng et al. 2023, section 3.4) that stretches positions by
/// `factor`; weight: mscale of DeepSeek's variant.
double yarn_attention_factor(double factor, double weight = 1.0);

/// The same under LongRoPE (Ding et al. 2024) that stretches positions by `factor`, to
/// `factor` * `original` positions.
double longrope_attention_factor(double factor, int original);

/// What Llama and its relatives share: RMSNorm, rotary positions, gated MLPs, no biases, the usual keys. No table.
ModelSpec parse_llama_like(const ConfigReader& config, const RopeKeys& rope = {});

/// Layers get `window` where layer_types says "sliding_attention", without that key where `has_window` says so.
void set_windows(const ConfigReader& config, int window, ModelSpec& spec,
                 const std::function<bool(int layer)>& has_window);

/// whole / parts. Throws Error(usage) naming both keys where that leaves a rest.
int divided(const ConfigReader& config, std::string_view key, int whole, int parts, std::string_view parts_key);

/// Throws Error(usage) when `key` is true: "{why} is not supported; expected false".
void refuse_true(const ConfigReader& config, std::string_view key, std::string_view what);

/// 1 / sqrt(head_dim).
float usual_attention_scale(int head_dim);

}  // namespace paceline
