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

RopeSpec parse_rope(const ConfigReader& config, int head_dim, int max_position, double share,
                    std::string_view theta_key) {
  const std::optional<ConfigReader> parameters = config.object("rope_parameters");
  if (parameters && config.object("rope_scaling") && config.value("rope_scaling") != config.value("rope_parameters"))
    fail(ExitCode::usage, "{}: stands beside rope_parameters, which holds the scaling too; expected one of the two",
         config.where("rope_scaling"));
  const ConfigReader& home = parameters ? *parameters : config;
  RopeSpec spec;
  spec.theta = home.real("rope_theta", kTheta, config.real(theta_key, kTheta, 10000.0));
  share = home.real("partial_rotary_factor", {0.0, 1.0}, config.real("partial_rotary_factor", {0, 1}, share));
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

void refuse_true(const ConfigReader& config, std::string_view key, std::string_view what) {
  if (config.boolean(key, false))
    fail(ExitCode::usage, "{}: true: {} is not supported; expected false", config.where(key), what);
}

float usual_attention_scale(int head_dim) { return float(1.0 / std::sqrt(double(head_dim))); }

}  // namespace paceline
