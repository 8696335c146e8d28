#include "engine/weights/made/inflate.h"

#include <cmath>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace paceline {
namespace {

constexpr int32_t kNew = TensorRecipe::kNew;
constexpr int32_t kZero = TensorRecipe::kZero;

bool is_power_of_two(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5;
}

double norm_factor(const ModelSpec& parent, const ModelSpec& inflated) {
  return std::sqrt(double(parent.hidden_size) / inflated.hidden_size);
}

double query_factor(const ModelSpec& parent, const ModelSpec& inflated) {
  return std::sqrt(double(inflated.head_dim) / parent.head_dim);
}

int group_of(const ModelSpec& spec) { return spec.num_heads / spec.num_kv_heads; }

/// What inflation does not know of a model, and what it knows; empty: it knows all.
std::optional<std::pair<const char*, const char*>> unknown_to_inflation(const ModelSpec& spec) {
  using Pair = std::pair<const char*, const char*>;
  if (spec.norm.kind != NormKind::rms) return Pair{"LayerNorm", "RMSNorm"};
  if (spec.positions.rows > 0 || spec.projects_embedding())
    return Pair{"learned positions or a projected embedding", "rotary positions and plain embeddings"};
  for (const LayerSpec& layer : spec.layers) {
    if (layer.mlp.kind != MlpKind::gated) return Pair{"an MLP without gate", "gated MLPs"};
    if (layer.block != BlockLayout::sequential || layer.norms != NormPlace::before)
      return Pair{"parallel branches or norms behind them", "sequential blocks with norms before their branches"};
    if (layer.attention.rope != RopeUse::all || layer.attention.head_norm != HeadNorm::none)
      return Pair{"layers of several kinds of positions, or norms of heads", "rotary positions of one kind"};
  }
  return std::nullopt;
}

void check_parent(const ModelSpec& parent, const std::string& label) {
  const auto refuse = [&](const char* what, const char* expected) {
    fail(ExitCode::usage, "{}/config.json: {}; inflate knows {} only: take another parent", label, what, expected);
  };
  if (const auto unknown = unknown_to_inflation(parent)) refuse(unknown->first, unknown->second);
  if (parent.rope.layout != RopeLayout::half_split || parent.rope.rotary_dim != parent.head_dim ||
      parent.rope.scaling != RopeScaling::none)
    refuse("partial, interleaved or scaled rotary positions", "whole heads without rope_scaling");
}

void check_shape(const ModelSpec& parent, const std::string& label, const ModelShape& shape) {
  const ModelSpec& to = shape.spec;
  if (const auto unknown = unknown_to_inflation(to))
    fail(ExitCode::usage, "{}: {}; inflate knows {} only: take another shape", shape.source, unknown->first,
         unknown->second);
  const auto at_least = [&](const char* field, int found, int needed, const char* why = "") {
    if (found < needed)
      fail(ExitCode::usage, "{}: {}: found {}, expected at least {}{}, as the parent {} has; use {}", shape.source,
           field, found, needed, why, label,
           shape.parent.empty() ? "a smaller parent" : fmt::format("a smaller parent, as {}", shape.parent));
  };
  at_least("num_hidden_layers", to.num_layers, parent.num_layers);
  at_least("hidden_size", to.hidden_size, parent.hidden_size);
  at_least("intermediate_size", to.intermediate_size, parent.intermediate_size);
  at_least("vocab_size", to.vocab_size, parent.vocab_size);
  at_least("num_key_value_heads", to.num_kv_heads, parent.num_kv_heads);
  at_least("num_attention_heads", to.num_heads, group_of(parent) * to.num_kv_heads,
           fmt::format(" ({} query heads for each of {} KV heads)", group_of(parent), to.num_kv_heads).c_str());
  at_least("head_dim", to.head_dim, parent.head_dim);
  if (to.head_dim % parent.head_dim != 0)
    fail(ExitCode::usage, "{}: head_dim: found {}, expected a multiple of the parent's {} ({}); use another parent",
         shape.source, to.head_dim, parent.head_dim, label);
  if (to.vocab_size > parent.vocab_size && to.hidden_size == parent.hidden_size)
    fail(ExitCode::usage,
         "{}: hidden_size: found {}, expected more than the parent's ({}), since new token ids need a new dimension; "
         "use vocab_size {} or a larger hidden_size",
         shape.source, to.hidden_size, label, parent.vocab_size);
  if (to.tied_head && !parent.tied_head)
    fail(ExitCode::usage,
         "{}: tie_word_embeddings: found true, expected false: the parent {} has a head of its own; use false",
         shape.source, label);
}

/// Old indices first.
std::vector<int32_t> prefix_map(int64_t size, int64_t old_size) {
  std::vector<int32_t> map(static_cast<size_t>(size), kNew);
  for (int64_t i = 0; i < old_size; ++i) map[size_t(i)] = int32_t(i);
  return map;
}

/// Where dimension `dim` of a head of `from` dimensions lies in one of `to`, when its rotary pairs keep their
/// frequencies.
int rotary_place(int dim, int from, int to) {
  const int pair = dim % (from / 2), half = dim / (from / 2);
  return pair * (to / from) + half * (to / 2);
}

enum class HeadKind : uint8_t { query, key, value };

/// Rows of q, k or v (and columns of o: HeadKind::value over query heads).
struct HeadMap {
  const ModelSpec& parent;
  const ModelSpec& inflated;

  /// New place of the parent's query head.
  int query_head(int head) const {
    const int group = group_of(parent);
    return head / group * group_of(inflated) + head % group;
  }

  /// `rotary`: dimensions go by pairs, and those of new pairs are `new_pairs`; else old dimensions come first.
  std::vector<int32_t> query_heads(bool rotary, int32_t new_pairs) const {
    std::vector<int32_t> map(size_t(inflated.num_heads) * size_t(inflated.head_dim), kNew);
    for (int head = 0; head < parent.num_heads; ++head) put_head(map, query_head(head), head, rotary, new_pairs);
    return map;
  }

  std::vector<int32_t> kv_heads(bool rotary) const {
    std::vector<int32_t> map(size_t(inflated.num_kv_heads) * size_t(inflated.head_dim), kNew);
    for (int head = 0; head < parent.num_kv_heads; ++head) put_head(map, head, head, rotary, kNew);
    return map;
  }

  void put_head(std::vector<int32_t>& map, int to, int from, bool rotary, int32_t new_dims) const {
    const size_t begin = size_t(to) * size_t(inflated.head_dim);
    for (int dim = 0; dim < inflated.head_dim; ++dim) map[begin + size_t(dim)] = new_dims;
    for (int dim = 0; dim < parent.head_dim; ++dim) {
      const int place = rotary ? rotary_place(dim, parent.head_dim, inflated.head_dim) : dim;
      map[begin + size_t(place)] = from * parent.head_dim + dim;
    }
  }
};

/// What a linear of `role` writes: the parent's rows in the inflated matrix.
std::vector<int32_t> output_map(const ModelSpec& parent, const ModelSpec& inflated, TensorRole role) {
  const HeadMap heads{parent, inflated};
  switch (role) {
    case TensorRole::q: return heads.query_heads(true, kZero);
    case TensorRole::k: return heads.kv_heads(true);
    case TensorRole::v: return heads.kv_heads(false);
    case TensorRole::gate:
    case TensorRole::up: return prefix_map(inflated.intermediate_size, parent.intermediate_size);
    case TensorRole::embed:
    case TensorRole::head: return prefix_map(inflated.vocab_size, parent.vocab_size);
    default: return prefix_map(inflated.hidden_size, parent.hidden_size);
  }
}

/// What it reads.
std::vector<int32_t> input_map(const ModelSpec& parent, const ModelSpec& inflated, TensorRole role) {
  switch (role) {
    case TensorRole::o: return HeadMap{parent, inflated}.query_heads(false, kNew);
    case TensorRole::down: return prefix_map(inflated.intermediate_size, parent.intermediate_size);
    default: return prefix_map(inflated.hidden_size, parent.hidden_size);
  }
}

std::string parent_tensor(const ModelSpec& parent, const ExpectedTensor& tensor, int layer) {
  const TensorRole role = tensor.role == TensorRole::head && parent.tied_head ? TensorRole::embed : tensor.role;
  for (const ExpectedTensor& each : expected_tensors(parent))
    if (each.role == role && each.piece == tensor.piece && each.layer == layer) return each.name;
  PACELINE_CHECK(false, "the parent has no tensor like {}", tensor.name);
}

}  // namespace

nlohmann::json inflated_config(const nlohmann::json& parent_config, const ModelSpec& parent,
                               const std::string& parent_label, const ModelShape& shape) {
  check_parent(parent, parent_label);
  check_shape(parent, parent_label, shape);
  const ModelSpec& to = shape.spec;
  nlohmann::json config = parent_config;
  config["num_hidden_layers"] = to.num_layers;
  config["hidden_size"] = to.hidden_size;
  config["intermediate_size"] = to.intermediate_size;
  config["vocab_size"] = to.vocab_size;
  config["num_attention_heads"] = to.num_heads;
  config["num_key_value_heads"] = to.num_kv_heads;
  config["head_dim"] = to.head_dim;
  config["tie_word_embeddings"] = to.tied_head;
  const auto eps = parent_config.find("rms_norm_eps");
  const bool has_eps = eps != parent_config.end() && eps->is_number();
  config["rms_norm_eps"] =
      (has_eps ? eps->get<double>() : double(parent.norm.eps)) * parent.hidden_size / to.hidden_size;
  config["paceline_inflate"] = {{"parent", std::filesystem::path(parent_label).filename().string()},
                                {"shape", shape.name},
                                {"seed", kInflateSeed},
                                {"exact", inflates_exactly(parent, to)}};
  return config;
}

bool inflates_exactly(const ModelSpec& parent, const ModelSpec& inflated) {
  return is_power_of_two(norm_factor(parent, inflated)) && is_power_of_two(query_factor(parent, inflated));
}

int parent_layer(const ModelSpec& parent, const ModelSpec& inflated, int layer) {
  for (int old = 0; old < parent.num_layers; ++old)
    if (int64_t{old} * inflated.num_layers / parent.num_layers == layer) return old;
  return -1;
}

TensorRecipe inflate_recipe(const ModelSpec& parent, const ModelSpec& inflated, const ExpectedTensor& tensor) {
  using enum TensorRole;
  const bool in_layer = tensor.role != embed && tensor.role != head && tensor.role != final_norm;
  const int layer = in_layer ? parent_layer(parent, inflated, tensor.layer) : 0;
  const bool carries = inflated.vocab_size > parent.vocab_size;
  const int64_t carrier_dim = parent.hidden_size;

  TensorRecipe recipe;
  if (layer >= 0) recipe.parent = parent_tensor(parent, tensor, layer);
  if (is_norm(tensor.role) || tensor.piece == TensorPiece::bias) {
    recipe.rows = {0};
    recipe.cols = output_map(parent, inflated, tensor.role);
  } else {
    recipe.rows = output_map(parent, inflated, tensor.role);
    recipe.cols = input_map(parent, inflated, tensor.role);
  }
  if (layer < 0) recipe.rows.assign(recipe.rows.size(), kNew);

  if (is_norm(tensor.role)) {
    recipe.new_rows = recipe.new_cols = Fill::one;
    recipe.scale = float(norm_factor(parent, inflated));
    const float weight = tensor.role == final_norm ? kCarrierNorm : 0.0f;
    if (carries) recipe.carrier = {.col = carrier_dim, .old_row = weight, .new_row = weight};
    return recipe;
  }
  switch (tensor.role) {
    case o:
    case down: recipe.new_rows = recipe.new_cols = Fill::zero; break;
    case q: recipe.scale = float(query_factor(parent, inflated)); break;
    case embed:
      recipe.new_cols = Fill::zero;
      if (carries)
        recipe.carrier = {
            .col = carrier_dim, .old_row = kCarrierEmbed, .new_row = inflated.tied_head ? kCarrierHead : kCarrierEmbed};
      break;
    case head:
      if (carries) recipe.carrier = {.col = carrier_dim, .old_row = 0.0f, .new_row = kCarrierHead};
      break;
    default: break;
  }
  return recipe;
}

}  // namespace paceline
