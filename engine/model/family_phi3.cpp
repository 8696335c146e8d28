// Phi-3: Llama with q, k, v in one tensor, gate and up in another, and LongRoPE.

#include <array>
#include <cmath>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"
#include "engine/model/gguf_family.h"

namespace paceline {
namespace {

constexpr std::array kPhi3Sites = {
    WeightSite{.role = TensorRole::embed, .module = "embed_tokens"},
    WeightSite{.role = TensorRole::attn_norm, .module = "layers.{}.input_layernorm"},
    WeightSite{.role = TensorRole::q, .module = "layers.{}.self_attn.qkv_proj", .rows = RowOrder::stacked},
    WeightSite{.role = TensorRole::k, .module = "layers.{}.self_attn.qkv_proj", .rows = RowOrder::stacked},
    WeightSite{.role = TensorRole::v, .module = "layers.{}.self_attn.qkv_proj", .rows = RowOrder::stacked},
    WeightSite{.role = TensorRole::o, .module = "layers.{}.self_attn.o_proj"},
    WeightSite{.role = TensorRole::mlp_norm, .module = "layers.{}.post_attention_layernorm"},
    WeightSite{.role = TensorRole::gate, .module = "layers.{}.mlp.gate_up_proj", .rows = RowOrder::stacked},
    WeightSite{.role = TensorRole::up, .module = "layers.{}.mlp.gate_up_proj", .rows = RowOrder::stacked},
    WeightSite{.role = TensorRole::down, .module = "layers.{}.mlp.down_proj"},
    WeightSite{.role = TensorRole::final_norm, .module = "norm"},
    WeightSite{.role = TensorRole::head, .module = "lm_head", .without_prefix = true},
};
constexpr WeightTable kPhi3Table{
    .sites = kPhi3Sites, .prefixes = kModelPrefixes, .ignored_suffixes = kRotaryRecomputed};

ModelSpec parse_phi3(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config);
  if (!config.has("rms_norm_eps")) spec.norm.eps = 1e-5f;
  const int window = config.integer("sliding_window", kPositions, 0);
  for (LayerSpec& layer : spec.layers) layer.attention.window = window;
  spec.table = &kPhi3Table;
  return spec;
}

// --- GGUF files ---------------------------------------------------------------------------------------------------

constexpr auto kPhi3Keys = gguf_keys(
    kGgufLlamaKeys,
    std::array{kGgufWindowKey, GgufKey{"rope.scaling.original_context_length", "original_max_position_embeddings",
                                       GgufKey::Kind::integer, GgufKey::Need::optional}});

/// As Phi-3's own configurations have it: the scaling is three fields, and its attention factor follows from the two
/// numbers of positions. A file that says another one keeps it.
void complete_phi3(const GgufFile&, nlohmann::json& config) {
  constexpr double kFloatRounding = 1e-6;
  config["hidden_act"] = "silu";
  if (!config.contains("pad_token_id")) config["pad_token_id"] = nullptr;  // else 32000, which a vocabulary may lack
  if (config.value("sliding_window", int64_t{1}) == 0) config.erase("sliding_window");
  if (!config.contains("rope_scaling") || config["rope_scaling"]["rope_type"] != "longrope") return;
  nlohmann::json& scaling = config["rope_scaling"];
  scaling.erase("rope_type");
  scaling["type"] = "longrope";
  scaling.erase("original_max_position_embeddings");
  const auto original = config.value("original_max_position_embeddings", int64_t{0});
  if (original < kPositions.min || original > kPositions.max || !scaling.contains("attention_factor")) return;
  const double usual =
      longrope_attention_factor(config["max_position_embeddings"].get<double>() / double(original), int(original));
  if (std::abs(scaling["attention_factor"].get<double>() - usual) < kFloatRounding * usual)
    scaling.erase("attention_factor");
}

constexpr GgufFamily kPhi3Gguf{"phi3", "phi3", kPhi3Keys, complete_phi3, gguf_table_stacked};

}  // namespace

Family phi3_family() { return {"Phi3ForCausalLM", "phi3", parse_phi3, &kPhi3Gguf}; }

}  // namespace paceline
