// Reader of Hugging Face tokenizer.json.

#include <algorithm>
#include <utility>

#include "engine/tokenizer/tokenizer_parts.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

using nlohmann::json;

/// Typed access with messages that name the entry.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}
  const std::string& file() const { return file_; }
  std::string at(const std::string& entry) const { return file_ + ": " + entry; }

  template <class... Args>
  [[noreturn]] void refuse(const std::string& entry, fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::model_file, "{}: {}: {}", file_, entry, fmt::format(format, std::forward<Args>(args)...));
  }

  /// The member, or null when it is absent.
  const json& member(const json& object, const std::string& entry, const char* key) const {
    static const json kNull;
    if (!object.is_object()) refuse(entry, "expected an object, found {}", short_dump(object));
    const auto found = object.find(key);
    return found == object.end() ? kNull : *found;
  }
  const std::string& string(const json& value, const std::string& entry) const {
    if (!value.is_string()) refuse(entry, "expected a string, found {}", short_dump(value));
    return value.get_ref<const std::string&>();
  }
  bool boolean(const json& value, const std::string& entry, bool fallback) const {
    if (value.is_null()) return fallback;
    if (!value.is_boolean()) refuse(entry, "expected true or false, found {}", short_dump(value));
    return value.get<bool>();
  }
  int64_t id(const json& value, const std::string& entry) const {
    const auto number = integer_of<int32_t>(value, 0);
    if (!number) refuse(entry, "expected an id in [0, 2^31), found {}", short_dump(value));
    return *number;
  }

 private:
  std::string file_;
};

void read_vocabulary(const Reader& reader, const json& vocab, TokenizerSource& source) {
  if (!vocab.is_object())
    reader.refuse("model.vocab", "expected an object from token to id, found {}", short_dump(vocab));
  source.entries.reserve(vocab.size());
  for (const auto& [text, id] : vocab.items()) {
    const auto number = integer_of<int32_t>(id, 0);
    if (!number)
      reader.refuse("model.vocab[" + json_literal(text) + "]", "expected an id in [0, 2^31), found {}", short_dump(id));
    source.entries.push_back({.text = text, .id = *number, .where = {}, .added = false});
  }
}

void read_merges(const Reader& reader, const json& merges, TokenizerSource& source) {
  source.merges_entry = "model.merges";
  if (!merges.is_array()) reader.refuse("model.merges", "expected an array, found {}", short_dump(merges));
  source.merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const json& merge = merges[i];
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const size_t blank = text.find(' ');
      if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos) {
        source.merges.push_back({text.substr(0, blank), text.substr(blank + 1)});
        continue;
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      source.merges.push_back({merge[0].get<std::string>(), merge[1].get<std::string>()});
      continue;
    }
    reader.refuse("model.merges[" + std::to_string(i) + "]", "expected \"a b\" or [\"a\", \"b\"], found {}",
                  short_dump(merge));
  }
}

void read_model(const Reader& reader, const json& model, TokenizerSource& source) {
  if (!model.is_object()) reader.refuse("model", "expected an object of type BPE, found {}", short_dump(model));
  const json& type = reader.member(model, "model", "type");
  // Files of before 2021 leave the type out; merges then tell that it is BPE.
  if (!type.is_null() && reader.string(type, "model.type") != "BPE")
    reader.refuse("model.type", "{} is not supported, expected BPE", short_dump(type));
  if (type.is_null() && !model.contains("merges")) reader.refuse("model", "has no \"merges\", expected type BPE");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json& value = reader.member(model, "model", key);
    if (!value.is_null() && !reader.string(value, std::string("model.") + key).empty())
      reader.refuse(std::string("model.") + key, "{} is not supported, expected null", short_dump(value));
  }
  const json& dropout = reader.member(model, "model", "dropout");
  if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0.0))
    reader.refuse("model.dropout", "{} makes the ids random, expected null", short_dump(dropout));
  source.byte_fallback = reader.boolean(reader.member(model, "model", "byte_fallback"), "model.byte_fallback", false);
  if (source.byte_fallback && source.spelling == TokenSpelling::byte_level)
    reader.refuse("model.byte_fallback", "true beside ByteLevel, which leaves no character without tokens");
  const json& unknown = reader.member(model, "model", "unk_token");
  if (!unknown.is_null()) source.unknown_token = reader.string(unknown, "model.unk_token");
  source.fuse_unknown = reader.boolean(reader.member(model, "model", "fuse_unk"), "model.fuse_unk", false);
  source.ignore_merges = reader.boolean(reader.member(model, "model", "ignore_merges"), "model.ignore_merges", false);
  read_vocabulary(reader, reader.member(model, "model", "vocab"), source);
  read_merges(reader, reader.member(model, "model", "merges"), source);
}

void read_added_tokens(const Reader& reader, const json& tokens, TokenizerSource& source) {
  if (tokens.is_null()) return;
  if (!tokens.is_array()) reader.refuse("added_tokens", "expected an array, found {}", short_dump(tokens));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string entry = "added_tokens[" + std::to_string(i) + "]";
    const auto flag = [&](const char* key, bool fallback) {
      return reader.boolean(reader.member(tokens[i], entry, key), entry + "." + key, fallback);
    };
    AddedToken token;
    token.content = reader.string(reader.member(tokens[i], entry, "content"), entry + ".content");
    if (token.content.empty() || token.content.size() > kMaxAddedTokenBytes)
      reader.refuse(entry + ".content", "{} bytes, expected 1 to {}", token.content.size(), kMaxAddedTokenBytes);
    token.id = static_cast<int32_t>(reader.id(reader.member(tokens[i], entry, "id"), entry + ".id"));
    token.special = flag("special", false);
    token.lstrip = flag("lstrip", false);
    token.rstrip = flag("rstrip", false);
    token.single_word = flag("single_word", false);
    token.normalized = flag("normalized", !token.special);
    source.entries.push_back({.text = token.content, .id = token.id, .where = entry, .added = true});
    source.added.push_back(std::move(token));
  }
}

/// TemplateProcessing for one text: special tokens, the text "A", special tokens.
void read_template(const Reader& reader, const json& processor, const std::string& entry, TokenizerSource& source) {
  const json& single = reader.member(processor, entry, "single");
  const json& special = reader.member(processor, entry, "special_tokens");
  if (!single.is_array()) reader.refuse(entry + ".single", "expected an array, found {}", short_dump(single));
  bool after_text = false;
  for (size_t i = 0; i < single.size(); ++i) {
    const std::string item_entry = entry + ".single[" + std::to_string(i) + "]";
    const json& item = single[i];
    if (!reader.member(item, item_entry, "Sequence").is_null()) {
      if (after_text) reader.refuse(item_entry, "the text appears twice");
      after_text = true;
      continue;
    }
    const json& token = reader.member(item, item_entry, "SpecialToken");
    const std::string& name = reader.string(reader.member(token, item_entry, "id"), item_entry + ".SpecialToken.id");
    const std::string ids_entry = entry + ".special_tokens[" + json_literal(name) + "]";
    const json& definition = reader.member(special, entry + ".special_tokens", name.c_str());
    const json& ids = reader.member(definition, ids_entry, "ids");
    if (!ids.is_array()) reader.refuse(ids_entry, "expected an array \"ids\", found {}", short_dump(ids));
    for (const json& id : ids)
      (after_text ? source.suffix_ids : source.prefix_ids)
          .push_back(static_cast<int32_t>(reader.id(id, ids_entry + ".ids")));
  }
  if (!after_text) reader.refuse(entry + ".single", "the text (Sequence) is missing");
}

void read_post_processor(const Reader& reader, const json& processor, const std::string& entry,
                         TokenizerSource& source) {
  if (processor.is_null()) return;
  const std::string& type = reader.string(reader.member(processor, entry, "type"), entry + ".type");
  if (type == "ByteLevel") return;  // only moves offsets
  if (type == "TemplateProcessing") {
    if (!source.prefix_ids.empty() || !source.suffix_ids.empty()) reader.refuse(entry, "a second template");
    read_template(reader, processor, entry, source);
  } else if (type == "Sequence") {
    const json& parts = reader.member(processor, entry, "processors");
    if (!parts.is_array()) reader.refuse(entry + ".processors", "expected an array, found {}", short_dump(parts));
    for (size_t i = 0; i < parts.size(); ++i)
      read_post_processor(reader, parts[i], entry + ".processors[" + std::to_string(i) + "]", source);
  } else {
    reader.refuse(entry + ".type", "{} is not supported, expected ByteLevel, TemplateProcessing or Sequence",
                  json_literal(type));
  }
}

/// Whether `stage`, or one of its parts, is of `type`.
bool has_stage(const json& stage, std::string_view type) {
  if (stage.is_array())
    return std::any_of(stage.begin(), stage.end(), [&](const json& part) { return has_stage(part, type); });
  if (!stage.is_object()) return false;
  const auto its_type = stage.find("type");
  if (its_type != stage.end() && its_type->is_string() && its_type->get_ref<const std::string&>() == type) return true;
  return std::any_of(stage.begin(), stage.end(),
                     [&](const json& part) { return part.is_array() && has_stage(part, type); });
}

bool replaces_metaspace(const json& stage) {
  if (stage.is_array()) return std::any_of(stage.begin(), stage.end(), replaces_metaspace);
  if (!stage.is_object()) return false;
  const auto content = stage.find("content");
  if (content != stage.end() && *content == kMetaspace) return true;
  return std::any_of(stage.begin(), stage.end(),
                     [](const json& part) { return part.is_array() && replaces_metaspace(part); });
}

/// Blanks are spelled as U+2581 by the normalizer or the pre-tokenizer; ByteLevel spells them otherwise.
TokenSpelling spelling_of(const json& root) {
  const json& pre_tokenizer = root.value("pre_tokenizer", json());
  if (has_stage(pre_tokenizer, "ByteLevel")) return TokenSpelling::byte_level;
  const bool is_metaspace =
      has_stage(pre_tokenizer, "Metaspace") || replaces_metaspace(root.value("normalizer", json()));
  return is_metaspace ? TokenSpelling::metaspace : TokenSpelling::byte_level;
}

void read_byte_level_decoder(const Reader& reader, const json& decoder, const std::string& entry) {
  if (decoder.is_null()) return;
  const std::string& type = reader.string(reader.member(decoder, entry, "type"), entry + ".type");
  if (type == "ByteLevel") return;
  const json& parts = reader.member(decoder, entry, "decoders");
  if (type != "Sequence" || !parts.is_array())
    reader.refuse(entry + ".type", "{} is not supported, expected ByteLevel", json_literal(type));
  for (size_t i = 0; i < parts.size(); ++i)
    read_byte_level_decoder(reader, parts[i], entry + ".decoders[" + std::to_string(i) + "]");
}

/// Strip of the blank that was put before the text.
void read_strip(const Reader& reader, const json& strip, const std::string& entry, TokenizerSource& source) {
  const std::string& content = reader.string(reader.member(strip, entry, "content"), entry + ".content");
  const int64_t start = reader.id(reader.member(strip, entry, "start"), entry + ".start");
  const int64_t stop = reader.id(reader.member(strip, entry, "stop"), entry + ".stop");
  if (content != " " || start > 1 || stop != 0)
    reader.refuse(entry,
                  "Strip of {} at the start and {} at the end of {} is not supported, expected one blank at the start",
                  start, stop, json_literal(content));
  source.strips_blank = start == 1;
}

/// What the vocabulary's own reading does not need is only checked: U+2581 is a blank, "<0x0A>" a byte.
void read_metaspace_decoder(const Reader& reader, const json& decoder, const std::string& entry,
                            TokenizerSource& source) {
  if (decoder.is_null()) return;
  const std::string& type = reader.string(reader.member(decoder, entry, "type"), entry + ".type");
  if (type == "ByteFallback" || type == "Fuse") return;
  if (type == "Strip") return read_strip(reader, decoder, entry, source);
  if (type == "Replace") {
    const json& pattern = reader.member(decoder, entry, "pattern");
    if (!pattern.is_object() || pattern.value("String", json()) != kMetaspace ||
        reader.member(decoder, entry, "content") != " ")
      reader.refuse(entry, "{} is not supported, expected {} replaced by a blank", short_dump(decoder), kMetaspace);
    return;
  }
  if (type == "Metaspace") {
    const json& scheme = reader.member(decoder, entry, "prepend_scheme");
    const bool prepends = reader.boolean(reader.member(decoder, entry, "add_prefix_space"), entry, true);
    source.strips_blank = scheme.is_null() ? prepends : reader.string(scheme, entry + ".prepend_scheme") != "never";
    return;
  }
  const json& parts = reader.member(decoder, entry, "decoders");
  if (type != "Sequence" || !parts.is_array())
    reader.refuse(entry + ".type",
                  "{} is not supported, expected Replace, ByteFallback, Fuse, Strip, Metaspace or Sequence",
                  json_literal(type));
  for (size_t i = 0; i < parts.size(); ++i)
    read_metaspace_decoder(reader, parts[i], entry + ".decoders[" + std::to_string(i) + "]", source);
}

}  // namespace

TokenizerSource read_tokenizer_json(const std::filesystem::path& path) {
  const Reader reader(path.string());
  const json root = read_json_file(path, ExitCode::model_file, kTokenizerJsonLimits);
  if (!root.is_object())
    fail(ExitCode::model_file, "{}: expected an object, found {}", reader.file(), short_dump(root));
  TokenizerSource source;
  source.file = reader.file();
  source.spelling = spelling_of(root);
  read_model(reader, reader.member(root, "file", "model"), source);
  read_added_tokens(reader, reader.member(root, "file", "added_tokens"), source);
  source.normalizer = Normalizer::parse(reader.member(root, "file", "normalizer"), reader.at("normalizer"));
  const json& pre_tokenizer = reader.member(root, "file", "pre_tokenizer");
  const json& decoder = reader.member(root, "file", "decoder");
  if (source.spelling == TokenSpelling::metaspace) {
    source.pre_tokenizer = parse_metaspace_pre_tokenizer(pre_tokenizer, reader.at("pre_tokenizer"));
    read_metaspace_decoder(reader, decoder, "decoder", source);
  } else {
    source.pre_tokenizer = parse_pre_tokenizer(pre_tokenizer, reader.at("pre_tokenizer"));
    read_byte_level_decoder(reader, decoder, "decoder");
  }
  read_post_processor(reader, reader.member(root, "file", "post_processor"), "post_processor", source);
  return source;
}

}  // namespace paceline
