#pragma once
// What a family's GGUF files look like. A family's own file says it (family_NAME.cpp, as Family::gguf), gguf_model.h
// reads files by it. Keys and names of tensors are those of llama.cpp (gguf-py/gguf/constants.py), values those that
// its converter (convert_hf_to_gguf.py) makes of a Hugging Face checkpoint.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/model/weight_table.h"
#include "engine/util/gguf.h"

namespace paceline {

/// An entry "<architecture>.<gguf>" that is a key of config.json.
struct GgufKey {
  enum class Kind : uint8_t { integer, real };
  enum class Need : uint8_t { required, optional };

  std::string_view gguf;
  std::string_view config;
  Kind kind = Kind::integer;
  Need need = Need::required;
};

struct GgufFamily {
  std::string_view architecture;  // general.architecture; families may share one: the first that is listed has the file
  std::string_view model_type;    // of config.json
  std::span<const GgufKey> keys;
  /// What the architecture implies or its tensors tell. `config` has all else: keys, rotary positions, token ids.
  /// Throws Error(model_file) naming file and key.
  void (*complete)(const GgufFile& file, nlohmann::json& config);
  /// Where the tensors of a model of `spec` lie; static storage.
  const WeightTable& (*table)(const ModelSpec& spec);
};

/// The number of the entry `key` (its whole name); null where there is none. Of an array, a number for each layer, all
/// must be the same. Throws Error(model_file) naming file and key.
nlohmann::json gguf_number(const GgufFile& file, std::string_view key, GgufKey::Kind kind);

template <size_t kShared, size_t kOwn>
constexpr std::array<GgufKey, kShared + kOwn> gguf_keys(const std::array<GgufKey, kShared>& shared,
                                                        const std::array<GgufKey, kOwn>& own) {
  std::array<GgufKey, kShared + kOwn> all{};
  std::copy(own.begin(), own.end(), std::copy(shared.begin(), shared.end(), all.begin()));
  return all;
}

/// Sizes, and the base of rotary positions, under Llama's keys.
inline constexpr std::array kGgufSizeKeys = {
    GgufKey{"block_count", "num_hidden_layers"},
    GgufKey{"context_length", "max_position_embeddings"},
    GgufKey{"embedding_length", "hidden_size"},
    GgufKey{"feed_forward_length", "intermediate_size"},
    GgufKey{"attention.head_count", "num_attention_heads"},
    GgufKey{"attention.head_count_kv", "num_key_value_heads", GgufKey::Kind::integer, GgufKey::Need::optional},
    GgufKey{"attention.key_length", "head_dim", GgufKey::Kind::integer, GgufKey::Need::optional},
    GgufKey{"rope.freq_base", "rope_theta", GgufKey::Kind::real, GgufKey::Need::optional},
};
inline constexpr auto kGgufLlamaKeys = gguf_keys(
    kGgufSizeKeys, std::array{GgufKey{"attention.layer_norm_rms_epsilon", "rms_norm_eps", GgufKey::Kind::real}});

/// Positions that a row sees, in the layers that have a window; 0: all.
inline constexpr GgufKey kGgufWindowKey{"attention.sliding_window", "sliding_window", GgufKey::Kind::integer,
                                        GgufKey::Need::optional};

/// Factors of rotary frequencies: the configuration says them.
inline constexpr std::array<std::string_view, 3> kGgufRopeFactors = {"rope_freqs.weight", "rope_factors_long.weight",
                                                                     "rope_factors_short.weight"};

/// llama.cpp's names, the same for all architectures: with q, k and v in a tensor each, gate and up too.
inline constexpr std::array kGgufSites = {
    WeightSite{.role = TensorRole::embed, .module = "token_embd"},
    WeightSite{.role = TensorRole::position, .module = "position_embd"},
    WeightSite{.role = TensorRole::attn_norm, .module = "blk.{}.attn_norm"},
    WeightSite{.role = TensorRole::q, .module = "blk.{}.attn_q"},
    WeightSite{.role = TensorRole::k, .module = "blk.{}.attn_k"},
    WeightSite{.role = TensorRole::v, .module = "blk.{}.attn_v"},
    WeightSite{.role = TensorRole::q_norm, .module = "blk.{}.attn_q_norm", .head_rows = true},
    WeightSite{.role = TensorRole::k_norm, .module = "blk.{}.attn_k_norm", .head_rows = true},
    WeightSite{.role = TensorRole::o, .module = "blk.{}.attn_output"},
    WeightSite{.role = TensorRole::attn_out_norm, .module = "blk.{}.post_attention_norm"},
    WeightSite{.role = TensorRole::mlp_norm, .module = "blk.{}.ffn_norm"},
    WeightSite{.role = TensorRole::gate, .module = "blk.{}.ffn_gate"},
    WeightSite{.role = TensorRole::up, .module = "blk.{}.ffn_up"},
    WeightSite{.role = TensorRole::down, .module = "blk.{}.ffn_down"},
    WeightSite{.role = TensorRole::mlp_out_norm, .module = "blk.{}.post_ffw_norm"},
    WeightSite{.role = TensorRole::final_norm, .module = "output_norm"},
    WeightSite{.role = TensorRole::head, .module = "output"},
};

/// q, k and v stacked in one tensor, gate and up, where there is a gate, in another.
inline constexpr auto kGgufStackedSites = [] {
  using enum TensorRole;
  auto sites = kGgufSites;
  for (WeightSite& site : sites) {
    const bool in_qkv = site.role == q || site.role == k || site.role == v;
    if (!in_qkv && site.role != gate && site.role != up) continue;
    site.module = in_qkv ? "blk.{}.attn_qkv" : "blk.{}.ffn_up";
    site.rows = RowOrder::stacked;
  }
  return sites;
}();

/// The tables of these; by pairs: rows of q and k go by pairs of rotary dimensions.
const WeightTable& gguf_table(const ModelSpec& spec);
const WeightTable& gguf_table_by_pairs(const ModelSpec& spec);
const WeightTable& gguf_table_stacked(const ModelSpec& spec);

}  // namespace paceline
