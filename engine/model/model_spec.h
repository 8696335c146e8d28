#pragma once
// Every difference between families that reaches the forward pass, as enums and numbers. A family is one parse
// function (families.cpp) and one table of where its weights lie (weight_table.h); the forward pass never asks for a
// name.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "kernels/backend.h"

namespace paceline {

struct WeightTable;  // weight_table.h

enum class RopeScaling : uint8_t { none, linear, dynamic, llama3, yarn, longrope };

/// Rotary positions (HF modeling_rope_utils): the table of inverse frequencies is made by rope_inv_freq().
struct RopeSpec {
  RopeLayout layout = RopeLayout::half_split;
  int rotary_dim = 0;  // <= head_dim
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int original_max_position = 0;
  double beta_fast = 32.0, beta_slow = 1.0;  // yarn: turns within original_max_position that bound the blended pairs
  bool truncate = true;                      // yarn: those bounds are whole pairs
  double attention_factor = 1.0;             // yarn, longrope: multiplies turned queries and keys
  std::vector<double> short_factor, long_factor;  // longrope: [rotary_dim / 2]

  bool operator==(const RopeSpec&) const = default;
};

/// All norms of the residual are of one kind.
struct NormSpec {
  NormKind kind = NormKind::rms;
  float eps = 1e-5f;
  bool has_weight = true;  // false: not affine
  bool has_bias = false;   // of layer norms

  bool operator==(const NormSpec&) const = default;
};

/// Where a layer's norms stand. before: x += f(norm(x)). after_sum: x = norm(x + f(x)). around: x += norm'(f(norm(x))),
/// whose branches have no bias of their output.
enum class NormPlace : uint8_t { before, after_sum, around };

/// parallel: x += attention(norm(x)) + mlp(norm'(x)), added in this order; only with norms before.
enum class BlockLayout : uint8_t { sequential, parallel };

/// What turns queries and keys: nothing, ModelSpec::rope, or ModelSpec::window_rope.
enum class RopeUse : uint8_t { none, all, window };

/// Norms of query and key heads, ahead of the rotation, of the kind of ModelSpec::norm without bias: with one weight
/// for all heads [head_dim], or one for each.
enum class HeadNorm : uint8_t { none, shared, each };

struct AttentionSpec {
  RopeUse rope = RopeUse::all;
  HeadNorm head_norm = HeadNorm::none;
  float scale = 0.0f;         // of the scores
  float softcap = 0.0f;       // scores become softcap * tanh(score / softcap); 0: they stay
  int32_t window = 0;         // a row sees the last `window` positions, itself among them; 0: all
  bool has_bias = false;      // q, k, v
  bool has_out_bias = false;  // o

  bool operator==(const AttentionSpec&) const = default;
};

enum class MlpKind : uint8_t { gated, plain };

struct MlpSpec {
  MlpKind kind = MlpKind::gated;
  Activation activation = Activation::silu;
  bool has_bias = false;  // of all its products

  bool operator==(const MlpSpec&) const = default;
};

struct LayerSpec {
  NormPlace norms = NormPlace::before;
  BlockLayout block = BlockLayout::sequential;
  bool shares_norm = false;  // parallel: one norm serves both branches
  AttentionSpec attention;
  MlpSpec mlp;

  bool operator==(const LayerSpec&) const = default;
};

/// Learned positions: row position + offset of a table is added to the embedding.
struct PositionTable {
  int rows = 0;  // 0: none
  int offset = 0;

  bool operator==(const PositionTable&) const = default;
};

struct ModelSpec {
  std::string family;  // "llama", …: for messages only
  int num_layers = 0;
  int hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int intermediate_size = 0;
  int vocab_size = 0;  // of the checkpoint's embedding; may exceed the tokenizer's
  int max_position = 0;
  int embedding_size =
      0;  // of the embedding and the head; other than hidden_size: projected on both sides; 0: the same
  NormSpec norm;
  bool has_final_norm = true;
  RopeSpec rope;
  RopeSpec window_rope;  // of layers with RopeUse::window
  PositionTable positions;
  float embed_scale = 1.0f;       // multiplies embeddings
  float logit_softcap = 0.0f;     // as AttentionSpec::softcap
  std::vector<LayerSpec> layers;  // [num_layers]
  bool tied_head = false;
  DType checkpoint_dtype = DType::f32;  // torch_dtype / dtype of config.json
  std::vector<int32_t> eos_token_ids;
  int32_t bos_token_id = -1;
  int32_t pad_token_id = -1;
  const WeightTable* table = nullptr;  // static storage; the loader's, never the forward pass's

  bool operator==(const ModelSpec&) const = default;  // every field

  const LayerSpec& layer(int index) const { return layers[size_t(index)]; }
  /// Columns of the embedding.
  int embed_cols() const { return embedding_size > 0 ? embedding_size : hidden_size; }
  bool projects_embedding() const { return embed_cols() != hidden_size; }
  bool any_layer(bool (*has)(const LayerSpec&)) const;

  /// embed_scale as a model of that storage type multiplies: in its own type, as it was trained.
  float embed_scale_in(DType dtype) const;

  /// Parameters that a plain forward pass holds (tied head counted once).
  int64_t num_parameters() const;
};

/// Reads config.json (and generation_config.json's eos ids, never its sampling values), or the metadata of a .gguf file
/// (gguf_model.h). Old and new Hugging Face keys
/// are understood (rope_theta + rope_scaling or rope_parameters; torch_dtype or dtype); auto_map is ignored with a
/// warning, quantization_config is refused.
/// Throws Error(usage) naming file, JSON path, value found and allowed range or supported list; Error(model_file) when
/// the file cannot be read, with the file to pass where the folder holds GGUF files in its place.
ModelSpec load_model_spec(const std::filesystem::path& model_dir);

/// The same for the content of a config.json; `source` names it in messages.
ModelSpec parse_model_spec(const nlohmann::json& config, const std::string& source);

/// Adds the eos ids of model_dir's generation_config.json, where there is one.
void add_generation_eos(const std::filesystem::path& model_dir, ModelSpec& spec);

}  // namespace paceline
