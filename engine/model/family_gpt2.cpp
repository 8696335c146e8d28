// GPT-2, and GPT-BigCode (StarCoder 1, SantaCoder), which is GPT-2 with one KV head and plain linear layers.

#include <array>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"
#include "engine/model/gguf_family.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 2> kGpt2Prefixes = {"transformer.", ""};
constexpr std::array<std::string_view, 2> kGpt2Masks = {".attn.bias", ".attn.masked_bias"};

constexpr std::array<WeightSite, 12> gpt2_sites(RowOrder qkv, bool transposed) {
  using enum TensorRole;
  return {WeightSite{.role = embed, .module = "wte"},
          WeightSite{.role = position, .module = "wpe"},
          WeightSite{.role = attn_norm, .module = "h.{}.ln_1"},
          WeightSite{.role = q, .module = "h.{}.attn.c_attn", .rows = qkv, .transposed = transposed},
          WeightSite{.role = k, .module = "h.{}.attn.c_attn", .rows = qkv, .transposed = transposed},
          WeightSite{.role = v, .module = "h.{}.attn.c_attn", .rows = qkv, .transposed = transposed},
          WeightSite{.role = o, .module = "h.{}.attn.c_proj", .transposed = transposed},
          WeightSite{.role = mlp_norm, .module = "h.{}.ln_2"},
          WeightSite{.role = up, .module = "h.{}.mlp.c_fc", .transposed = transposed},
          WeightSite{.role = down, .module = "h.{}.mlp.c_proj", .transposed = transposed},
          WeightSite{.role = final_norm, .module = "ln_f"},
          WeightSite{.role = head, .module = "lm_head", .without_prefix = true}};
}

constexpr auto kGpt2Sites = gpt2_sites(RowOrder::stacked, true);
constexpr auto kBigCodeMqaSites = gpt2_sites(RowOrder::stacked, false);
constexpr auto kBigCodeMhaSites = gpt2_sites(RowOrder::by_kv_group, false);
constexpr WeightTable kGpt2Table{.sites = kGpt2Sites, .prefixes = kGpt2Prefixes, .ignored_suffixes = kGpt2Masks};
constexpr WeightTable kBigCodeMqaTable{
    .sites = kBigCodeMqaSites, .prefixes = kGpt2Prefixes, .ignored_suffixes = kGpt2Masks};
constexpr WeightTable kBigCodeMhaTable{
    .sites = kBigCodeMhaSites, .prefixes = kGpt2Prefixes, .ignored_suffixes = kGpt2Masks};

ModelSpec parse_gpt2_like(const ConfigReader& config, std::string_view activation) {
  refuse_true(config, "add_cross_attention", "cross-attention");
  ModelSpec spec;
  spec.num_layers = config.integer("n_layer", kLayers);
  spec.hidden_size = config.integer("n_embd", kWidth);
  spec.num_heads = spec.num_kv_heads = config.integer("n_head", kHeads);
  spec.head_dim = divided(config, "n_embd", spec.hidden_size, spec.num_heads, "n_head");
  spec.intermediate_size = config.integer("n_inner", kWidth, 4 * spec.hidden_size);
  spec.vocab_size = config.integer("vocab_size", kVocab);
  spec.max_position = config.integer("n_positions", kPositions);
  spec.positions.rows = spec.max_position;
  spec.norm = {.kind = NormKind::layer, .eps = float(config.real("layer_norm_epsilon", kEps, 1e-5)), .has_bias = true};
  spec.tied_head = config.boolean("tie_word_embeddings", true);
  LayerSpec layer;
  layer.attention = {.rope = RopeUse::none,
                     .scale = config.boolean("scale_attn_weights", true) ? usual_attention_scale(spec.head_dim) : 1.0f,
                     .has_bias = true,
                     .has_out_bias = true};
  layer.mlp = {.kind = MlpKind::plain,
               .activation = parse_activation(config, "activation_function", activation),
               .has_bias = true};
  spec.layers.assign(size_t(spec.num_layers), layer);
  return spec;
}

ModelSpec parse_gpt2(const ConfigReader& config) {
  ModelSpec spec = parse_gpt2_like(config, "gelu_new");
  if (config.boolean("scale_attn_by_inverse_layer_idx", false))
    for (size_t i = 0; i < spec.layers.size(); ++i) spec.layers[i].attention.scale /= float(i + 1);
  spec.table = &kGpt2Table;
  return spec;
}

ModelSpec parse_gpt_bigcode(const ConfigReader& config) {
  ModelSpec spec = parse_gpt2_like(config, "gelu_pytorch_tanh");
  const bool multi_query = config.boolean("multi_query", true);
  if (multi_query) spec.num_kv_heads = 1;
  spec.table = multi_query ? &kBigCodeMqaTable : &kBigCodeMhaTable;
  return spec;
}

// --- GGUF files: linear layers as GPT-BigCode has them -------------------------------------------------------------

constexpr std::array kGpt2Keys = {
    GgufKey{"block_count", "n_layer"},
    GgufKey{"context_length", "n_positions"},
    GgufKey{"embedding_length", "n_embd"},
    GgufKey{"feed_forward_length", "n_inner"},
    GgufKey{"attention.head_count", "n_head"},
    GgufKey{"attention.layer_norm_epsilon", "layer_norm_epsilon", GgufKey::Kind::real},
};

void complete_gpt2(const GgufFile&, nlohmann::json& config) { config["activation_function"] = "gelu_new"; }

/// Heads with keys of their own would lie by head in files of llama.cpp's converter, which llama.cpp reads as stacked.
void complete_starcoder(const GgufFile& file, nlohmann::json& config) {
  const char* const key = "starcoder.attention.head_count_kv";
  if (const nlohmann::json heads = gguf_number(file, key, GgufKey::Kind::integer); heads != 1)
    fail(ExitCode::model_file, "{}: {}: found {}, expected 1: only models with one key head are supported",
         file.path().string(), key, heads.is_null() ? "none" : heads.dump());
  config["activation_function"] = "gelu_pytorch_tanh";
  config["multi_query"] = true;
}

constexpr GgufFamily kGpt2Gguf{"gpt2", "gpt2", kGpt2Keys, complete_gpt2, gguf_table_stacked};
constexpr GgufFamily kStarcoderGguf{"starcoder", "gpt_bigcode", kGpt2Keys, complete_starcoder, gguf_table_stacked};

}  // namespace

Family gpt2_family() { return {"GPT2LMHeadModel", "gpt2", parse_gpt2, &kGpt2Gguf}; }
Family gpt_bigcode_family() { return {"GPTBigCodeForCausalLM", "gpt_bigcode", parse_gpt_bigcode, &kStarcoderGguf}; }

}  // namespace paceline
