// StableLM: LayerNorms, a quarter of each head turned; with use_parallel_residual one norm for both branches.

#include "engine/model/families.h"
#include "engine/model/family_parts.h"

namespace paceline {
namespace {

constexpr auto kStableSites =
    llama_sites("layers.{}.self_attn.q_layernorm.norms.{head}", "layers.{}.self_attn.k_layernorm.norms.{head}");
constexpr WeightTable kStableTable{
    .sites = kStableSites, .prefixes = kModelPrefixes, .ignored_suffixes = kRotaryRecomputed};

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
