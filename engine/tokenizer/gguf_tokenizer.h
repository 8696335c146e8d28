#pragma once
// The tokenizer and the chat template in the metadata of a GGUF file: tokenizer.ggml.* and tokenizer.chat_template.

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/tokenizer/token_table.h"
#include "engine/util/gguf.h"

namespace paceline {

/// Throws Error(model_file) naming file and key: no tokens, one of another type than it must be, arrays of other
/// lengths, a kind of tokenizer that is not supported (Unigram and WordPiece are named).
TokenTable gguf_token_table(const GgufFile& file);

/// Empty where the file has none.
std::optional<std::string> gguf_chat_template(const GgufFile& file);

/// What chat templates know as variables: {"bos_token": "<s>", "eos_token": …}.
nlohmann::ordered_json gguf_special_tokens(const GgufFile& file);

}  // namespace paceline
