#pragma once
// EAGLE-3 heads with random weights for any target, in each of the layouts that files have.

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/model/model_spec.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline::test {

struct HeadLayout {
  std::string name;
  std::string architecture = "LlamaForCausalLMEagle3";
  std::string layer = "midlayer.";  // or "layers.0."
  std::string prefix = "";          // or "model."
  bool is_nested = false;           // the layer's sizes in transformer_layer_config
  bool left_layers = false;         // target_layer_ids: the layers that the states leave
  int draft_vocab_size = 0;         // 0: the target's, without d2t
  bool absolute_ids = false;        // d2t holds tokens, not distances
  bool head_norms = false;
  bool attention_bias = false;
  bool own_embedding = false;
  bool own_head = true;
  nlohmann::json flags = nlohmann::json::object();  // norm_output, fc_norm, ...
};

inline void PrintTo(const HeadLayout& layout, std::ostream* out) { *out << layout.name; }

/// Those of SpecForge, speculators, DeepSpec and ModelOpt, and each flag somewhere.
std::vector<HeadLayout> head_layouts();

/// The files' contents: what a test may damage before it writes them.
struct HeadFiles {
  nlohmann::json config;
  std::vector<TestTensor> tensors;

  TestTensor& tensor(const std::string& name);
  void write(const std::filesystem::path& folder) const;
};

/// Reads layers 1, num_layers - 1 and num_layers (as those entered).
HeadFiles random_head(const ModelSpec& target, const HeadLayout& layout);

}  // namespace paceline::test
