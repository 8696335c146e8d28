#pragma once
// What lies beside a tokenizer's own file and says more about its tokens: tokenizer_config.json, added_tokens.json and
// config.json of a Hugging Face folder. All may be absent.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/tokenizer/token_table.h"

namespace paceline {

/// Puts the added tokens of `folder` into the table (behind its own, or over them), and which of them begin and end a
/// text. Throws Error(model_file) for a broken file and for ids that leave a gap.
void read_tokenizer_config(const std::filesystem::path& folder, TokenTable& table);

/// "model_type" of config.json; nullopt without the file, empty where the file does not say it.
std::optional<std::string> model_type_of(const std::filesystem::path& folder);

/// A row of tokenizer_config.json's "added_tokens_decoder".
struct ConfiguredToken {
  int64_t id = 0;
  std::string text;
  bool special = false;
};

/// By ascending id. `file` is named in messages. Throws Error(model_file).
std::vector<ConfiguredToken> added_tokens_decoder(const nlohmann::json& config, const std::string& file);

/// A token in tokenizer_config.json is a string or an object with "content"; empty: there is none.
std::string config_token(const nlohmann::json& config, const char* key);

}  // namespace paceline
