// StableLM: LayerNorms, a quarter of each head turned; with use_parallel_residual one norm for both branches.

#include "engine/model/families.h"
#include "engine/model/family_parts.h"
#include "engine/model/gguf_family.h"

namespace paceline {
namespace {

constexpr auto kStableSites =
    llama_sites("layers.{}.self_attn.q_layernorm.norms.{head}", "layers.{}.self_attn.k_layernorm.norms.{head}");
constexpr WeightTable kStableTable{
    .sites = kStableSites, .prefixes = kModelPrefixes, .ignored_suffixes = kRotaryRecomputed};

ModelSpec parse_stablelm(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config, {.share = 0.25});
  spec.norm = {.kind = NormKind::layer, .eps = float(config.real("layer_norm_eps", kEps, 1e-5)), .has_bias = true};
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

// --- GGUF files ---------------------------------------------------------------------------------------------------

constexpr auto kStableKeys = gguf_keys(
    kGgufSizeKeys, std::array{GgufKey{"attention.layer_norm_epsilon", "layer_norm_eps", GgufKey::Kind::real}});

/// Not by use_parallel_residual: the converter says true where the configuration says nothing, but means false.
void complete_stablelm(const GgufFile& file, nlohmann::json& config) {
  config["hidden_act"] = "silu";
  config["use_parallel_residual"] = file.find_tensor("blk.0.ffn_norm.weight") == nullptr;
  config["use_qkv_bias"] = file.find_tensor("blk.0.attn_q.bias") != nullptr;
  config["qk_layernorm"] = file.find_tensor("blk.0.attn_q_norm.weight") != nullptr;
  if (!config.contains("partial_rotary_factor")) config["partial_rotary_factor"] = 1.0;
}

constexpr GgufFamily kStableGguf{"stablelm", "stablelm", kStableKeys, complete_stablelm, gguf_table};

}  // namespace

Family stablelm_family() { return {"StableLmForCausalLM", "stablelm", parse_stablelm, &kStableGguf}; }

}  // namespace paceline
