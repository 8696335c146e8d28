// GPT-NeoX and Pythia: partial rotary positions; by default attention and MLP side by side.

#include <array>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"
#include "engine/model/gguf_family.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 2> kNeoxPrefixes = {"gpt_neox.", ""};
constexpr std::array<std::string_view, 3> kNeoxRecomputed = {".attention.bias", ".attention.masked_bias",
                                                             ".rotary_emb.inv_freq"};
constexpr std::array kNeoxSites = {
    WeightSite{.role = TensorRole::embed, .module = "embed_in"},
    WeightSite{.role = TensorRole::attn_norm, .module = "layers.{}.input_layernorm"},
    WeightSite{.role = TensorRole::q, .module = "layers.{}.attention.query_key_value", .rows = RowOrder::by_kv_group},
    WeightSite{.role = TensorRole::k, .module = "layers.{}.attention.query_key_value", .rows = RowOrder::by_kv_group},
    WeightSite{.role = TensorRole::v, .module = "layers.{}.attention.query_key_value", .rows = RowOrder::by_kv_group},
    WeightSite{.role = TensorRole::o, .module = "layers.{}.attention.dense"},
    WeightSite{.role = TensorRole::mlp_norm, .module = "layers.{}.post_attention_layernorm"},
    WeightSite{.role = TensorRole::up, .module = "layers.{}.mlp.dense_h_to_4h"},
    WeightSite{.role = TensorRole::down, .module = "layers.{}.mlp.dense_4h_to_h"},
    WeightSite{.role = TensorRole::final_norm, .module = "final_layer_norm"},
    WeightSite{.role = TensorRole::head, .module = "embed_out", .without_prefix = true},
};
constexpr WeightTable kNeoxTable{.sites = kNeoxSites, .prefixes = kNeoxPrefixes, .ignored_suffixes = kNeoxRecomputed};

ModelSpec parse_gpt_neox(const ConfigReader& config) {
  ModelSpec spec;
  spec.num_layers = config.integer("num_hidden_layers", kLayers);
  spec.hidden_size = config.integer("hidden_size", kWidth);
  spec.num_heads = spec.num_kv_heads = config.integer("num_attention_heads", kHeads);
  spec.head_dim = divided(config, "hidden_size", spec.hidden_size, spec.num_heads, "num_attention_heads");
  spec.intermediate_size = config.integer("intermediate_size", kWidth);
  spec.vocab_size = config.integer("vocab_size", kVocab);
  spec.max_position = config.integer("max_position_embeddings", kPositions);
  spec.norm = {.kind = NormKind::layer, .eps = float(config.real("layer_norm_eps", kEps, 1e-5)), .has_bias = true};
  spec.rope = parse_rope(config, spec.head_dim, spec.max_position,
                         {.theta_key = "rotary_emb_base", .share_key = "rotary_pct", .share = 0.25});
  spec.tied_head = config.boolean("tie_word_embeddings", false);
  LayerSpec layer;
  layer.block = config.boolean("use_parallel_residual", true) ? BlockLayout::parallel : BlockLayout::sequential;
  layer.attention.scale = usual_attention_scale(spec.head_dim);
  layer.attention.has_bias = layer.attention.has_out_bias = config.boolean("attention_bias", true);
  layer.mlp = {.kind = MlpKind::plain, .activation = parse_activation(config, "hidden_act", "gelu"), .has_bias = true};
  spec.layers.assign(size_t(spec.num_layers), layer);
  spec.table = &kNeoxTable;
  return spec;
}

// --- GGUF files: q, k and v stacked -------------------------------------------------------------------------------

constexpr std::array kNeoxKeys = {
    GgufKey{"block_count", "num_hidden_layers"},
    GgufKey{"context_length", "max_position_embeddings"},
    GgufKey{"embedding_length", "hidden_size"},
    GgufKey{"feed_forward_length", "intermediate_size"},
    GgufKey{"attention.head_count", "num_attention_heads"},
    GgufKey{"attention.layer_norm_epsilon", "layer_norm_eps", GgufKey::Kind::real},
    GgufKey{"rope.freq_base", "rotary_emb_base", GgufKey::Kind::real, GgufKey::Need::optional},
};

void complete_gpt_neox(const GgufFile& file, nlohmann::json& config) {
  config["hidden_act"] = "gelu";
  config["attention_bias"] = file.find_tensor("blk.0.attn_qkv.bias") != nullptr;
  config["rotary_pct"] = config.value("partial_rotary_factor", 1.0);
  config.erase("partial_rotary_factor");
  const char* const key = "gptneox.use_parallel_residual";
  const GgufValue* const parallel = file.find(key);
  if (!parallel || parallel->is_array() || parallel->kind() != GgufValue::Kind::boolean)
    fail(ExitCode::model_file, "{}: {}: found {}, expected true or false", file.path().string(), key,
         parallel ? parallel->text() : "none");
  config["use_parallel_residual"] = parallel->is_true();
}

constexpr GgufFamily kNeoxGguf{"gptneox", "gpt_neox", kNeoxKeys, complete_gpt_neox, gguf_table_stacked};

}  // namespace

Family gpt_neox_family() { return {"GPTNeoXForCausalLM", "gpt_neox", parse_gpt_neox, &kNeoxGguf}; }

}  // namespace paceline
