// Reader of GPT-2's original pair of files, vocab.json and merges.txt, with what may lie beside them:
// added_tokens.json {text: id}, and tokenizer_config.json (bos/eos/unk/pad tokens, add_bos_token).

#include <algorithm>
#include <map>
#include <utility>

#include "engine/text/pre_tokenizer_table.h"
#include "engine/text/utf8.h"
#include "engine/tokenizer/tokenizer_config.h"
#include "engine/tokenizer/tokenizer_parts.h"
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
    const auto number = integer_of<int32_t>(id, 0);
    if (!number)
      fail(ExitCode::model_file, "{}: {}: expected an id in [0, 2^31), found {}", source.file, where, short_dump(id));
    source.entries.push_back({.text = text, .id = *number, .where = where, .added = added});
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

/// The name that the pieces are cut by; GPT-2's own folder has no config.json.
std::string pre_of_vocab(const std::filesystem::path& folder, const std::string& pre) {
  if (!pre.empty()) return pre;
  const auto model_type = model_type_of(folder);
  if (!model_type) return "gpt-2";
  if (const std::string_view name = pre_tokenizer_of_family(*model_type); !name.empty()) return std::string(name);
  fail(ExitCode::model_file,
       "{}: vocab.json and merges.txt do not say how text is cut, nor does model_type {} of config.json; set "
       "engine.target.pre (--pre) to one of {}",
       folder.string(), json_literal(*model_type), pre_tokenizer_names());
}

}  // namespace

TokenizerSource read_vocab_merges(const std::filesystem::path& folder, const std::string& pre) {
  std::error_code error;
  TokenizerSource source;
  source.file = folder.string();
  source.merges_entry = "merges.txt";
  read_ids(folder / "vocab.json", false, source);
  std::map<std::string, bool> added;  // and whether it is special
  if (const auto path = folder / "added_tokens.json"; std::filesystem::exists(path, error)) {
    const size_t first = source.entries.size();
    read_ids(path, true, source);
    for (size_t i = first; i < source.entries.size(); ++i) added[source.entries[i].text] = true;
  }
  read_merges_txt(folder / "merges.txt", source);

  std::string bos_text;
  bool names_all = false;  // what GPT-2, which has no file that says so, calls <|endoftext|>
  if (const auto path = folder / "tokenizer_config.json"; std::filesystem::exists(path, error)) {
    const json config = read_json_file(path, ExitCode::model_file);
    if (!config.is_object())
      fail(ExitCode::model_file, "{}: expected an object, found {}", path.string(), short_dump(config));
    for (const ConfiguredToken& token : added_tokens_decoder(config, path.string())) {
      source.entries.push_back({.text = token.text, .id = token.id, .where = path.string(), .added = true});
      added[token.text] = token.special;
    }
    for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"})
      added[config_token(config, key)] = true;
    names_all = !config_token(config, "bos_token").empty() && !config_token(config, "eos_token").empty() &&
                !config_token(config, "unk_token").empty();
    const auto add_bos = config.find("add_bos_token");
    if (add_bos != config.end() && add_bos->is_boolean() && add_bos->get<bool>())
      bos_text = config_token(config, "bos_token");
  }
  if (!names_all) added.emplace("<|endoftext|>", true);
  const size_t num_entries = source.entries.size();
  for (size_t i = 0; i < num_entries; ++i) {
    Vocabulary::Entry entry = source.entries[i];
    const auto found = added.find(entry.text);
    if (entry.text.empty() || found == added.end()) continue;
    const bool is_special = found->second;
    added.erase(found);  // an added token may repeat an entry of the vocabulary
    source.added.push_back({.content = entry.text, .id = static_cast<int32_t>(entry.id), .special = is_special});
    if (entry.text == bos_text) source.prefix_ids.push_back(static_cast<int32_t>(entry.id));
    entry.added = true;
    source.entries.push_back(std::move(entry));
  }
  const NamedPreTokenizer& row = named_pre_tokenizer(pre_of_vocab(folder, pre), source.file);
  source.pre_tokenizer = make_pre_tokenizer(row);
  source.ignore_merges = row.whole_pieces;
  if (row.composes) source.normalizer = Normalizer::nfc();
  return source;
}

}  // namespace paceline
