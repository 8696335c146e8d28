// Gemma 2 and 3: norms around both branches that multiply by 1 + weight, windows in some layers, scaled embeddings;
// Gemma 2 caps scores and logits, Gemma 3 norms query and key heads and turns layers with a window at a base of their
// own.

#include <array>
#include <cmath>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 4> kGemmaPrefixes = {"model.", "", "language_model.model.",
                                                            "model.language_model."};
constexpr std::array kGemmaSites = {
    WeightSite{.role = TensorRole::embed, .module = "embed_tokens"},
    WeightSite{.role = TensorRole::attn_norm, .module = "layers.{}.input_layernorm", .plus_one = true},
    WeightSite{.role = TensorRole::q, .module = "layers.{}.self_attn.q_proj"},
    WeightSite{.role = TensorRole::k, .module = "layers.{}.self_attn.k_proj"},
    WeightSite{.role = TensorRole::v, .module = "layers.{}.self_attn.v_proj"},
    WeightSite{.role = TensorRole::q_norm, .module = "layers.{}.self_attn.q_norm", .plus_one = true},
    WeightSite{.role = TensorRole::k_norm, .module = "layers.{}.self_attn.k_norm", .plus_one = true},
    WeightSite{.role = TensorRole::o, .module = "layers.{}.self_attn.o_proj"},
    WeightSite{.role = TensorRole::attn_out_norm, .module = "layers.{}.post_attention_layernorm", .plus_one = true},
    WeightSite{.role = TensorRole::mlp_norm, .module = "layers.{}.pre_feedforward_layernorm", .plus_one = true},
    WeightSite{.role = TensorRole::gate, .module = "layers.{}.mlp.gate_proj"},
    WeightSite{.role = TensorRole::up, .module = "layers.{}.mlp.up_proj"},
    WeightSite{.role = TensorRole::down, .module = "layers.{}.mlp.down_proj"},
    WeightSite{.role = TensorRole::mlp_out_norm, .module = "layers.{}.post_feedforward_layernorm", .plus_one = true},
    WeightSite{.role = TensorRole::final_norm, .module = "norm", .plus_one = true},
    WeightSite{.role = TensorRole::head, .module = "lm_head", .without_prefix = true},
};
constexpr WeightTable kGemmaTable{
    .sites = kGemmaSites, .prefixes = kGemmaPrefixes, .ignored_suffixes = kRotaryRecomputed};

constexpr RealRange kCap{0.0, 1e6};

ModelSpec parse_gemma_like(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config);
  spec.tied_head = config.boolean("tie_word_embeddings", true);
  spec.embed_scale = float(std::sqrt(double(spec.hidden_size)));
  spec.logit_softcap = float(config.real("final_logit_softcapping", kCap, 0.0));
  if (config.boolean("attention_bias", false))
    fail(ExitCode::usage, "{}: true: biases between a branch and its norm are not supported; expected false",
         config.where("attention_bias"));
  LayerSpec layer;
  layer.norms = NormPlace::around;
  const double scalar = config.real("query_pre_attn_scalar", {1e-6, 1e6}, 256.0);
  layer.attention.scale = float(1.0 / std::sqrt(scalar));
  layer.attention.softcap = float(config.real("attn_logit_softcapping", kCap, 0.0));
  layer.mlp.activation = parse_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  spec.layers.assign(size_t(spec.num_layers), layer);
  spec.table = &kGemmaTable;
  return spec;
}

ModelSpec parse_gemma2(const ConfigReader& config) {
  ModelSpec spec = parse_gemma_like(config);
  set_windows(config, config.integer("sliding_window", kPositions, 4096), spec,
              [](int layer) { return layer % 2 == 0; });
  return spec;
}

/// New files keep one object for each type of layer, old ones two bases and the scaling of the full layers.
void parse_gemma3_ropes(const ConfigReader& config, ModelSpec& spec) {
  constexpr double kFullTheta = 1e6, kWindowTheta = 1e4;
  const auto parameters = config.object("rope_parameters");
  if (parameters && parameters->has("full_attention")) {
    spec.rope = parse_rope_object(*parameters->object("full_attention"), spec.head_dim, spec.max_position, kFullTheta);
    const auto window = parameters->object("sliding_attention");
    spec.window_rope = window ? parse_rope_object(*window, spec.head_dim, spec.max_position, kWindowTheta) : spec.rope;
    return;
  }
  if (!config.has("rope_theta")) spec.rope.theta = kFullTheta;
  spec.window_rope.rotary_dim = spec.head_dim;
  spec.window_rope.theta = config.real("rope_local_base_freq", kTheta, kWindowTheta);
}

ModelSpec parse_gemma3(const ConfigReader& config) {
  ModelSpec spec = parse_gemma_like(config);
  const int pattern = config.integer("sliding_window_pattern", {1, kLayers.max}, 6);
  set_windows(config, config.integer("sliding_window", kPositions, 4096), spec,
              [&](int layer) { return (layer + 1) % pattern != 0; });
  parse_gemma3_ropes(config, spec);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.head_norm = HeadNorm::shared;
    layer.attention.rope = layer.attention.window > 0 ? RopeUse::window : RopeUse::all;
  }
  return spec;
}

/// The text part of a model that sees images, too.
ModelSpec parse_gemma3_text(const ConfigReader& config) {
  const auto text = config.object("text_config");
  if (!text) fail(ExitCode::usage, "{} is missing; expected an object", config.where("text_config"));
  return parse_gemma3(*text);
}

}  // namespace

Family gemma2_family() { return {"Gemma2ForCausalLM", "gemma2", parse_gemma2}; }
Family gemma3_family() { return {"Gemma3ForCausalLM", "gemma3", parse_gemma3}; }
Family gemma3_text_family() { return {"Gemma3ForConditionalGeneration", "gemma3", parse_gemma3_text}; }

}  // namespace paceline
