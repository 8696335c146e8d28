#pragma once
// The list of model families. A new one is a file family_NAME.cpp, with a parse function and a table of where its
// weights lie, and a word in family_list.cpp.

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_spec.h"
#include "engine/model/model_spec_reader.h"

namespace paceline {

struct GgufFamily;  // gguf_family.h

struct Family {
  std::string_view architecture;            // as in config.json: "LlamaForCausalLM"
  std::string_view name;                    // ModelSpec::family
  ModelSpec (*parse)(const ConfigReader&);  // all of ModelSpec except the token ids and the dtype
  const GgufFamily* gguf = nullptr;         // its GGUF files, static storage; null: none are read
};

const std::vector<Family>& families();

/// Null when the architecture is not known.
const Family* find_family(std::string_view architecture);

/// "LlamaForCausalLM, MistralForCausalLM, …"
std::string supported_architectures();

/// " (the nearest is Qwen2ForCausalLM)" for "Qwen2MoeForCausalLM": the one whose name without its last words is
/// nearest, or begins that of `architecture`; "" where none is near.
std::string nearest_architecture(std::string_view architecture);

}  // namespace paceline
