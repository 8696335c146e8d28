#pragma once
// What GGUF metadata says of a model, as a config.json, and where the tensors of a GGUF file belong. Keys and tensor
// names are those of llama.cpp (gguf-py/gguf/constants.py).

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/model/model_spec.h"
#include "engine/model/weight_table.h"
#include "engine/util/gguf.h"

namespace paceline {

/// The config.json of the checkpoint that the file was made from: parse_model_spec reads it, and so do other programs.
/// Its dtype is bfloat16, which packed values are widened to unless float32 is asked for.
/// Throws Error(model_file) naming file and key: an architecture that no family has (with the list), a key that is
/// missing or no number, experts, factors of frequencies that cannot be.
nlohmann::json gguf_config(const GgufFile& file);

/// Where that model's tensors lie in the file. REQUIRES gguf_config(file); static storage.
const WeightTable& gguf_table(const GgufFile& file);

/// load_model_spec of a GGUF file. Throws what gguf_config and parse_model_spec throw.
ModelSpec gguf_spec(const GgufFile& file);

}  // namespace paceline
