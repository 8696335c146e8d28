// Gemma 2 and 3: norms around both branches that multiply by 1 + weight, windows in some layers, scaled embeddings;
// Gemma 2 caps scores and logits, Gemma 3 norms query and key heads and turns layers with a window at a base of their
// own.

#include <array>
#include <cmath>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"
#include "engine/model/gguf_family.h"

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
constexpr double kUsualLogitCap = 30.0, kUsualAttentionCap = 50.0;  // of Gemma 2

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
  layer.mlp.activation = parse_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  spec.layers.assign(size_t(spec.num_layers), layer);
  spec.table = &kGemmaTable;
  return spec;
}

ModelSpec parse_gemma2(const ConfigReader& config) {
  ModelSpec spec = parse_gemma_like(config);
  // null is no cap, as in Gemma2Config
  if (!config.mentions("final_logit_softcapping")) spec.logit_softcap = float(kUsualLogitCap);
  const double usual_cap = config.mentions("attn_logit_softcapping") ? 0.0 : kUsualAttentionCap;
  const double cap = config.real("attn_logit_softcapping", kCap, usual_cap);
  for (LayerSpec& layer : spec.layers) layer.attention.softcap = float(cap);
  set_windows(config, config.integer("sliding_window", kPositions, 4096), spec,
              [](int layer) { return layer % 2 == 0; });
  return spec;
}

/// New files keep one object for each type of layer, old ones two bases and the scaling of the full layers.
void parse_gemma3_ropes(const ConfigReader& config, ModelSpec& spec) {
  constexpr double kFullTheta = 1e6, kWindowTheta = 1e4;
  spec.window_rope.rotary_dim = spec.head_dim;
  spec.window_rope.theta = config.real("rope_local_base_freq", kTheta, kWindowTheta);
  const auto parameters = config.object("rope_parameters");
  if (!parameters || !parameters->has("full_attention")) {
    spec.rope = parse_rope(config, spec.head_dim, spec.max_position, {.theta = kFullTheta});
    return;
  }
  const auto rope_of = [&](const ConfigReader& rope, double theta) {
    return parse_rope_object(rope, spec.head_dim, spec.max_position, theta);
  };
  spec.rope = rope_of(*parameters->object("full_attention"), config.real("rope_theta", kTheta, kFullTheta));
  if (const auto window = parameters->object("sliding_attention"))
    spec.window_rope = rope_of(*window, spec.window_rope.theta);
}

ModelSpec parse_gemma3(const ConfigReader& config) {
  ModelSpec spec = parse_gemma_like(config);
  if (config.boolean("use_bidirectional_attention", false))
    fail(ExitCode::usage, "{}: true: attention to later tokens is not supported; expected false",
         config.where("use_bidirectional_attention"));
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

/// The text part of a model that sees images, too. What equals Gemma3TextConfig's defaults is left out of the files.
ModelSpec parse_gemma3_text(const ConfigReader& config) {
  const auto written = config.object("text_config");
  if (!written) fail(ExitCode::usage, "{} is missing; expected an object", config.where("text_config"));
  nlohmann::json text = {{"vocab_size", 262'208},     {"hidden_size", 2304},
                         {"intermediate_size", 9216}, {"num_hidden_layers", 26},
                         {"num_attention_heads", 8},  {"num_key_value_heads", 4},
                         {"head_dim", 256},           {"max_position_embeddings", 131'072}};
  for (const auto& [key, value] : config.value("text_config").items())
    if (!value.is_null()) text[key] = value;
  for (const ConfigReader* const reader : {&config, &*written})
    if (!reader->boolean("tie_word_embeddings", true))
      fail(ExitCode::usage, "{}: false: a head of its own is not supported; expected true",
           reader->where("tie_word_embeddings"));
  const ConfigReader filled(text, config.source(), "text_config");
  ModelSpec spec = parse_gemma3(filled);
  warn_of_misspelled(filled.misspelled(config.value("text_config")));
  return spec;
}

// --- GGUF files: norms with their 1 added, the embedding as it was --------------------------------------------------

constexpr GgufKey kLogitCapKey{"final_logit_softcapping", "final_logit_softcapping", GgufKey::Kind::real,
                               GgufKey::Need::optional};
constexpr auto kGemma2Keys =
    gguf_keys(kGgufLlamaKeys, std::array{kGgufWindowKey, kLogitCapKey,
                                         GgufKey{"attn_logit_softcapping", "attn_logit_softcapping",
                                                 GgufKey::Kind::real, GgufKey::Need::optional}});
constexpr auto kGemma3Keys = gguf_keys(
    kGgufLlamaKeys,
    std::array{kGgufWindowKey, kLogitCapKey,
               GgufKey{"rope.freq_base_swa", "rope_local_base_freq", GgufKey::Kind::real, GgufKey::Need::optional}});

/// What files leave to the reader (src/models/gemma2.cpp and gemma3.cpp of llama.cpp).
struct GemmaFacts {
  std::string architecture;
  int64_t window_period;  // without a pattern, each period-th layer has no window
  int64_t layers_of_27b;  // the model that scales scores by hidden_size / heads in place of the head's size
};

/// Which layers have a window: all but each n-th, or those of a list. REQUIRES a number of layers in its range.
nlohmann::json gemma_layer_types(const GgufFile& file, const GemmaFacts& facts, int64_t num_layers, bool has_window) {
  const std::string key = facts.architecture + ".attention.sliding_window_pattern";
  const GgufValue* const value = file.find(key);
  std::vector<bool> listed;
  int64_t period = facts.window_period;
  if (value && value->is_array()) {
    listed = value->booleans();
    if (int64_t(listed.size()) != num_layers)
      fail(ExitCode::model_file, "{}: {}: found {}, expected a number, or a boolean for each of {} layers",
           file.path().string(), key, value->text(), num_layers);
  } else if (value) {
    period = gguf_number(file, key, GgufKey::Kind::integer).get<int64_t>();
  }
  nlohmann::json types = nlohmann::json::array();
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const bool here = listed.empty() ? period <= 0 || layer % period < period - 1 : listed[size_t(layer)];
    types.push_back(has_window && here ? "sliding_attention" : "full_attention");
  }
  return types;
}

void complete_gemma(const GgufFile& file, const GemmaFacts& facts, nlohmann::json& config) {
  config["hidden_activation"] = "gelu_pytorch_tanh";
  const int64_t num_layers = config["num_hidden_layers"], heads = config["num_attention_heads"];
  if (num_layers < kLayers.min || num_layers > kLayers.max || heads < 1)
    return;  // the reader of the configuration says so
  const int64_t width = config["hidden_size"].get<int64_t>() / heads;
  if (!config.contains("head_dim")) config["head_dim"] = width;
  config["query_pre_attn_scalar"] = num_layers == facts.layers_of_27b ? nlohmann::json(width) : config["head_dim"];
  const bool has_window = config.value("sliding_window", int64_t{0}) != 0;
  config["layer_types"] = gemma_layer_types(file, facts, num_layers, has_window);
  if (!has_window) config.erase("sliding_window");
}

void set_default(nlohmann::json& config, const char* key, double value) {
  if (!config.contains(key)) config[key] = value;
}

void complete_gemma2(const GgufFile& file, nlohmann::json& config) {
  if (!config.contains("sliding_window")) config["sliding_window"] = 4096;
  set_default(config, "attn_logit_softcapping", kUsualAttentionCap);
  set_default(config, "final_logit_softcapping", kUsualLogitCap);
  complete_gemma(file, {.architecture = "gemma2", .window_period = 2, .layers_of_27b = 46}, config);
}

void complete_gemma3(const GgufFile& file, nlohmann::json& config) {
  set_default(config, "rope_theta", 10000.0);
  set_default(config, "rope_local_base_freq", 10000.0);
  complete_gemma(file, {.architecture = "gemma3", .window_period = 6, .layers_of_27b = 62}, config);
}

constexpr GgufFamily kGemma2Gguf{"gemma2", "gemma2", kGemma2Keys, complete_gemma2, gguf_table};
constexpr GgufFamily kGemma3Gguf{"gemma3", "gemma3_text", kGemma3Keys, complete_gemma3, gguf_table};

}  // namespace

Family gemma2_family() { return {"Gemma2ForCausalLM", "gemma2", parse_gemma2, &kGemma2Gguf}; }
Family gemma3_family() { return {"Gemma3ForCausalLM", "gemma3", parse_gemma3, &kGemma3Gguf}; }
Family gemma3_text_family() { return {"Gemma3ForConditionalGeneration", "gemma3", parse_gemma3_text, &kGemma3Gguf}; }

}  // namespace paceline
