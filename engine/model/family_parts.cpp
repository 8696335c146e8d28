#include "engine/model/family_parts.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

namespace paceline {
namespace {

constexpr std::array kActivations = {
    std::pair{std::string_view("silu"), Activation::silu},
    std::pair{std::string_view("swish"), Activation::silu},
    std::pair{std::string_view("gelu"), Activation::gelu},
    std::pair{std::string_view("gelu_new"), Activation::gelu_tanh},
    std::pair{std::string_view("gelu_pytorch_tanh"), Activation::gelu_tanh},
    std::pair{std::string_view("gelu_fast"), Activation::gelu_tanh},
    std::pair{std::string_view("gelu_python"), Activation::gelu},
    std::pair{std::string_view("relu"), Activation::relu},
};

constexpr RealRange kScale{0.0, 1e6};
constexpr RealRange kTurns{1e-3, 1e6};  // numbers of turns, factors of single pairs: these may lie below 1

/// YaRN (Peng et al. 2023). `original`: original_max_position_embeddings beside the scaling, 0 where there is none.
void parse_yarn(const ConfigReader& rope, int max_position, int original, RopeSpec& spec) {
  spec.scaling = RopeScaling::yarn;
  spec.original_max_position =
      rope.integer("original_max_position_embeddings", kPositions, original > 0 ? original : max_position);
  const bool is_known = original > 0 || rope.has("original_max_position_embeddings");
  const double ratio = double(max_position) / spec.original_max_position;
  spec.factor = is_known ? rope.real("factor", kFactor, ratio) : rope.real("factor", kFactor);
  spec.beta_fast = rope.real("beta_fast", kTurns, 32.0);
  spec.beta_slow = rope.real("beta_slow", kTurns, 1.0);
  spec.truncate = rope.boolean("truncate", true);
  const double mscale = rope.real("mscale", kScale, 0.0), all_dim = rope.real("mscale_all_dim", kScale, 0.0);
  const double usual = mscale > 0 && all_dim > 0
                           ? yarn_attention_factor(spec.factor, mscale) / yarn_attention_factor(spec.factor, all_dim)
                           : yarn_attention_factor(spec.factor);
  spec.attention_factor = rope.real("attention_factor", kScale, usual);
}

/// LongRoPE (Ding et al. 2024). original: as in parse_yarn.
void parse_longrope(const ConfigReader& rope, int max_position, int original, RopeSpec& spec) {
  spec.scaling = RopeScaling::longrope;
  spec.short_factor = rope.reals("short_factor", kTurns);
  spec.long_factor = rope.reals("long_factor", kTurns);
  for (const auto& [key, factors] : {std::pair{"short_factor", &spec.short_factor}, {"long_factor", &spec.long_factor}})
    if (int(factors->size()) != spec.rotary_dim / 2)
      fail(ExitCode::usage, "{}: found {} factors, expected {}, one for each rotary pair", rope.where(key),
           factors->size(), spec.rotary_dim / 2);
  spec.original_max_position =
      rope.integer("original_max_position_embeddings", kPositions, original > 0 ? original : max_position);
  const double ratio = double(max_position) / spec.original_max_position;
  spec.factor = original > 0 ? ratio : rope.real("factor", kFactor, ratio);
  const double usual = longrope_attention_factor(spec.factor, spec.original_max_position);
  spec.attention_factor = rope.real("attention_factor", kScale, usual);
}

/// original: as in parse_yarn.
void parse_rope_scaling(const ConfigReader& rope, int max_position, int original, RopeSpec& spec) {
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text(key, "default");
  if (type == "default") return;
  if (type == "linear") {
    spec.scaling = RopeScaling::linear;
  } else if (type == "dynamic") {
    spec.scaling = RopeScaling::dynamic;
    if (spec.rotary_dim < 4)
      fail(ExitCode::usage, "{}: 'dynamic' needs at least 4 rotary dimensions, this model has {}", rope.where(key),
           spec.rotary_dim);
  } else if (type == "llama3") {
    spec.scaling = RopeScaling::llama3;
  } else if (type == "yarn") {
    return parse_yarn(rope, max_position, original, spec);
  } else if (type == "longrope" || type == "su") {
    return parse_longrope(rope, max_position, original, spec);
  } else {
    fail(ExitCode::usage, "{}: unsupported rope type '{}'; supported: default, linear, dynamic, llama3, yarn, longrope",
         rope.where(key), type);
  }
  spec.factor = rope.real("factor", kFactor);
  spec.original_max_position = max_position;
  if (spec.scaling == RopeScaling::dynamic)
    spec.original_max_position = rope.integer("original_max_position_embeddings", kPositions, max_position);
  if (spec.scaling == RopeScaling::llama3) {
    spec.original_max_position = original > 0 ? rope.integer("original_max_position_embeddings", kPositions, original)
                                              : rope.integer("original_max_position_embeddings", kPositions);
    spec.low_freq_factor = rope.real("low_freq_factor", kTurns);
    spec.high_freq_factor = rope.real("high_freq_factor", kTurns);
    if (spec.high_freq_factor <= spec.low_freq_factor)
      fail(ExitCode::usage, "{}: found {}, expected more than low_freq_factor {}", rope.where("high_freq_factor"),
           spec.high_freq_factor, spec.low_freq_factor);
  }
}

}  // namespace

Activation parse_activation(const ConfigReader& config, std::string_view key, std::string_view otherwise) {
  const std::string name = config.text(key, otherwise);
  std::string supported;
  for (const auto& [known, activation] : kActivations) {
    if (known == name) return activation;
    supported += (supported.empty() ? "" : ", ") + std::string(known);
  }
  fail(ExitCode::usage, "{}: unsupported activation '{}'; supported: {}", config.where(key), name, supported);
}

RopeSpec parse_rope(const ConfigReader& config, int head_dim, int max_position, const RopeKeys& keys) {
  const std::optional<ConfigReader> parameters = config.object("rope_parameters");
  if (parameters && config.object("rope_scaling") && config.value("rope_scaling") != config.value("rope_parameters"))
    fail(ExitCode::usage, "{}: stands beside rope_parameters, which holds the scaling too; expected one of the two",
         config.where("rope_scaling"));
  const std::optional<ConfigReader> scaling = parameters ? parameters : config.object("rope_scaling");
  RopeSpec spec;
  constexpr RealRange kShare{0.0, 1.0};
  const double theta = config.real(keys.theta_key, kTheta, keys.theta);
  const double usual_share = config.real(keys.share_key, kShare, keys.share);
  spec.theta = scaling ? scaling->real("rope_theta", kTheta, theta) : theta;
  const double share = scaling ? scaling->real("partial_rotary_factor", kShare, usual_share) : usual_share;
  const double dims = head_dim * share;  // a share that was made by a division may lie a rounding below
  spec.rotary_dim = int(std::floor(dims + 1e-9));
  if (spec.rotary_dim % 2 != 0 || spec.rotary_dim == 0)
    fail(ExitCode::usage, "{}: {} rotary dimensions of head_dim {}; expected an even number above 0",
         config.where(keys.share_key), spec.rotary_dim, head_dim);
  if (scaling)
    parse_rope_scaling(*scaling, max_position, config.integer("original_max_position_embeddings", kPositions, 0), spec);
  return spec;
}

RopeSpec parse_rope_object(const ConfigReader& rope, int head_dim, int max_position, double usual_theta) {
  RopeSpec spec;
  spec.rotary_dim = head_dim;
  spec.theta = rope.real("rope_theta", kTheta, usual_theta);
  parse_rope_scaling(rope, max_position, 0, spec);
  return spec;
}

int divided(const ConfigReader& config, std::string_view key, int whole, int parts, std::string_view parts_key) {
  if (whole % parts != 0)
    fail(ExitCode::usage, "{}: {} is not divisible by {} {}", config.where(key), whole, parts_key, parts);
  return whole / parts;
}

double yarn_attention_factor(double factor, double weight) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1;
}

double longrope_attention_factor(double factor, int original) {
  return factor <= 1 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(double(original)));
}

ModelSpec parse_llama_like(const ConfigReader& config, const RopeKeys& rope) {
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
  spec.rope = parse_rope(config, spec.head_dim, spec.max_position, rope);
  spec.tied_head = config.boolean("tie_word_embeddings", false);
  LayerSpec layer;
  layer.attention.scale = usual_attention_scale(spec.head_dim);
  layer.mlp.activation = parse_activation(config, "hidden_act", "silu");
  spec.layers.assign(size_t(spec.num_layers), layer);
  return spec;
}

void set_windows(const ConfigReader& config, int window, ModelSpec& spec,
                 const std::function<bool(int layer)>& has_window) {
  std::vector<std::string> types;
  if (config.has("layer_types")) {
    types = config.texts("layer_types");
    if (int(types.size()) != spec.num_layers)
      fail(ExitCode::usage, "{}: found {} types, expected {}, one for each layer", config.where("layer_types"),
           types.size(), spec.num_layers);
  }
  for (int index = 0; index < spec.num_layers; ++index) {
    if (!types.empty() && types[size_t(index)] != "sliding_attention" && types[size_t(index)] != "full_attention")
      fail(ExitCode::usage, "{}: layer {}: unsupported type '{}'; supported: full_attention, sliding_attention",
           config.where("layer_types"), index, types[size_t(index)]);
    const bool here = types.empty() ? has_window(index) : types[size_t(index)] == "sliding_attention";
    if (here) spec.layers[size_t(index)].attention.window = window;
  }
}

void refuse_true(const ConfigReader& config, std::string_view key, std::string_view what) {
  if (config.boolean(key, false))
    fail(ExitCode::usage, "{}: true: {} is not supported; expected false", config.where(key), what);
}

float usual_attention_scale(int head_dim) { return float(1.0 / std::sqrt(double(head_dim))); }

}  // namespace paceline
