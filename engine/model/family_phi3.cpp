// Phi-3: Llama with q, k, v in one tensor, gate and up in another, and LongRoPE.

#include <array>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"

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
  const int window = config.integer("sliding_window", kPositions, 0);
  for (LayerSpec& layer : spec.layers) layer.attention.window = window;
  spec.table = &kPhi3Table;
  return spec;
}

}  // namespace

Family phi3_family() { return {"Phi3ForCausalLM", "phi3", parse_phi3}; }

}  // namespace paceline
