#include "engine/model/families.h"

#include <array>
#include <cmath>
#include <utility>

namespace paceline {
namespace {

// Generous bounds: ten times the largest public model, small enough that products of two fit 64 bits with room.
constexpr IntRange kLayers{1, 2048};
constexpr IntRange kWidth{1, 1 << 20};
constexpr IntRange kHeads{1, 8192};
constexpr IntRange kHeadDim{2, 4096};
constexpr IntRange kVocab{1, 1 << 24};
constexpr IntRange kPositions{1, 1 << 27};
constexpr RealRange kEps{1e-12, 0.1};
constexpr RealRange kTheta{1.0, 1e12};
constexpr RealRange kFactor{1.0, 1e6};

constexpr std::array kActivations = {
    std::pair{std::string_view("silu"), Activation::silu},
    std::pair{std::string_view("swish"), Activation::silu},
    std::pair{std::string_view("gelu"), Activation::gelu},
    std::pair{std::string_view("gelu_new"), Activation::gelu_tanh},
    std::pair{std::string_view("gelu_pytorch_tanh"), Activation::gelu_tanh},
    std::pair{std::string_view("relu"), Activation::relu},
};

Activation parse_activation(const ConfigReader& config, std::string_view key) {
  const std::string name = config.text(key, "silu");
  std::string supported;
  for (const auto& [known, activation] : kActivations) {
    if (known == name) return activation;
    supported += (supported.empty() ? "" : ", ") + std::string(known);
  }
  fail(ExitCode::usage, "{}: unsupported activation '{}'; supported: {}", config.where(key), name, supported);
}

void parse_rope_scaling(const ConfigReader& rope, int max_position, RopeSpec& spec) {
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
  } else {
    fail(ExitCode::usage, "{}: unsupported rope type '{}'; supported: default, linear, dynamic, llama3",
         rope.where(key), type);
  }
  spec.factor = rope.real("factor", kFactor);
  spec.original_max_position = max_position;
  if (spec.scaling == RopeScaling::dynamic)
    spec.original_max_position = rope.integer("original_max_position_embeddings", kPositions, max_position);
  if (spec.scaling == RopeScaling::llama3) {
    spec.original_max_position = rope.integer("original_max_position_embeddings", kPositions);
    spec.low_freq_factor = rope.real("low_freq_factor", kFactor);
    spec.high_freq_factor = rope.real("high_freq_factor", kFactor);
    if (spec.high_freq_factor <= spec.low_freq_factor)
      fail(ExitCode::usage, "{}: found {}, expected more than low_freq_factor {}", rope.where("high_freq_factor"),
           spec.high_freq_factor, spec.low_freq_factor);
  }
}

/// rope_parameters is the new home of rope_theta, partial_rotary_factor and the scaling fields (rope_scaling).
RopeSpec parse_rope(const ConfigReader& config, int head_dim, int max_position) {
  const std::optional<ConfigReader> parameters = config.object("rope_parameters");
  if (parameters && config.object("rope_scaling") && config.value("rope_scaling") != config.value("rope_parameters"))
    fail(ExitCode::usage, "{}: stands beside rope_parameters, which holds the scaling too; expected one of the two",
         config.where("rope_scaling"));
  const ConfigReader& home = parameters ? *parameters : config;
  RopeSpec spec;
  spec.theta = home.real("rope_theta", kTheta, config.real("rope_theta", kTheta, 10000.0));
  const double share = home.real("partial_rotary_factor", {0.0, 1.0}, config.real("partial_rotary_factor", {0, 1}, 1));
  spec.rotary_dim = int(std::floor(head_dim * share));
  if (spec.rotary_dim % 2 != 0 || spec.rotary_dim == 0)
    fail(ExitCode::usage, "{}: {} rotary dimensions of head_dim {}; expected an even number above 0",
         config.where("partial_rotary_factor"), spec.rotary_dim, head_dim);
  if (const auto scaling = parameters ? parameters : config.object("rope_scaling"))
    parse_rope_scaling(*scaling, max_position, spec);
  return spec;
}

int divided(const ConfigReader& config, std::string_view key, int whole, int parts, std::string_view parts_key) {
  if (whole % parts != 0)
    fail(ExitCode::usage, "{}: {} is not divisible by {} {}", config.where(key), whole, parts_key, parts);
  return whole / parts;
}

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
  spec.norm = NormKind::rms;
  spec.norm_eps = float(config.real("rms_norm_eps", kEps, 1e-6));
  spec.activation = parse_activation(config, "hidden_act");
  spec.mlp = MlpKind::gated;
  spec.rope = parse_rope(config, spec.head_dim, spec.max_position);
  spec.attention_scale = float(1.0 / std::sqrt(double(spec.head_dim)));
  spec.tied_head = config.boolean("tie_word_embeddings", false);
  return spec;
}

ModelSpec parse_llama(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config);
  spec.attention_bias = spec.attention_out_bias = config.boolean("attention_bias", false);
  spec.mlp_bias = config.boolean("mlp_bias", false);
  return spec;
}

ModelSpec parse_mistral(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config);
  // An absent key is the family's default of 4096, null means no window.
  spec.sliding_window = config.mentions("sliding_window") ? config.integer("sliding_window", kPositions, 0) : 4096;
  return spec;
}

ModelSpec parse_qwen2(const ConfigReader& config) {
  ModelSpec spec = parse_llama_like(config);
  if (config.boolean("use_sliding_window", false))
    fail(ExitCode::usage, "{}: true is not supported (a window in some layers only); expected false",
         config.where("use_sliding_window"));
  spec.attention_bias = true;  // q, k, v; the family has none on o
  return spec;
}

constexpr std::array<std::string_view, 1> kRecomputed = {".rotary_emb.inv_freq"};

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
constexpr WeightTable kLlamaTable{.sites = kLlamaSites, .prefixes = kLlamaPrefixes, .ignored_suffixes = kRecomputed};

constexpr std::array kFamilies = {
    Family{"LlamaForCausalLM", "llama", parse_llama, &kLlamaTable},
    Family{"MistralForCausalLM", "mistral", parse_mistral, &kLlamaTable},
    Family{"Qwen2ForCausalLM", "qwen2", parse_qwen2, &kLlamaTable},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view architecture) {
  for (const Family& family : kFamilies)
    if (family.architecture == architecture) return &family;
  return nullptr;
}

std::string supported_architectures() {
  std::string list;
  for (const Family& family : kFamilies) list += (list.empty() ? "" : ", ") + std::string(family.architecture);
  return list;
}

}  // namespace paceline
