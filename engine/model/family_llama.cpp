// Llama and its near relatives: Mistral, Qwen2, Qwen3.

#include "engine/model/families.h"
#include "engine/model/family_parts.h"
#include "engine/model/gguf_family.h"

namespace paceline {
namespace {

constexpr auto kLlamaSites = llama_sites("layers.{}.self_attn.q_norm", "layers.{}.self_attn.k_norm");
constexpr WeightTable kLlamaTable{
    .sites = kLlamaSites, .prefixes = kModelPrefixes, .ignored_suffixes = kRotaryRecomputed};

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

/// An absent key is the default of Mistral and Qwen, null means no window.
int window_of(const ConfigReader& config) {
  return config.mentions("sliding_window") ? config.integer("sliding_window", kPositions, 0) : 4096;
}

ModelSpec parse_mistral(const ConfigReader& config) {
  ModelSpec spec = llama_like(config);
  // with layer_types it is a Ministral, by whatever name, as for AutoConfig
  if (const int window = window_of(config); window > 0) set_windows(config, window, spec, [](int) { return true; });
  return spec;
}

/// A window in the layers from max_window_layers on, or where layer_types says so.
void set_qwen_windows(const ConfigReader& config, ModelSpec& spec) {
  if (!config.boolean("use_sliding_window", false)) return;
  const int first = config.integer("max_window_layers", {0, kLayers.max}, 28);
  set_windows(config, window_of(config), spec, [&](int layer) { return layer >= first; });
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

// --- GGUF files ---------------------------------------------------------------------------------------------------

void complete_llama(const GgufFile& file, nlohmann::json& config) {
  config["hidden_act"] = "silu";
  config["attention_bias"] = file.find_tensor("blk.0.attn_q.bias") != nullptr;
  config["mlp_bias"] = file.find_tensor("blk.0.ffn_down.bias") != nullptr;
}

void complete_qwen2(const GgufFile&, nlohmann::json& config) { config["hidden_act"] = "silu"; }

void complete_qwen3(const GgufFile& file, nlohmann::json& config) {
  config["hidden_act"] = "silu";
  config["attention_bias"] = file.find_tensor("blk.0.attn_q.bias") != nullptr;
}

constexpr GgufFamily kLlamaGguf{"llama", "llama", kGgufLlamaKeys, complete_llama, gguf_table_by_pairs};
constexpr GgufFamily kQwen2Gguf{"qwen2", "qwen2", kGgufLlamaKeys, complete_qwen2, gguf_table};
constexpr GgufFamily kQwen3Gguf{"qwen3", "qwen3", kGgufLlamaKeys, complete_qwen3, gguf_table};

}  // namespace

Family llama_family() { return {"LlamaForCausalLM", "llama", parse_llama, &kLlamaGguf}; }
Family mistral_family() { return {"MistralForCausalLM", "mistral", parse_mistral, &kLlamaGguf}; }
Family ministral_family() { return {"MinistralForCausalLM", "mistral", parse_mistral, &kLlamaGguf}; }
Family qwen2_family() { return {"Qwen2ForCausalLM", "qwen2", parse_qwen2, &kQwen2Gguf}; }
Family qwen3_family() { return {"Qwen3ForCausalLM", "qwen3", parse_qwen3, &kQwen3Gguf}; }

}  // namespace paceline
