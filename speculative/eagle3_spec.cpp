#include "speculative/eagle3_spec.h"

#include <algorithm>
#include <array>

#include "engine/model/family_parts.h"
#include "engine/model/model_spec_reader.h"
#include "engine/util/json_io.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 6> kArchitectures = {"LlamaForCausalLMEagle3", "LlamaForCausalLM",
                                                            "Eagle3Speculator",       "Eagle3DraftModel",
                                                            "Eagle3LlamaForCausalLM", "Qwen3Eagle3Model"};
constexpr std::array<std::string_view, 2> kPrefixes = {"", "model."};
constexpr std::array<std::string_view, 2> kLayerNames = {"midlayer.", "layers.0."};

/// DeepSpec names the layers that the states leave.
constexpr std::string_view kLeftLayersKey = "target_layer_ids";
constexpr std::string_view kEnteredLayersKey = "eagle_aux_hidden_state_layer_ids";

/// A flag of the file, or of its object eagle_config.
bool flag(const ConfigReader& config, const std::optional<ConfigReader>& eagle, std::string_view key, bool otherwise) {
  if (eagle && eagle->has(key)) return eagle->boolean(key, otherwise);
  return config.boolean(key, otherwise);
}

std::vector<int> read_taps(const ConfigReader& config, const std::optional<ConfigReader>& eagle,
                           const ModelSpec& target) {
  const int num_layers = target.num_layers;
  const auto read = [&](const ConfigReader& from, std::string_view key, int added) {
    std::vector<int> taps;
    for (const int32_t id : from.integers(key, {0, paceline::kLayers.max})) {
      if (id + added > num_layers)
        fail(ExitCode::usage, "{}: found layer {}, the target has {} layers; expected the head that was made for it",
             from.where(key), id, num_layers);
      taps.push_back(id + added);
    }
    return taps;
  };
  if (eagle && eagle->has(kEnteredLayersKey)) return read(*eagle, kEnteredLayersKey, 0);
  if (config.has(kEnteredLayersKey)) return read(config, kEnteredLayersKey, 0);
  if (config.has(kLeftLayersKey)) return read(config, kLeftLayersKey, 1);
  return {std::min(2, num_layers), num_layers / 2, std::max(0, num_layers - 3)};
}

struct Tensors {
  const TensorSource& source;
  std::string prefix, layer;

  bool has(const std::string& name) const { return source.find(prefix + name) != nullptr; }
  bool has_in_layer(const std::string& name) const { return has(layer + name); }

  /// Throws where it is missing or of another shape.
  void expect(const std::string& name, const std::vector<int64_t>& shape) const {
    const TensorInfo* const found = source.find(prefix + name);
    if (!found)
      fail(ExitCode::model_file, "{}: no tensor \"{}\"; expected an EAGLE-3 head with one of shape [{}]",
           source.label(), prefix + name, fmt::join(shape, ", "));
    if (found->shape != shape)
      fail(ExitCode::model_file, "{}: tensor \"{}\": found shape {}, expected [{}]", source.label(), found->name,
           found->shape_text(), fmt::join(shape, ", "));
  }
};

/// Where the names begin. Throws for heads of other kinds.
Tensors find_names(const TensorSource& source) {
  for (const std::string_view prefix : kPrefixes) {
    Tensors tensors{.source = source, .prefix = std::string(prefix), .layer = {}};
    for (const std::string_view layer : kLayerNames) {
      tensors.layer = layer;
      if (tensors.has_in_layer("self_attn.q_a_proj.weight") ||
          tensors.has_in_layer("self_attn.kv_a_proj_with_mqa.weight"))
        fail(ExitCode::model_file,
             "{}: the head has multi-head latent attention ({}self_attn.q_a_proj), which is not supported; expected "
             "q_proj, k_proj and v_proj",
             source.label(), layer);
      if (!tensors.has_in_layer("self_attn.q_proj.weight")) continue;
      if (!tensors.has_in_layer("hidden_norm.weight") && tensors.has("fc.weight"))
        fail(ExitCode::model_file,
             "{}: no tensor \"{}{}hidden_norm.weight\": a head of EAGLE-1 or EAGLE-2, which is not supported; expected "
             "an EAGLE-3 head",
             source.label(), prefix, layer);
      if (tensors.has_in_layer("hidden_norm.weight")) return tensors;
    }
  }
  fail(ExitCode::model_file,
       "{}: no tensor \"midlayer.hidden_norm.weight\" nor \"layers.0.hidden_norm.weight\"; expected an EAGLE-3 head",
       source.label());
}

void check_shapes(const Eagle3Spec& spec, const Tensors& tensors) {
  const int64_t h = spec.hidden_size, t = spec.target_hidden_size, n = int64_t(spec.taps.size());
  const int64_t q = int64_t{spec.num_heads} * spec.head_dim, kv = int64_t{spec.num_kv_heads} * spec.head_dim;
  const std::string& layer = tensors.layer;
  tensors.expect("fc.weight", {h, n * t});
  if (spec.norm_before_fc) tensors.expect("input_norm.weight", {n * t});
  for (int64_t i = 0; spec.fc_norm && i < n; ++i) tensors.expect(fmt::format("fc_norm.{}.weight", i), {t});
  tensors.expect(layer + "input_layernorm.weight", {h});
  tensors.expect(layer + "hidden_norm.weight", {h});
  tensors.expect(layer + "self_attn.q_proj.weight", {q, 2 * h});
  tensors.expect(layer + "self_attn.k_proj.weight", {kv, 2 * h});
  tensors.expect(layer + "self_attn.v_proj.weight", {kv, 2 * h});
  if (spec.has_attention_bias) {
    tensors.expect(layer + "self_attn.q_proj.bias", {q});
    tensors.expect(layer + "self_attn.k_proj.bias", {kv});
    tensors.expect(layer + "self_attn.v_proj.bias", {kv});
  }
  if (spec.has_head_norms) {
    tensors.expect(layer + "self_attn.q_norm.weight", {spec.head_dim});
    tensors.expect(layer + "self_attn.k_norm.weight", {spec.head_dim});
  }
  tensors.expect(layer + "self_attn.o_proj.weight", {h, q});
  tensors.expect(layer + "post_attention_layernorm.weight", {h});
  tensors.expect(layer + "mlp.gate_proj.weight", {spec.intermediate_size, h});
  tensors.expect(layer + "mlp.up_proj.weight", {spec.intermediate_size, h});
  tensors.expect(layer + "mlp.down_proj.weight", {h, spec.intermediate_size});
  tensors.expect("norm.weight", {h});
  if (spec.has_head) tensors.expect("lm_head.weight", {spec.draft_vocab_size, h});
  if (spec.has_embedding) tensors.expect("embed_tokens.weight", {spec.vocab_size, h});
  if (spec.is_reduced()) tensors.expect("d2t", {spec.draft_vocab_size});
}

/// What config.json says about the layer: its own object in speculators' files.
void read_layer(const ConfigReader& layer, Eagle3Spec& spec) {
  if (const int count = layer.integer("num_hidden_layers", {1, kLayers.max}, 1); count != 1)
    fail(ExitCode::usage, "{}: found {} layers, expected 1: heads of more are not supported",
         layer.where("num_hidden_layers"), count);
  spec.hidden_size = layer.integer("hidden_size", kWidth);
  spec.num_heads = layer.integer("num_attention_heads", kHeads);
  spec.num_kv_heads = layer.integer("num_key_value_heads", {1, spec.num_heads}, spec.num_heads);
  divided(layer, "num_attention_heads", spec.num_heads, spec.num_kv_heads, "num_key_value_heads");
  spec.head_dim = layer.has("head_dim")
                      ? layer.integer("head_dim", kHeadDim)
                      : divided(layer, "hidden_size", spec.hidden_size, spec.num_heads, "num_attention_heads");
  spec.intermediate_size = layer.integer("intermediate_size", kWidth);
  spec.max_position = layer.integer("max_position_embeddings", kPositions);
  spec.eps = float(layer.real("rms_norm_eps", kEps, 1e-6));
  spec.rope = parse_rope(layer, spec.head_dim, spec.max_position);
  spec.activation = parse_activation(layer, "hidden_act", "silu");
}

}  // namespace

bool is_eagle3_folder(const std::filesystem::path& dir) {
  try {
    const nlohmann::json document = read_model_config(dir / "config.json");
    const std::vector<std::string> names =
        ConfigReader(document, (dir / "config.json").string()).texts("architectures");
    return !names.empty() && names[0] != "LlamaForCausalLM" &&
           std::find(kArchitectures.begin(), kArchitectures.end(), names[0]) != kArchitectures.end();
  } catch (const Error&) {
    return false;
  }
}

Eagle3Spec load_eagle3_spec(const std::filesystem::path& dir, const Checkpoint& source, const ModelSpec& target) {
  const std::filesystem::path path = dir / "config.json";
  const nlohmann::json document = read_model_config(path);
  const ConfigReader config(document, path.string());
  const std::vector<std::string> names = config.texts("architectures");
  if (!names.empty() && std::find(kArchitectures.begin(), kArchitectures.end(), names[0]) == kArchitectures.end())
    fail(ExitCode::usage, "{}: unknown kind of head {}; supported: {}", config.where("architectures"),
         json_literal(names[0]), fmt::join(kArchitectures, ", "));
  const std::optional<ConfigReader> eagle = config.object("eagle_config");
  const std::optional<ConfigReader> nested = config.object("transformer_layer_config");
  const ConfigReader& layer = nested ? *nested : config;
  if (!flag(config, eagle, "use_aux_hidden_state", true))
    fail(ExitCode::usage, "{}: found false, expected true: heads without states of inner layers are not supported",
         (eagle ? *eagle : config).where("use_aux_hidden_state"));

  const Tensors tensors = find_names(source);
  Eagle3Spec spec;
  read_layer(layer, spec);
  spec.taps = read_taps(config, eagle, target);
  spec.target_hidden_size = config.integer("target_hidden_size", kWidth, spec.hidden_size);
  if (spec.target_hidden_size != target.hidden_size)
    fail(ExitCode::usage, "{}: found {}, the target's states have {}; expected the head that was made for it",
         config.has("target_hidden_size") ? config.where("target_hidden_size") : layer.where("hidden_size"),
         spec.target_hidden_size, target.hidden_size);
  spec.vocab_size = layer.has("vocab_size") ? layer.integer("vocab_size", kVocab) : target.vocab_size;
  if (spec.vocab_size != target.vocab_size)
    fail(ExitCode::usage, "{}: found {}, the target has {} tokens; expected the head that was made for it",
         layer.where("vocab_size"), spec.vocab_size, target.vocab_size);
  spec.draft_vocab_size = config.integer("draft_vocab_size", {1, spec.vocab_size}, spec.vocab_size);
  spec.norm_before_fc = flag(config, eagle, "norm_before_fc", false);
  spec.fc_norm = flag(config, eagle, "fc_norm", false);
  spec.norm_before_residual = flag(config, eagle, "norm_before_residual", false);
  spec.norm_output = flag(config, eagle, "norm_output", false);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    if (config.text("torch_dtype", "bfloat16") == dtype_name(dtype)) spec.checkpoint_dtype = dtype;

  spec.prefix = tensors.prefix;
  spec.layer = tensors.layer;
  spec.has_head_norms = tensors.has_in_layer("self_attn.q_norm.weight");
  spec.has_attention_bias = tensors.has_in_layer("self_attn.q_proj.bias");
  spec.has_embedding = tensors.has("embed_tokens.weight");
  spec.has_head = tensors.has("lm_head.weight");
  if (spec.hidden_size != target.hidden_size && !(spec.has_embedding && spec.has_head))
    fail(ExitCode::model_file,
         "{}: hidden_size {} is not the target's {}, so the head needs embed_tokens and lm_head of its own; found {}",
         source.label(), spec.hidden_size, target.hidden_size, spec.has_embedding ? "no lm_head" : "no embed_tokens");
  if (!spec.has_head && spec.is_reduced())
    fail(ExitCode::model_file, "{}: no tensor \"{}lm_head.weight\"; expected one of {} rows", source.label(),
         spec.prefix, spec.draft_vocab_size);
  check_shapes(spec, tensors);
  if (spec.is_reduced()) spec.ids = draft_ids(spec, source.integers(spec.prefix + "d2t"), source.label());
  return spec;
}

std::vector<int32_t> draft_ids(const Eagle3Spec& spec, std::span<const int64_t> data, const std::string& label) {
  const auto ids_of = [&](bool is_distance) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < data.size(); ++i) {
      const int64_t last = ids.empty() ? -1 : ids.back();
      if (data[i] < 0 || data[i] >= spec.vocab_size) break;
      const int64_t id = data[i] + (is_distance ? int64_t(i) : 0);
      if (id <= last || id >= spec.vocab_size) break;
      ids.push_back(int32_t(id));
    }
    return ids;
  };
  std::vector<int32_t> ids = ids_of(true);
  if (ids.size() == data.size()) return ids;
  std::vector<int32_t> as_written = ids_of(false);
  if (as_written.size() == data.size()) return as_written;
  const size_t row = std::max(ids.size(), as_written.size());
  fail(ExitCode::model_file,
       "{}: tensor \"{}d2t\": row {} holds {}; expected the target's tokens, or their distances from the row's number, "
       "increasing and below {}",
       label, spec.prefix, row, data[row], spec.vocab_size);
}

}  // namespace paceline
