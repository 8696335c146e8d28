#include "speculative/eagle3_inflate.h"

#include <algorithm>
#include <numeric>

#include "engine/weights/made/generated_tensors.h"
#include "engine/weights/made/recipe_part.h"

namespace paceline {
namespace {

/// The head's layer as a model of one layer like `like`, whose tensors inflate as the layer's do.
ModelSpec layer_spec(const Eagle3Spec& head, const ModelSpec& like) {
  ModelSpec spec = like;
  spec.hidden_size = head.hidden_size;
  spec.num_heads = head.num_heads;
  spec.num_kv_heads = head.num_kv_heads;
  spec.head_dim = head.head_dim;
  spec.rope.rotary_dim = head.head_dim;
  spec.intermediate_size = head.intermediate_size;
  spec.vocab_size = head.draft_vocab_size;
  spec.tied_head = false;
  spec.num_layers = 1;
  spec.layers.resize(1);
  return spec;
}

int inflated_layer(const ModelSpec& parent, const ModelSpec& target, int entered) {
  if (entered == parent.num_layers) return target.num_layers;
  int layer = 0;
  while (parent_layer(parent, target, layer) != entered) ++layer;
  return layer;
}

}  // namespace

Eagle3Spec inflated_head_spec(const Eagle3Spec& head, const ModelSpec& parent, const ModelSpec& target,
                              const std::string& label) {
  const auto refuse = [&](bool has, const char* what) {
    if (has)
      fail(ExitCode::usage,
           "{}: a head with {} does not grow with its target; leave engine.target.inflate out, or take a head without",
           label, what);
  };
  refuse(head.norm_before_fc || head.fc_norm, "norms of its taps");
  refuse(head.norm_before_residual || head.norm_output, "norm_before_residual or norm_output");
  refuse(head.has_head_norms || head.has_attention_bias, "norms of heads or biases");
  refuse(head.has_embedding || !head.has_head, "an embedding of its own, or the target's output head");

  Eagle3Spec big = head;
  big.hidden_size = big.target_hidden_size = target.hidden_size;
  big.eps = float(double(head.eps) * head.hidden_size / target.hidden_size);
  big.num_heads = std::max(head.num_heads, target.num_heads * target.head_dim / head.head_dim);
  big.num_kv_heads = std::max(head.num_kv_heads, target.num_kv_heads * target.head_dim / head.head_dim);
  const int group = head.num_heads / head.num_kv_heads;
  if (big.num_heads % big.num_kv_heads != 0 || big.num_heads / big.num_kv_heads < group)
    fail(ExitCode::usage, "{}: {} query heads over {} KV heads do not fit {} over {}; take another shape", label,
         head.num_heads, head.num_kv_heads, big.num_heads, big.num_kv_heads);
  big.intermediate_size = std::max(head.intermediate_size, target.intermediate_size);
  big.vocab_size = target.vocab_size;
  for (int& tap : big.taps) tap = inflated_layer(parent, target, tap);
  const int num_new = target.vocab_size - parent.vocab_size;
  if (num_new == 0) return big;
  if (head.ids.empty()) {
    big.ids.resize(size_t(head.draft_vocab_size));
    std::iota(big.ids.begin(), big.ids.end(), 0);
  }
  big.draft_vocab_size = std::clamp(target.vocab_size / 4, head.draft_vocab_size + 1, head.draft_vocab_size + num_new);
  for (int32_t id = parent.vocab_size; int(big.ids.size()) < big.draft_vocab_size; ++id) big.ids.push_back(id);
  return big;
}

InflatedHead::InflatedHead(Checkpoint source, const Eagle3Spec& head, const Eagle3Spec& inflated,
                           const ModelSpec& parent, const ModelSpec& target)
    : source_(std::move(source)) {
  const ModelSpec from = layer_spec(head, parent), to = layer_spec(inflated, target);
  const std::string fc = head.prefix + "fc.weight";
  dtype_ = source_.weight(fc).dtype;
  const auto add = [&](const std::string& name, TensorRole role, int kind, const auto& change) {
    const ExpectedTensor like{.name = name, .role = role, .piece = TensorPiece::weight, .layer = 0};
    TensorRecipe recipe = inflate_recipe(from, to, like);
    recipe.parent = head.prefix + name;
    change(recipe);
    std::vector<int64_t> shape = {int64_t(recipe.cols.size())};
    if (source_.find(recipe.parent)->shape.size() == 2) shape.insert(shape.begin(), int64_t(recipe.rows.size()));
    math::WeightKey key = weight_key(kInflateSeed, like);
    key.layer = uint32_t(-1 - kind);  // no layer of a target
    TensorInfo info = made_tensor(recipe.parent, std::move(shape), dtype_);
    entries_.add({.recipe = std::move(recipe), .info = std::move(info), .key = key});
  };
  const auto as_it_is = [](TensorRecipe&) {};
  const auto of_two = [&](TensorRecipe& recipe) {  // over a token's embedding, then a feature
    const size_t width = recipe.cols.size();
    for (size_t i = 0; i < width; ++i)
      recipe.cols.push_back(recipe.cols[i] >= 0 ? recipe.cols[i] + head.hidden_size : recipe.cols[i]);
  };
  const std::string layer = head.layer, attention = layer + "self_attn.", mlp = layer + "mlp.";
  add(layer + "input_layernorm.weight", TensorRole::attn_norm, 0, as_it_is);
  add(layer + "hidden_norm.weight", TensorRole::attn_norm, 1, as_it_is);
  add(layer + "post_attention_layernorm.weight", TensorRole::mlp_norm, 0, as_it_is);
  add(attention + "q_proj.weight", TensorRole::q, 0, of_two);
  add(attention + "k_proj.weight", TensorRole::k, 0, of_two);
  add(attention + "v_proj.weight", TensorRole::v, 0, of_two);
  add(attention + "o_proj.weight", TensorRole::o, 0, as_it_is);
  add(mlp + "gate_proj.weight", TensorRole::gate, 0, as_it_is);
  add(mlp + "up_proj.weight", TensorRole::up, 0, as_it_is);
  add(mlp + "down_proj.weight", TensorRole::down, 0, as_it_is);
  add("norm.weight", TensorRole::final_norm, 0, as_it_is);
  add("lm_head.weight", TensorRole::head, 0, as_it_is);
  add("fc.weight", TensorRole::o, 1, [&](TensorRecipe& recipe) {  // what it writes is zero in new dimensions, as of o
    const bool carries = target.vocab_size > parent.vocab_size;
    recipe.cols.clear();
    for (size_t tap = 0; tap < head.taps.size(); ++tap)
      for (int col = 0; col < target.hidden_size; ++col)
        recipe.cols.push_back(col < parent.hidden_size    ? int32_t(tap) * parent.hidden_size + col
                              : col == parent.hidden_size ? TensorRecipe::kZero  // the taps' carrier
                                                          : TensorRecipe::kNew);
    recipe.new_cols = Fill::random;
    if (carries)
      recipe.carrier = {.col = parent.hidden_size, .old_row = 1.0f, .new_row = 1.0f, .only_row = head.hidden_size};
  });
}

TensorPart InflatedHead::part(std::string_view name, const TensorRange& range) const {
  const Entry& entry = entries_.at(name);
  return make_part(entry.recipe, entry.key, source_.weight(entry.recipe.parent), range, dtype_);
}

Eagle3Files open_eagle3_head(const std::filesystem::path& dir, const ModelSpec& target, const ModelSpec* parent) {
  Checkpoint files = Checkpoint::open(dir);
  Eagle3Spec head = load_eagle3_spec(dir, files, parent ? *parent : target);
  if (!parent) return {.spec = std::move(head), .tensors = std::make_unique<Checkpoint>(std::move(files))};
  Eagle3Spec big = inflated_head_spec(head, *parent, target, dir.string());
  auto tensors = std::make_unique<InflatedHead>(std::move(files), head, big, *parent, target);
  return {.spec = std::move(big), .tensors = std::move(tensors)};
}

}  // namespace paceline
