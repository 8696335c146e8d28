#pragma once
// The list of model families. A new one is a parse function and a table of weights, entered in kFamilies
// (families.cpp).

#include <span>
#include <string>
#include <string_view>

#include "engine/model/model_spec.h"
#include "engine/model/model_spec_reader.h"
#include "engine/model/weight_table.h"

namespace paceline {

struct Family {
  std::string_view architecture;            // as in config.json: "LlamaForCausalLM"
  std::string_view name;                    // ModelSpec::family
  ModelSpec (*parse)(const ConfigReader&);  // fields of config.json except the token ids and the dtype
  const WeightTable* table;
};

std::span<const Family> families();

/// Null when the architecture is not known.
const Family* find_family(std::string_view architecture);

/// "LlamaForCausalLM, MistralForCausalLM, …"
std::string supported_architectures();

}  // namespace paceline
