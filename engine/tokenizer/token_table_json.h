#pragma once
// A tokenizer given as arrays, as the files of a Hugging Face folder.

#include <nlohmann/json.hpp>

#include "engine/tokenizer/token_table.h"

namespace paceline {

/// The content of tokenizer.json. Throws Error(model_file) for tokens that are no UTF-8 and an unknown `pre`.
nlohmann::ordered_json tokenizer_json(const TokenTable& table);

}  // namespace paceline
