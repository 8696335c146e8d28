// Llama and its near relatives: Mistral, Qwen2, Qwen3.

#include <array>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 1> kLlamaRecomputed = {".rotary_emb.inv_freq"};

constexpr std::array<std::string_view, 2> kLlamaPrefixes = {"model.", ""};
constexpr std::array kLlamaSites = {
    WeightSite{.role = TensorRole::embed, .module = "embed_tokens"},
    WeightSite{.role = TensorRole::attn_norm, .module = "layers.{}.input_layernorm"},
    WeightSite{.role = TensorRole::q, .module = "layers.{}.self_attn.q_proj"},
    WeightSite{.role = TensorRole::k, .module = "layers.{}.self_attn.k_proj"},
    WeightSite{.role = TensorRole::v, .module = "layers.{}.self_attn.v_proj"},
    WeightSite{.role = TensorRole::q_norm, .module = "layers.{}.self_attn.q_norm"},
    WeightSite{.role = TensorRole::k_norm, .module = "layers.{}.self_attn.k_norm"},
    WeightSite{.role = TensorRole::o, .module = "layers.{}.self_attn.o_proj"},
    WeightSite{.role = TensorRole::mlp_norm, .module = "layers.{}.post_attention_layernorm"},
    WeightSite{.role = TensorRole::gate, .module = "layers.{}.mlp.gate_proj"},
    WeightSite{.role = TensorRole::up, .module = "layers.{}.mlp.up_proj"},
    WeightSite{.role = TensorRole::down, .module = "layers.{}.mlp.down_proj"},
    WeightSite{.role = TensorRole::final_norm, .module = "norm"},
    WeightSite{.role = TensorRole::head, .module = "lm_head", .without_prefix = true},
};
constexpr WeightTable kLlamaTable{
    .sites = kLlamaSites, .prefixes = kLlamaPrefixes, .ignored_suffixes = kLlamaRecomputed};

ModelSpec llama_like(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config);
  spec.table = &kLlamaTable;
  return spec;
}

ModelSpec parse_llama(const ConfigReader& config) {
  ModelSpec spec = llama_like(config);
  const bool attention_bias = config.boolean("attention_bias", false), mlp_bias = config.boolean("mlp_bias", false);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.has_bias = layer.attention.has_out_bias = attention_bias;
    layer.mlp.has_bias = mlp_bias;
  }
  return spec;
}

ModelSpec parse_mistral(const ConfigReader& config) {
  ModelSpec spec = llama_like(config);
  // An absent key is the family's default of 4096, null means no window.
  const int window = config.mentions("sliding_window") ? config.integer("sliding_window", kPositions, 0) : 4096;
  for (LayerSpec& layer : spec.layers) layer.attention.window = window;
  return spec;
}

/// A window in the layers from max_window_layers on, or where layer_types says so.
void set_qwen_windows(const ConfigReader& config, ModelSpec& spec) {
  if (!config.boolean("use_sliding_window", false)) return;
  const int window = config.integer("sliding_window", kPositions, 4096);
  const int first = config.integer("max_window_layers", {0, kLayers.max}, 28);
  set_windows(config, window, spec, [&](int layer) { return layer >= first; });
}

ModelSpec parse_qwen2(const ConfigReader& config) {
  ModelSpec spec = llama_like(config);
  for (LayerSpec& layer : spec.layers) layer.attention.has_bias = true;  // q, k, v; the family has none on o
  set_qwen_windows(config, spec);
  return spec;
}

ModelSpec parse_qwen3(const ConfigReader& config) {
  ModelSpec spec = llama_like(config);
  const bool bias = config.boolean("attention_bias", false);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.has_bias = layer.attention.has_out_bias = bias;
    layer.attention.head_norm = HeadNorm::shared;
  }
  set_qwen_windows(config, spec);
  return spec;
}

}  // namespace

Family llama_family() { return {"LlamaForCausalLM", "llama", parse_llama}; }
Family mistral_family() { return {"MistralForCausalLM", "mistral", parse_mistral}; }
Family qwen2_family() { return {"Qwen2ForCausalLM", "qwen2", parse_qwen2}; }
Family qwen3_family() { return {"Qwen3ForCausalLM", "qwen3", parse_qwen3}; }

}  // namespace paceline
