// Which file of a model is its tokenizer.

#include "engine/text/pre_tokenizer_table.h"
#include "engine/tokenizer/gguf_tokenizer.h"
#include "engine/tokenizer/tokenizer_config.h"
#include "engine/tokenizer/tokenizer_parts.h"
#include "engine/util/json_io.h"
#include "engine/util/user_file.h"
#include "kernels/error.h"

namespace paceline {

namespace {

constexpr const char* kPreSetting = "engine.target.pre (--pre)";

/// The name that a tiktoken file in `folder` is cut by: these come with Llama 3 as well.
std::string pre_of_tiktoken(const std::filesystem::path& file, const std::string& pre) {
  if (!pre.empty()) return pre;
  const std::string model_type = model_type_of(file.parent_path()).value_or("");
  if (model_type == "llama") return "llama-bpe";
  if (const std::string_view name = pre_tokenizer_of_family(model_type); !name.empty()) return std::string(name);
  fail(ExitCode::model_file, "{}: nothing says how text is cut (model_type {} of config.json); set {} to one of {}",
       file.string(), json_literal(model_type), kPreSetting, pre_tokenizer_names());
}

TokenizerSource read_model_file(const std::filesystem::path& file, const std::string& pre) {
  const std::string bytes = read_user_file(file, {.max_bytes = kTokenizerJsonLimits.max_bytes});
  TokenTable table;
  if (is_tiktoken_model(bytes)) {
    table = read_tiktoken_model(bytes, file.string());
    table.pre = pre_of_tiktoken(file, pre);
  } else {
    if (!pre.empty())
      fail(ExitCode::usage, "{}: {} is {}, but SentencePiece's tokens say how text is cut; leave it out", file.string(),
           kPreSetting, json_literal(pre));
    table = read_sentencepiece_model(bytes, file.string());
  }
  read_tokenizer_config(file.parent_path(), table);
  return read_token_table(std::move(table));
}

TokenizerSource read_json_tokenizer(const std::filesystem::path& file, const std::string& pre) {
  if (!pre.empty())
    fail(ExitCode::usage, "{}: {} is {}, but the file says how text is cut; leave it out", file.string(), kPreSetting,
         json_literal(pre));
  return read_tokenizer_json(file);
}

TokenizerSource read_gguf_tokenizer(const std::filesystem::path& file, const std::string& pre) {
  TokenTable table = gguf_token_table(GgufFile(file));
  if (!pre.empty()) {
    if (table.spelling == TokenSpelling::metaspace)
      fail(ExitCode::usage, "{}: {} is {}, but its tokens say how text is cut; leave it out", file.string(),
           kPreSetting, json_literal(pre));
    table.pre = pre;
  }
  if (table.spelling == TokenSpelling::byte_level && table.pre.empty())
    fail(ExitCode::model_file, "{}: tokenizer.ggml.pre is missing: nothing says how text is cut; set {} to one of {}",
         file.string(), kPreSetting, pre_tokenizer_names());
  return read_token_table(std::move(table));
}

TokenizerSource read_tokenizer(const std::filesystem::path& path, const std::string& pre) {
  if (is_gguf_path(path)) return read_gguf_tokenizer(path, pre);
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    const auto ending = path.extension();
    if (ending == ".model" || ending == ".tiktoken") return read_model_file(path, pre);
    return read_json_tokenizer(path, pre);
  }
  const auto json = path / "tokenizer.json", model = path / "tokenizer.model";
  if (std::filesystem::exists(json, error)) return read_json_tokenizer(json, pre);
  if (std::filesystem::exists(path / "vocab.json", error) && std::filesystem::exists(path / "merges.txt", error))
    return read_vocab_merges(path, pre);
  if (std::filesystem::exists(model, error)) return read_model_file(model, pre);
  fail(ExitCode::model_file, "{}: no tokenizer: expected tokenizer.json, vocab.json and merges.txt, or tokenizer.model",
       path.string());
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& path, const TokenizerLoad& options) {
  return std::make_shared<const Tokenizer>(assemble(read_tokenizer(path, options.pre)));
}

}  // namespace paceline
