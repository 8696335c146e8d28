#pragma once
// What GGUF metadata says of a model, as a config.json, and where the tensors of a GGUF file belong: what all
// architectures share, and by families() (Family::gguf) what a family has of its own.

#include <nlohmann/json.hpp>

#include "engine/model/model_spec.h"
#include "engine/util/gguf.h"

namespace paceline {

/// The config.json of the checkpoint that the file was made from: parse_model_spec reads it, and so do other programs.
/// Its dtype is bfloat16, which packed values are widened to unless float32 is asked for.
/// Throws Error(model_file) naming file and key: an architecture that no family has (with the list), a key that is
/// missing or no number, experts, factors of frequencies that cannot be.
nlohmann::json gguf_config(const GgufFile& file);

/// load_model_spec of a GGUF file; its table says where that file's tensors lie. Throws what gguf_config and
/// parse_model_spec throw.
ModelSpec gguf_spec(const GgufFile& file);

}  // namespace paceline
