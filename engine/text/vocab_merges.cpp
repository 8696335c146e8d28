// Reader of GPT-2's original pair of files, vocab.json and merges.txt, with what may lie beside them:
// added_tokens.json {text: id}, and tokenizer_config.json (bos/eos/unk/pad tokens, add_bos_token).

#include <algorithm>
#include <set>
#include <utility>

#include "engine/text/tokenizer_parts.h"
#include "engine/text/utf8.h"
#include "engine/util/json_io.h"
#include "engine/util/user_file.h"
#include "kernels/error.h"

namespace paceline {

namespace {

using nlohmann::json;

void read_ids(const std::filesystem::path& path, bool added, TokenizerSource& source) {
  const json ids = read_json_file(path, ExitCode::model_file, kTokenizerJsonLimits);
  if (!ids.is_object())
    fail(ExitCode::model_file, "{}: expected an object from token to id, found {}", path.string(), short_dump(ids));
  for (const auto& [text, id] : ids.items()) {
    const std::string where = path.filename().string() + "[" + json_literal(text) + "]";
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
      fail(ExitCode::model_file, "{}: {}: expected an id in [0, 2^31), found {}", source.file, where, short_dump(id));
    source.entries.push_back({.text = text, .id = id.get<int64_t>(), .where = where, .added = added});
  }
}

/// A first line "#version: 0.2" and blank lines are skipped; every other line is "left right".
void read_merges_txt(const std::filesystem::path& path, TokenizerSource& source) {
  const std::string text = read_user_file(path, {.max_bytes = kTokenizerJsonLimits.max_bytes});
  if (!utf8_valid(text)) fail(ExitCode::model_file, "{}: not UTF-8", path.string());
  int line_number = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = std::min(text.find('\n', pos), text.size());
    std::string_view line = std::string_view(text).substr(pos, end - pos);
    pos = end + 1;
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos)
      fail(ExitCode::model_file, "{}:{}: expected two tokens with one blank between, found {}", path.string(),
           line_number, json_literal(line));
    source.merges.push_back({std::string(line.substr(0, blank)), std::string(line.substr(blank + 1))});
  }
}

/// A token in tokenizer_config.json is a string or an object with "content".
std::string token_text(const json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_object()) return {};
  const auto content = found->find("content");
  return content != found->end() && content->is_string() ? content->get<std::string>() : std::string();
}

}  // namespace

TokenizerSource read_vocab_merges(const std::filesystem::path& folder) {
  std::error_code error;
  TokenizerSource source;
  source.file = folder.string();
  source.merges_entry = "merges.txt";
  read_ids(folder / "vocab.json", false, source);
  std::set<std::string> special{"<|endoftext|>"};  // GPT-2 itself has no file that says so
  if (const auto added = folder / "added_tokens.json"; std::filesystem::exists(added, error)) {
    const size_t first = source.entries.size();
    read_ids(added, true, source);
    for (size_t i = first; i < source.entries.size(); ++i) special.insert(source.entries[i].text);
  }
  read_merges_txt(folder / "merges.txt", source);

  std::string bos_text;
  if (const auto path = folder / "tokenizer_config.json"; std::filesystem::exists(path, error)) {
    const json config = read_json_file(path, ExitCode::model_file);
    if (!config.is_object())
      fail(ExitCode::model_file, "{}: expected an object, found {}", path.string(), short_dump(config));
    for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"})
      special.insert(token_text(config, key));
    const auto add_bos = config.find("add_bos_token");
    if (add_bos != config.end() && add_bos->is_boolean() && add_bos->get<bool>())
      bos_text = token_text(config, "bos_token");
  }
  const size_t num_entries = source.entries.size();
  for (size_t i = 0; i < num_entries; ++i) {
    Vocabulary::Entry entry = source.entries[i];
    if (entry.text.empty() || !special.contains(entry.text)) continue;
    source.added.push_back({.content = entry.text, .id = static_cast<int32_t>(entry.id), .special = true});
    if (entry.text == bos_text) source.prefix_ids.push_back(static_cast<int32_t>(entry.id));
    entry.added = true;
    source.entries.push_back(std::move(entry));
  }
  source.pre_tokenizer = gpt2_pre_tokenizer();
  return source;
}

}  // namespace paceline
