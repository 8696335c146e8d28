// Llama and its near relatives: Mistral, Qwen2.

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

/// What Llama and its near relatives share.
ModelSpec parse_llama_like(const ConfigReader& config) {
  ModelSpec spec;
  spec.num_layers = config.integer("num_hidden_layers", kLayers);
  spec.hidden_size = config.integer("hidden_size", kWidth);
  spec.num_heads = config.integer("num_attention_heads", kHeads);
  spec.num_kv_heads = config.integer("num_key_value_heads", {1, spec.num_heads}, spec.num_heads);
  divided(config, "num_attention_heads", spec.num_heads, spec.num_kv_heads, "num_key_value_heads");
  spec.head_dim = config.has("head_dim")
                      ? config.integer("head_dim", kHeadDim)
                      : divided(config, "hidden_size", spec.hidden_size, spec.num_heads, "num_attention_heads");
  spec.intermediate_size = config.integer("intermediate_size", kWidth);
  spec.vocab_size = config.integer("vocab_size", kVocab);
  spec.max_position = config.integer("max_position_embeddings", kPositions);
  spec.norm.eps = float(config.real("rms_norm_eps", kEps, 1e-6));
  spec.rope = parse_rope(config, spec.head_dim, spec.max_position);
  spec.tied_head = config.boolean("tie_word_embeddings", false);
  LayerSpec layer;
  layer.attention.scale = usual_attention_scale(spec.head_dim);
  layer.mlp.activation = parse_activation(config, "hidden_act", "silu");
  spec.layers.assign(size_t(spec.num_layers), layer);
  spec.table = &kLlamaTable;
  return spec;
}

ModelSpec parse_llama(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config);
  const bool attention_bias = config.boolean("attention_bias", false), mlp_bias = config.boolean("mlp_bias", false);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.has_bias = layer.attention.has_out_bias = attention_bias;
    layer.mlp.has_bias = mlp_bias;
  }
  return spec;
}

ModelSpec parse_mistral(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config);
  // An absent key is the family's default of 4096, null means no window.
  const int window = config.mentions("sliding_window") ? config.integer("sliding_window", kPositions, 0) : 4096;
  for (LayerSpec& layer : spec.layers) layer.attention.window = window;
  return spec;
}

ModelSpec parse_qwen2(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config);
  if (config.boolean("use_sliding_window", false))
    fail(ExitCode::usage, "{}: true is not supported (a window in some layers only); expected false",
         config.where("use_sliding_window"));
  for (LayerSpec& layer : spec.layers) layer.attention.has_bias = true;  // q, k, v; the family has none on o
  return spec;
}

}  // namespace

Family llama_family() { return {"LlamaForCausalLM", "llama", parse_llama}; }
Family mistral_family() { return {"MistralForCausalLM", "mistral", parse_mistral}; }
Family qwen2_family() { return {"Qwen2ForCausalLM", "qwen2", parse_qwen2}; }

}  // namespace paceline
