#include "engine/tokenizer/gguf_tokenizer.h"

#include <limits>
#include <utility>

#include "engine/util/json_io.h"

namespace paceline {
namespace {

std::string tokenizer_key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

/// The value of tokenizer.ggml.<name>, in the form that `read` makes of it; `expected` in words. Empty: no such key.
template <class Read>
auto read_entry(const GgufFile& file, std::string_view name, bool is_array, const char* expected, const Read& read)
    -> decltype(read(std::declval<const GgufValue&>())) {
  const GgufValue* const value = file.find(tokenizer_key(name));
  if (!value) return {};
  auto result = read(*value);
  if (value->is_array() != is_array || result.size() != value->count())
    fail(ExitCode::model_file, "{}: {}: found {}, expected {}", file.path().string(), tokenizer_key(name),
         value->text(), expected);
  return result;
}

std::vector<std::string_view> texts(const GgufFile& file, std::string_view name) {
  return read_entry(file, name, true, "an array of strings", [](const GgufValue& value) { return value.strings(); });
}

std::string text(const GgufFile& file, std::string_view name) {
  const auto found = read_entry(file, name, false, "a string", [](const GgufValue& value) { return value.strings(); });
  return found.empty() ? std::string() : std::string(found[0]);
}

std::optional<bool> flag(const GgufFile& file, std::string_view name) {
  const GgufValue* const value = file.find(tokenizer_key(name));
  if (!value) return std::nullopt;
  if (value->is_array() || value->kind() != GgufValue::Kind::boolean)
    fail(ExitCode::model_file, "{}: {}: found {}, expected true or false", file.path().string(), tokenizer_key(name),
         value->text());
  return value->is_true();
}

/// An id below `num_tokens`. Some files write 2^32 - 1 or -1 for "none".
std::optional<int32_t> token_id(const GgufFile& file, std::string_view name, size_t num_tokens) {
  const auto found =
      read_entry(file, name, false, "a token id", [](const GgufValue& value) { return value.integers(); });
  if (found.empty() || found[0] == -1 || found[0] == int64_t(std::numeric_limits<uint32_t>::max())) return std::nullopt;
  if (found[0] < 0 || uint64_t(found[0]) >= num_tokens)
    fail(ExitCode::model_file, "{}: {}: found {}, expected an id below {}, the number of tokens", file.path().string(),
         tokenizer_key(name), found[0], num_tokens);
  return int32_t(found[0]);
}

TokenSpelling spelling_of(const GgufFile& file) {
  const std::string model = text(file, "model");
  if (model == "gpt2") return TokenSpelling::byte_level;
  if (model == "llama") return TokenSpelling::metaspace;
  const char* const kind = model == "t5" ? " (Unigram)" : model == "bert" ? " (WordPiece)" : "";
  fail(ExitCode::model_file, "{}: {}: found {}{}, expected \"gpt2\" (byte-level BPE) or \"llama\" (SentencePiece BPE)",
       file.path().string(), tokenizer_key("model"), model.empty() ? "nothing" : json_literal(model), kind);
}

std::vector<TokenKind> kinds_of(const GgufFile& file) {
  std::vector<TokenKind> kinds;
  for (const int64_t number : read_entry(file, "token_type", true, "an array of integers",
                                         [](const GgufValue& value) { return value.integers(); })) {
    if (number < int64_t(TokenKind::normal) || number > int64_t(TokenKind::byte))
      fail(ExitCode::model_file, "{}: {}[{}]: found {}, expected {} to {}", file.path().string(),
           tokenizer_key("token_type"), kinds.size(), number, int(TokenKind::normal), int(TokenKind::byte));
    kinds.push_back(TokenKind(number));
  }
  return kinds;
}

void check_length(const GgufFile& file, std::string_view name, size_t found, size_t num_tokens) {
  if (found != 0 && found != num_tokens)
    fail(ExitCode::model_file, "{}: {} holds {} elements for {} tokens", file.path().string(), tokenizer_key(name),
         found, num_tokens);
}

}  // namespace

TokenTable gguf_token_table(const GgufFile& file) {
  TokenTable table;
  table.file = file.path().string();
  table.spelling = spelling_of(file);
  for (const std::string_view token : texts(file, "tokens")) table.tokens.emplace_back(token);
  const size_t num_tokens = table.tokens.size();
  if (num_tokens == 0 || num_tokens > size_t(std::numeric_limits<int32_t>::max()))
    fail(ExitCode::model_file, "{}: {}: {} tokens; expected 1 to 2^31 - 1", table.file, tokenizer_key("tokens"),
         num_tokens);
  table.kinds = kinds_of(file);
  check_length(file, "token_type", table.kinds.size(), num_tokens);
  if (table.spelling == TokenSpelling::metaspace) {
    for (const double score :
         read_entry(file, "scores", true, "an array of numbers", [](const GgufValue& value) { return value.reals(); }))
      table.scores.push_back(float(score));
    check_length(file, "scores", table.scores.size(), num_tokens);
  } else {
    for (const std::string_view merge : texts(file, "merges")) table.merges.emplace_back(merge);
    table.pre = text(file, "pre");
  }
  table.bos_id = token_id(file, "bos_token_id", num_tokens);
  table.eos_id = token_id(file, "eos_token_id", num_tokens);
  table.unknown_id = token_id(file, "unknown_token_id", num_tokens);
  table.add_bos = flag(file, "add_bos_token");
  table.add_eos = flag(file, "add_eos_token");
  table.add_space_prefix = flag(file, "add_space_prefix").value_or(true);
  table.collapse_white_space = flag(file, "remove_extra_whitespaces").value_or(false);
  return table;
}

std::optional<std::string> gguf_chat_template(const GgufFile& file) {
  const GgufValue* const value = file.find("tokenizer.chat_template");
  if (!value) return std::nullopt;
  if (value->is_array() || value->strings().empty())
    fail(ExitCode::model_file, "{}: tokenizer.chat_template: found {}, expected a string", file.path().string(),
         value->text());
  return std::string(value->strings()[0]);
}

nlohmann::ordered_json gguf_special_tokens(const GgufFile& file) {
  const std::vector<std::string_view> tokens = texts(file, "tokens");
  nlohmann::ordered_json special = nlohmann::ordered_json::object();
  for (const auto& [name, key] :
       {std::pair{"bos_token", "bos_token_id"}, std::pair{"eos_token", "eos_token_id"},
        std::pair{"unk_token", "unknown_token_id"}, std::pair{"pad_token", "padding_token_id"},
        std::pair{"sep_token", "seperator_token_id"}, std::pair{"mask_token", "mask_token_id"}})
    if (const auto id = token_id(file, key, tokens.size())) special[name] = std::string(tokens[size_t(*id)]);
  return special;
}

}  // namespace paceline
