// StableLM: LayerNorms, a quarter of each head turned; with use_parallel_residual one norm for both branches.

#include <array>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 2> kStablePrefixes = {"model.", ""};
constexpr std::array<std::string_view, 1> kStableRecomputed = {".rotary_emb.inv_freq"};
constexpr std::array kStableSites = {
    WeightSite{.role = TensorRole::embed, .module = "embed_tokens"},
    WeightSite{.role = TensorRole::attn_norm, .module = "layers.{}.input_layernorm"},
    WeightSite{.role = TensorRole::q, .module = "layers.{}.self_attn.q_proj"},
    WeightSite{.role = TensorRole::k, .module = "layers.{}.self_attn.k_proj"},
    WeightSite{.role = TensorRole::v, .module = "layers.{}.self_attn.v_proj"},
    WeightSite{.role = TensorRole::q_norm, .module = "layers.{}.self_attn.q_layernorm.norms.{head}"},
    WeightSite{.role = TensorRole::k_norm, .module = "layers.{}.self_attn.k_layernorm.norms.{head}"},
    WeightSite{.role = TensorRole::o, .module = "layers.{}.self_attn.o_proj"},
    WeightSite{.role = TensorRole::mlp_norm, .module = "layers.{}.post_attention_layernorm"},
    WeightSite{.role = TensorRole::gate, .module = "layers.{}.mlp.gate_proj"},
    WeightSite{.role = TensorRole::up, .module = "layers.{}.mlp.up_proj"},
    WeightSite{.role = TensorRole::down, .module = "layers.{}.mlp.down_proj"},
    WeightSite{.role = TensorRole::final_norm, .module = "norm"},
    WeightSite{.role = TensorRole::head, .module = "lm_head", .without_prefix = true},
};
constexpr WeightTable kStableTable{
    .sites = kStableSites, .prefixes = kStablePrefixes, .ignored_suffixes = kStableRecomputed};

ModelSpec parse_stablelm(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config);
  spec.norm = {.kind = NormKind::layer, .eps = float(config.real("layer_norm_eps", kEps, 1e-5)), .has_bias = true};
  spec.rope = parse_rope(config, spec.head_dim, spec.max_position, 0.25);
  const bool parallel = config.boolean("use_parallel_residual", false);
  for (LayerSpec& layer : spec.layers) {
    layer.block = parallel ? BlockLayout::parallel : BlockLayout::sequential;
    layer.shares_norm = parallel;
    layer.attention.has_bias = config.boolean("use_qkv_bias", false);
    layer.attention.head_norm = config.boolean("qk_layernorm", false) ? HeadNorm::each : HeadNorm::none;
  }
  spec.table = &kStableTable;
  return spec;
}

}  // namespace

Family stablelm_family() { return {"StableLmForCausalLM", "stablelm", parse_stablelm}; }

}  // namespace paceline
