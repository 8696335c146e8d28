// Falcon: three ways to keep q, k and v in one tensor; attention and MLP side by side under one norm or two, or one
// after the other.

#include <array>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"
#include "engine/model/gguf_family.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 2> kFalconPrefixes = {"transformer.", ""};

constexpr std::array<WeightSite, 11> falcon_sites(RowOrder qkv, std::string_view attn, std::string_view mlp) {
  using enum TensorRole;
  return {WeightSite{.role = embed, .module = "word_embeddings"},
          WeightSite{.role = attn_norm, .module = attn},
          WeightSite{.role = q, .module = "h.{}.self_attention.query_key_value", .rows = qkv},
          WeightSite{.role = k, .module = "h.{}.self_attention.query_key_value", .rows = qkv},
          WeightSite{.role = v, .module = "h.{}.self_attention.query_key_value", .rows = qkv},
          WeightSite{.role = o, .module = "h.{}.self_attention.dense"},
          WeightSite{.role = mlp_norm, .module = mlp},
          WeightSite{.role = up, .module = "h.{}.mlp.dense_h_to_4h"},
          WeightSite{.role = down, .module = "h.{}.mlp.dense_4h_to_h"},
          WeightSite{.role = final_norm, .module = "ln_f"},
          WeightSite{.role = head, .module = "lm_head", .without_prefix = true}};
}

// With one KV head a group is the whole: q | k | v. Without groups it is a head.
constexpr auto kFalconSites =
    falcon_sites(RowOrder::by_kv_group, "h.{}.input_layernorm", "h.{}.post_attention_layernorm");
constexpr auto kFalconTwoNormSites = falcon_sites(RowOrder::by_kv_group, "h.{}.ln_attn", "h.{}.ln_mlp");
constexpr WeightTable kFalconTable{
    .sites = kFalconSites, .prefixes = kFalconPrefixes, .ignored_suffixes = kRotaryRecomputed};
constexpr WeightTable kFalconTwoNormTable{
    .sites = kFalconTwoNormSites, .prefixes = kFalconPrefixes, .ignored_suffixes = kRotaryRecomputed};

ModelSpec parse_falcon(const ConfigReader& config) {
  refuse_true(config, "alibi", "ALiBi");
  ModelSpec spec;
  spec.num_layers = config.integer("num_hidden_layers", kLayers);
  spec.hidden_size = config.integer("hidden_size", kWidth);
  spec.num_heads = config.integer("num_attention_heads", kHeads);
  spec.head_dim = divided(config, "hidden_size", spec.hidden_size, spec.num_heads, "num_attention_heads");
  const bool is_new = config.boolean("new_decoder_architecture", false);
  const bool multi_query = config.boolean("multi_query", true);
  spec.num_kv_heads = is_new        ? config.integer("num_kv_heads", {1, spec.num_heads}, spec.num_heads)
                      : multi_query ? 1
                                    : spec.num_heads;
  divided(config, "num_attention_heads", spec.num_heads, spec.num_kv_heads, "num_kv_heads");
  spec.intermediate_size = config.integer("ffn_hidden_size", kWidth, 4 * spec.hidden_size);
  spec.vocab_size = config.integer("vocab_size", kVocab);
  spec.max_position = config.integer("max_position_embeddings", kPositions, 2048);
  spec.norm = {.kind = NormKind::layer, .eps = float(config.real("layer_norm_epsilon", kEps, 1e-5)), .has_bias = true};
  spec.rope = parse_rope(config, spec.head_dim, spec.max_position);
  spec.tied_head = config.boolean("tie_word_embeddings", true);
  const bool bias = config.boolean("bias", false);
  const bool parallel = is_new || config.boolean("parallel_attn", true);
  const bool two_norms = is_new && config.integer("num_ln_in_parallel_attn", {1, 2}, 2) == 2;
  LayerSpec layer;
  layer.block = parallel ? BlockLayout::parallel : BlockLayout::sequential;
  layer.shares_norm = parallel && !two_norms;
  layer.attention.scale = usual_attention_scale(spec.head_dim);
  layer.attention.has_bias = layer.attention.has_out_bias = bias;
  layer.mlp = {.kind = MlpKind::plain, .activation = parse_activation(config, "activation", "gelu"), .has_bias = bias};
  spec.layers.assign(size_t(spec.num_layers), layer);
  spec.table = two_norms ? &kFalconTwoNormTable : &kFalconTable;
  return spec;
}

// --- GGUF files: q, k and v stacked, attention and MLP side by side -------------------------------------------------

constexpr std::array kFalconKeys = {
    GgufKey{"block_count", "num_hidden_layers"},
    GgufKey{"context_length", "max_position_embeddings"},
    GgufKey{"embedding_length", "hidden_size"},
    GgufKey{"feed_forward_length", "ffn_hidden_size"},
    GgufKey{"attention.head_count", "num_attention_heads"},
    GgufKey{"attention.layer_norm_epsilon", "layer_norm_epsilon", GgufKey::Kind::real},
    GgufKey{"rope.freq_base", "rope_theta", GgufKey::Kind::real, GgufKey::Need::optional},
};

/// Of two norms the first is the MLP's.
constexpr auto kGgufTwoNormSites = [] {
  auto sites = kGgufStackedSites;
  for (WeightSite& site : sites) {
    if (site.role == TensorRole::attn_norm) site.module = "blk.{}.attn_norm_2";
    if (site.role == TensorRole::mlp_norm) site.module = "blk.{}.attn_norm";
  }
  return sites;
}();
constexpr WeightTable kGgufTwoNormTable{
    .sites = kGgufTwoNormSites, .prefixes = {}, .ignored_suffixes = kGgufRopeFactors};

const WeightTable& falcon_gguf_table(const ModelSpec& spec) {
  return spec.layer(0).shares_norm ? gguf_table_stacked(spec) : kGgufTwoNormTable;
}

void complete_falcon(const GgufFile& file, nlohmann::json& config) {
  nlohmann::json kv_heads = gguf_number(file, "falcon.attention.head_count_kv", GgufKey::Kind::integer);
  if (kv_heads.is_null()) kv_heads = config["num_attention_heads"];
  const bool two_norms = file.find_tensor("blk.0.attn_norm_2.weight");
  const bool is_old = kv_heads == 1 && !two_norms;
  config["activation"] = "gelu";
  config["bias"] = config["alibi"] = false;
  config["multi_query"] = config["parallel_attn"] = true;
  config["new_decoder_architecture"] = !is_old;
  if (is_old) return;
  config["num_kv_heads"] = kv_heads;
  config["num_ln_in_parallel_attn"] = two_norms ? 2 : 1;
}

constexpr GgufFamily kFalconGguf{"falcon", "falcon", kFalconKeys, complete_falcon, falcon_gguf_table};

}  // namespace

Family falcon_family() { return {"FalconForCausalLM", "falcon", parse_falcon, &kFalconGguf}; }

}  // namespace paceline
