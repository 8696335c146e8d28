// OPT: learned positions from row 2 on; norms before the branches, or (350M) after the sums, with a projected
// embedding.

#include <array>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 3> kOptPrefixes = {"model.decoder.", "decoder.", ""};
constexpr std::array kOptSites = {
    WeightSite{.role = TensorRole::embed, .module = "embed_tokens"},
    WeightSite{.role = TensorRole::position, .module = "embed_positions"},
    WeightSite{.role = TensorRole::project_in, .module = "project_in"},
    WeightSite{.role = TensorRole::attn_norm, .module = "layers.{}.self_attn_layer_norm"},
    WeightSite{.role = TensorRole::q, .module = "layers.{}.self_attn.q_proj"},
    WeightSite{.role = TensorRole::k, .module = "layers.{}.self_attn.k_proj"},
    WeightSite{.role = TensorRole::v, .module = "layers.{}.self_attn.v_proj"},
    WeightSite{.role = TensorRole::o, .module = "layers.{}.self_attn.out_proj"},
    WeightSite{.role = TensorRole::mlp_norm, .module = "layers.{}.final_layer_norm"},
    WeightSite{.role = TensorRole::up, .module = "layers.{}.fc1"},
    WeightSite{.role = TensorRole::down, .module = "layers.{}.fc2"},
    WeightSite{.role = TensorRole::final_norm, .module = "final_layer_norm"},
    WeightSite{.role = TensorRole::project_out, .module = "project_out"},
    WeightSite{.role = TensorRole::head, .module = "lm_head", .without_prefix = true},
};
constexpr WeightTable kOptTable{.sites = kOptSites, .prefixes = kOptPrefixes, .ignored_suffixes = {}};

ModelSpec parse_opt(const ConfigReader& config) {
  constexpr int kPositionOffset = 2;
  ModelSpec spec;
  spec.num_layers = config.integer("num_hidden_layers", kLayers);
  spec.hidden_size = config.integer("hidden_size", kWidth);
  spec.num_heads = spec.num_kv_heads = config.integer("num_attention_heads", kHeads);
  spec.head_dim = divided(config, "hidden_size", spec.hidden_size, spec.num_heads, "num_attention_heads");
  spec.intermediate_size = config.integer("ffn_dim", kWidth);
  spec.vocab_size = config.integer("vocab_size", kVocab);
  spec.max_position = config.integer("max_position_embeddings", kPositions);
  spec.positions = {.rows = spec.max_position + kPositionOffset, .offset = kPositionOffset};
  spec.embedding_size = config.integer("word_embed_proj_dim", kWidth, spec.hidden_size);
  const bool affine = config.boolean("layer_norm_elementwise_affine", true);
  spec.norm = {.kind = NormKind::layer, .eps = 1e-5f, .has_weight = affine, .has_bias = affine};
  const bool before = config.boolean("do_layer_norm_before", true);
  spec.has_final_norm = before && !config.boolean("_remove_final_layer_norm", false);
  spec.tied_head = config.boolean("tie_word_embeddings", true);
  const bool bias = config.boolean("enable_bias", true);
  LayerSpec layer;
  layer.norms = before ? NormPlace::before : NormPlace::after_sum;
  layer.attention = {
      .rope = RopeUse::none, .scale = usual_attention_scale(spec.head_dim), .has_bias = bias, .has_out_bias = bias};
  layer.mlp = {
      .kind = MlpKind::plain, .activation = parse_activation(config, "activation_function", "relu"), .has_bias = bias};
  spec.layers.assign(size_t(spec.num_layers), layer);
  spec.table = &kOptTable;
  return spec;
}

}  // namespace

Family opt_family() { return {"OPTForCausalLM", "opt", parse_opt}; }

}  // namespace paceline
