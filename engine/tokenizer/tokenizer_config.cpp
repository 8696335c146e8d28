#include "engine/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <charconv>

#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

using nlohmann::json;

json read_object(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return json::object();
  json object = read_json_file(path, ExitCode::model_file);
  if (!object.is_object())
    fail(ExitCode::model_file, "{}: expected an object, found {}", path.string(), short_dump(object));
  return object;
}

int64_t id_of_key(const std::string& key, const std::string& where) {
  int64_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0)
    fail(ExitCode::model_file, "{}: expected an id as key, found {}", where, json_literal(key));
  return id;
}

void put_token(const ConfiguredToken& token, const std::string& file, TokenTable& table) {
  if (table.kinds.empty()) table.kinds.assign(table.tokens.size(), TokenKind::normal);
  if (static_cast<uint64_t>(token.id) > table.tokens.size())
    fail(ExitCode::model_file, "{}: added token {}: id {}, but the ids before it end at {}; ids must have no gaps",
         file, json_literal(token.text), token.id, table.tokens.size());
  const auto index = static_cast<size_t>(token.id);
  if (index == table.tokens.size()) {
    table.tokens.emplace_back();
    table.kinds.push_back(TokenKind::normal);
    if (!table.scores.empty()) table.scores.push_back(0);
  }
  table.tokens[index] = token.text;
  if (table.kinds[index] != TokenKind::unknown)
    table.kinds[index] = token.special ? TokenKind::control : TokenKind::user_defined;
}

std::optional<int32_t> find_token(const TokenTable& table, const std::string& text) {
  const auto found = std::find(table.tokens.begin(), table.tokens.end(), text);
  if (text.empty() || found == table.tokens.end()) return std::nullopt;
  return static_cast<int32_t>(found - table.tokens.begin());
}

std::optional<bool> config_flag(const json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

}  // namespace

std::vector<ConfiguredToken> added_tokens_decoder(const json& config, const std::string& file) {
  std::vector<ConfiguredToken> tokens;
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder == config.end() || decoder->is_null()) return tokens;
  const std::string where = file + ": added_tokens_decoder";
  if (!decoder->is_object())
    fail(ExitCode::model_file, "{}: expected an object, found {}", where, short_dump(*decoder));
  for (const auto& [key, token] : decoder->items()) {
    const auto content = token.is_object() ? token.find("content") : token.end();
    if (!token.is_object() || content == token.end() || !content->is_string())
      fail(ExitCode::model_file, "{}[{}]: expected a string \"content\", found {}", where, json_literal(key),
           short_dump(token));
    tokens.push_back(
        {id_of_key(key, where), content->get<std::string>(), config_flag(token, "special").value_or(false)});
  }
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return tokens;
}

std::string config_token(const json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_object()) return {};
  const auto content = found->find("content");
  return content != found->end() && content->is_string() ? content->get<std::string>() : std::string();
}

void read_tokenizer_config(const std::filesystem::path& folder, TokenTable& table) {
  const auto config_path = folder / "tokenizer_config.json", added_path = folder / "added_tokens.json";
  const json config = read_object(config_path);
  for (const ConfiguredToken& token : added_tokens_decoder(config, config_path.string()))
    put_token(token, config_path.string(), table);
  std::vector<ConfiguredToken> added;
  const json added_ids = read_object(added_path);
  for (const auto& [text, id] : added_ids.items()) {
    const auto number = integer_of<int32_t>(id, 0);
    if (!number)
      fail(ExitCode::model_file, "{}: {}: expected an id in [0, 2^31), found {}", added_path.string(),
           json_literal(text), short_dump(id));
    added.push_back({*number, text, true});
  }
  std::sort(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  for (const ConfiguredToken& token : added) {
    const auto index = static_cast<size_t>(token.id);  // the decoder knows better what is special
    if (index >= table.tokens.size() || table.tokens[index] != token.text) put_token(token, added_path.string(), table);
  }

  if (const auto bos = find_token(table, config_token(config, "bos_token"))) table.bos_id = bos;
  if (const auto eos = find_token(table, config_token(config, "eos_token"))) table.eos_id = eos;
  if (const auto flag = config_flag(config, "add_bos_token")) table.add_bos = flag;
  if (const auto flag = config_flag(config, "add_eos_token")) table.add_eos = flag;
  // Transformers' LlamaTokenizer: "legacy": false puts a blank before the text, and none behind special tokens.
  if (config_flag(config, "legacy") == false) table.space_prefix_until = SpanPlace::text_start;
}

std::optional<std::string> model_type_of(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const json config = read_object(path);
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() ? type->get<std::string>() : std::string();
}

}  // namespace paceline
