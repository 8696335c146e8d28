#pragma once
// A shape file of a middle size, for tests of inflation.

#include <nlohmann/json.hpp>

#include "engine/model/model_shape.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline::test {

/// A shape of Llama keys; `changes` go over them.
inline nlohmann::json shape_json(const nlohmann::json& changes) {
  nlohmann::json shape = {{"parent", "small"},           {"architectures", {"LlamaForCausalLM"}},
                          {"num_hidden_layers", 8},      {"hidden_size", 256},
                          {"intermediate_size", 200},    {"num_attention_heads", 24},
                          {"num_key_value_heads", 6},    {"head_dim", 32},
                          {"vocab_size", 600},           {"max_position_embeddings", 4096},
                          {"rope_theta", 500000.0},      {"rms_norm_eps", 1e-5},
                          {"tie_word_embeddings", false}};
  shape.merge_patch(changes);
  return shape;
}

inline ModelShape shape_of(const nlohmann::json& changes) {
  const TempDir dir;
  write_file(dir / "middle.json", shape_json(changes).dump());
  return load_model_shape(dir / "middle.json");
}

}  // namespace paceline::test
