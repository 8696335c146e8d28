#pragma once
// An EAGLE-3 head as a folder holds it (Li et al. 2025): what its config.json and its tensors' names say, in the
// layouts of SpecForge and of the first releases, of speculators, of DeepSpec and of ModelOpt.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/model_spec.h"
#include "engine/weights/checkpoint.h"

namespace paceline {

/// One decoder layer over the embedding of a token beside what stands for the text before it (a feature), and a head
/// over its own vocabulary. h: hidden_size, t: target_hidden_size, n: number of taps.
struct Eagle3Spec {
  int hidden_size = 0;
  int target_hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int intermediate_size = 0;
  int vocab_size = 0;        // of the target
  int draft_vocab_size = 0;  // rows of its head; vocab_size: no reduced vocabulary
  int max_position = 0;
  float eps = 1e-6f;
  RopeSpec rope;
  Activation activation = Activation::silu;
  DType checkpoint_dtype = DType::bf16;

  /// The target's layers whose entering residual makes a feature (num_layers: what leaves the last), in the order in
  /// which `fc` takes them. Files may count the layer that it leaves instead.
  std::vector<int> taps;

  bool norm_before_fc = false;        // all taps side by side go through one norm, [n * t]
  bool fc_norm = false;               // each tap through one of its own, [t]
  bool norm_before_residual = false;  // the residual is hidden_norm of the feature, not the feature
  bool norm_output = false;           // EAGLE-3.1: what is drafted from next went through the last norm
  bool has_head_norms = false;        // q_norm and k_norm, as in Qwen3
  bool has_attention_bias = false;
  bool has_embedding = false;  // else the target's
  bool has_head = false;       // else the target's

  /// Reduced vocabulary: the target's token of each row of the head, [draft_vocab_size], increasing; else empty.
  std::vector<int32_t> ids;

  std::string prefix;  // before all names: "" or "model."
  std::string layer;   // of the layer's names, behind the prefix: "midlayer." or "layers.0."

  bool is_reduced() const { return draft_vocab_size != vocab_size; }
};

/// Whether config.json of `dir` names a kind of head that is no kind of model: for lists. False for what cannot be
/// read.
bool is_eagle3_folder(const std::filesystem::path& dir);

/// Reads `dir`, whose files are `source`, and compares it with the target. Throws Error(usage) for what
/// config.json says and this program does not know, or the target is not; Error(model_file) for tensors that are
/// missing or have another shape. Both name the file and what to do.
Eagle3Spec load_eagle3_spec(const std::filesystem::path& dir, const Checkpoint& source, const ModelSpec& target);

/// Eagle3Spec::ids. Files hold tokens as they are, or their distances from the row's number. data: of d2t. Throws
/// Error(model_file) where neither increases within the vocabulary.
std::vector<int32_t> draft_ids(const Eagle3Spec& spec, std::span<const int64_t> data, const std::string& label);

}  // namespace paceline
