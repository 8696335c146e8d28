#include "tests/support/eagle3_writer.h"

#include <algorithm>
#include <random>

#include "kernels/error.h"

namespace paceline::test {

std::vector<HeadLayout> head_layouts() {
  return {{.name = "specforge", .draft_vocab_size = 40},
          {.name = "specforge_3_1",
           .draft_vocab_size = 40,
           .attention_bias = true,
           .flags = {{"eagle_config", {{"norm_output", true}, {"fc_norm", true}}}}},
          {.name = "speculators",
           .architecture = "Eagle3Speculator",
           .layer = "layers.0.",
           .is_nested = true,
           .draft_vocab_size = 50,
           .absolute_ids = true,
           .own_embedding = true,
           .flags = {{"norm_before_residual", true}}},
          {.name = "deepspec",
           .architecture = "Qwen3Eagle3Model",
           .layer = "layers.0.",
           .prefix = "model.",
           .left_layers = true,
           .head_norms = true,
           .own_head = false},
          {.name = "modelopt",
           .layer = "layers.0.",
           .draft_vocab_size = 40,
           .flags = {{"eagle_config", {{"norm_before_fc", true}, {"use_aux_hidden_state", true}}}}}};
}

TestTensor& HeadFiles::tensor(const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TestTensor& t) { return t.name == name; });
  PACELINE_CHECK(found != tensors.end(), "no tensor {}", name);
  return *found;
}

void HeadFiles::write(const std::filesystem::path& folder) const {
  std::filesystem::create_directories(folder);
  write_file(folder / "config.json", config.dump(2));
  write_safetensors(folder / "model.safetensors", tensors);
}

HeadFiles random_head(const ModelSpec& target, const HeadLayout& layout) {
  HeadFiles files;
  const int64_t h = target.hidden_size, heads = 4, kv_heads = 2, head_dim = 16, ffn = 48, taps = 3;
  const int64_t vocab = target.vocab_size, draft = layout.draft_vocab_size ? layout.draft_vocab_size : vocab;
  nlohmann::json layer = {{"hidden_size", h},
                          {"num_attention_heads", heads},
                          {"num_key_value_heads", kv_heads},
                          {"head_dim", head_dim},
                          {"intermediate_size", ffn},
                          {"num_hidden_layers", 1},
                          {"vocab_size", vocab},
                          {"max_position_embeddings", target.max_position},
                          {"rms_norm_eps", 1e-5},
                          {"rope_theta", 10000.0}};
  files.config = layout.is_nested ? nlohmann::json{{"transformer_layer_config", layer}} : layer;
  files.config["architectures"] = {layout.architecture};
  files.config["torch_dtype"] = "float32";
  if (layout.draft_vocab_size) files.config["draft_vocab_size"] = draft;
  files.config.merge_patch(layout.flags);
  std::vector<int> ids = {1, target.num_layers - 1, target.num_layers};
  if (layout.left_layers) {
    for (int& id : ids) --id;
    files.config["target_layer_ids"] = ids;
  } else if (layout.is_nested) {
    files.config["eagle_aux_hidden_state_layer_ids"] = ids;
  } else {
    files.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = ids;
  }

  std::mt19937_64 random(20260301);
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, float about, float spread) {
    std::normal_distribution<float> normal(about, spread);
    TestTensor tensor{.name = layout.prefix + name, .shape = std::move(shape), .values = {}};
    tensor.values.resize(size_t(num_elements(tensor.shape)));
    for (float& value : tensor.values) value = normal(random);
    files.tensors.push_back(std::move(tensor));
  };
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols) {
    add(name, {rows, cols}, 0.0f, 2.0f / std::sqrt(float(cols)));
  };
  const auto norm = [&](const std::string& name, int64_t size) { add(name, {size}, 1.0f, 0.2f); };
  const auto flag = [&](const char* key) {
    const nlohmann::json eagle = files.config.value("eagle_config", nlohmann::json::object());
    return files.config.value(key, false) || eagle.value(key, false);
  };
  const std::string attention = layout.layer + "self_attn.", mlp = layout.layer + "mlp.";
  matrix("fc.weight", h, taps * h);
  if (flag("norm_before_fc")) norm("input_norm.weight", taps * h);
  for (int i = 0; flag("fc_norm") && i < taps; ++i) norm("fc_norm." + std::to_string(i) + ".weight", h);
  norm(layout.layer + "input_layernorm.weight", h);
  norm(layout.layer + "hidden_norm.weight", h);
  norm(layout.layer + "post_attention_layernorm.weight", h);
  for (const auto& [part, rows] : {std::pair{"q_proj", heads}, {"k_proj", kv_heads}, {"v_proj", kv_heads}}) {
    matrix(attention + part + ".weight", rows * head_dim, 2 * h);
    if (layout.attention_bias) add(attention + part + ".bias", {rows * head_dim}, 0.0f, 0.5f);
  }
  if (layout.head_norms) {
    norm(attention + "q_norm.weight", head_dim);
    norm(attention + "k_norm.weight", head_dim);
  }
  matrix(attention + "o_proj.weight", h, heads * head_dim);
  matrix(mlp + "gate_proj.weight", ffn, h);
  matrix(mlp + "up_proj.weight", ffn, h);
  matrix(mlp + "down_proj.weight", h, ffn);
  norm("norm.weight", h);
  if (layout.own_head) matrix("lm_head.weight", draft, h);
  if (layout.own_embedding) matrix("embed_tokens.weight", vocab, h);
  if (layout.draft_vocab_size) {
    TestTensor d2t{.name = layout.prefix + "d2t", .shape = {draft}, .values = {}, .dtype = "I64"};
    const int64_t step = vocab / draft;
    for (int64_t i = 0; i < draft; ++i)
      d2t.values.push_back(float(i * step + step - 1 - (layout.absolute_ids ? 0 : i)));
    files.tensors.push_back(std::move(d2t));
  }
  return files;
}

}  // namespace paceline::test
