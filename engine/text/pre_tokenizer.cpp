#include "engine/text/pre_tokenizer.h"

#include <optional>
#include <utf8proc.h>
#include <utility>

#include "engine/text/find_text.h"
#include "engine/text/utf8.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

using Pieces = std::vector<std::string_view>;

/// What happens to the delimiters that a stage finds.
enum class Delimiter { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Text is covered by consecutive spans, each a delimiter or the text between two.
class SpanSink {
 public:
  SpanSink(std::string_view text, Delimiter behavior, Pieces& pieces)
      : text_(text), behavior_(behavior), pieces_(pieces) {}

  void add(size_t begin, size_t end, bool is_delimiter) {
    if (begin == end) return;
    switch (behavior_) {
      case Delimiter::isolated: flush(); break;
      case Delimiter::removed:
        flush();
        if (is_delimiter) return;
        break;
      case Delimiter::contiguous:
        if (is_delimiter != last_is_delimiter_) flush();
        break;
      case Delimiter::merged_with_previous:  // only one delimiter joins, and only text before it
        if (!is_delimiter || last_is_delimiter_) flush();
        break;
      case Delimiter::merged_with_next:
        if (is_delimiter || !last_is_delimiter_) flush();
        break;
    }
    if (begin_ == end_) begin_ = begin;
    end_ = end;
    last_is_delimiter_ = is_delimiter;
  }

  void flush() {
    if (end_ > begin_) pieces_.push_back(text_.substr(begin_, end_ - begin_));
    begin_ = end_ = 0;
  }

 private:
  std::string_view text_;
  Delimiter behavior_;
  Pieces& pieces_;
  size_t begin_ = 0, end_ = 0;  // pending piece [begin_, end_)
  bool last_is_delimiter_ = false;
};

class RegexSplit final : public PreTokenizer {
 public:
  RegexSplit(Regex regex, Delimiter behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  void split(std::string_view text, SplitScratch& scratch, Pieces& pieces) const override {
    SpanSink sink(text, behavior_, pieces);
    size_t gap = 0, pos = 0;
    while (pos < text.size()) {
      if (const auto length = scratch.matcher.match_at(regex_, text, pos)) {
        sink.add(gap, pos, invert_);
        sink.add(pos, pos + *length, !invert_);
        pos += *length;
        gap = pos;
      } else {
        pos += static_cast<size_t>(utf8_decode(text, pos).num_bytes);
      }
    }
    sink.add(gap, text.size(), invert_);
    sink.flush();
  }

 private:
  Regex regex_;
  Delimiter behavior_;
  bool invert_;
};

class LiteralSplit final : public PreTokenizer {
 public:
  LiteralSplit(std::string literal, Delimiter behavior, bool invert)
      : literal_(std::move(literal)), behavior_(behavior), invert_(invert) {}

  void split(std::string_view text, SplitScratch&, Pieces& pieces) const override {
    SpanSink sink(text, behavior_, pieces);
    size_t pos = 0;
    for (size_t hit = find_text(text, literal_); hit != std::string_view::npos; hit = find_text(text, literal_, pos)) {
      sink.add(pos, hit, invert_);
      sink.add(hit, hit + literal_.size(), !invert_);
      pos = hit + literal_.size();
    }
    sink.add(pos, text.size(), invert_);
    sink.flush();
  }

 private:
  std::string literal_;
  Delimiter behavior_;
  bool invert_;
};

/// Digits and Punctuation: every character of a class is a delimiter.
class ClassSplit final : public PreTokenizer {
 public:
  using Predicate = bool (*)(char32_t);
  ClassSplit(Predicate is_delimiter, Delimiter behavior) : is_delimiter_(is_delimiter), behavior_(behavior) {}

  void split(std::string_view text, SplitScratch&, Pieces& pieces) const override {
    SpanSink sink(text, behavior_, pieces);
    size_t gap = 0;
    for (size_t pos = 0; pos < text.size();) {
      const Utf8Char c = utf8_decode(text, pos);
      const size_t end = pos + static_cast<size_t>(c.num_bytes);
      if (is_delimiter_(c.code)) {
        sink.add(gap, pos, false);
        sink.add(pos, end, true);
        gap = end;
      }
      pos = end;
    }
    sink.add(gap, text.size(), false);
    sink.flush();
  }

 private:
  Predicate is_delimiter_;
  Delimiter behavior_;
};

bool is_numeric(char32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t code) {
  if (code < 0x80)
    return code > ' ' && code < 0x7F && !((code | 0x20) >= 'a' && (code | 0x20) <= 'z') &&
           !(code >= '0' && code <= '9');
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/// Contractions, then letters, digits or the rest with one space before, then runs of white space that leave the
/// last blank to the next word (GPT-2's published pattern).
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class ByteLevelSplit final : public PreTokenizer {
 public:
  ByteLevelSplit(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    if (use_regex) words_.emplace(Regex(kGpt2Pattern, "ByteLevel pre-tokenizer"), Delimiter::isolated, false);
  }

  void split(std::string_view text, SplitScratch& scratch, Pieces& pieces) const override {
    if (add_prefix_space_ && !text.empty() && text.front() != ' ')
      text = scratch.arena.emplace_back(1, ' ').append(text);
    if (words_) {
      words_->split(text, scratch, pieces);
    } else if (!text.empty()) {
      pieces.push_back(text);
    }
  }

 private:
  bool add_prefix_space_;
  std::optional<RegexSplit> words_;
};

class SequenceSplit final : public PreTokenizer {
 public:
  explicit SequenceSplit(std::vector<std::unique_ptr<const PreTokenizer>> stages) : stages_(std::move(stages)) {}

  void split(std::string_view text, SplitScratch& scratch, Pieces& pieces) const override {
    Pieces from{text}, to;
    for (const auto& stage : stages_) {
      to.clear();
      for (const std::string_view piece : from) stage->split(piece, scratch, to);
      std::swap(from, to);
    }
    pieces.insert(pieces.end(), from.begin(), from.end());
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> stages_;
};

const std::string& string_field(const nlohmann::json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string())
    fail(ExitCode::model_file, "{}: expected a string \"{}\", found {}", where, key,
         found == json.end() ? "nothing" : short_dump(*found));
  return found->get_ref<const std::string&>();
}

bool bool_field(const nlohmann::json& json, const char* key, bool fallback, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return fallback;
  if (!found->is_boolean())
    fail(ExitCode::model_file, "{}: expected true or false in \"{}\", found {}", where, key, short_dump(*found));
  return found->get<bool>();
}

Delimiter parse_behavior(const std::string& name, const std::string& where) {
  if (name == "Removed") return Delimiter::removed;
  if (name == "Isolated") return Delimiter::isolated;
  if (name == "MergedWithPrevious") return Delimiter::merged_with_previous;
  if (name == "MergedWithNext") return Delimiter::merged_with_next;
  if (name == "Contiguous") return Delimiter::contiguous;
  fail(ExitCode::model_file, "{}: unknown behavior {}", where, json_literal(name));
}

std::unique_ptr<const PreTokenizer> parse_split(const nlohmann::json& json, const std::string& where) {
  const Delimiter behavior = parse_behavior(string_field(json, "behavior", where), where);
  const bool invert = bool_field(json, "invert", false, where);
  const auto pattern = json.find("pattern");
  if (pattern == json.end() || !pattern->is_object())
    fail(ExitCode::model_file, "{}: Split without an object \"pattern\"", where);
  if (pattern->contains("Regex"))
    return std::make_unique<RegexSplit>(Regex(string_field(*pattern, "Regex", where + ".pattern"), where), behavior,
                                        invert);
  const std::string& literal = string_field(*pattern, "String", where + ".pattern");
  if (literal.empty()) fail(ExitCode::model_file, "{}: Split at an empty string", where);
  return std::make_unique<LiteralSplit>(literal, behavior, invert);
}

struct ParsedStage {
  std::unique_ptr<const PreTokenizer> stage;
  bool is_byte_level = false;
};

ParsedStage parse_stage(const nlohmann::json& json, const std::string& where) {
  if (!json.is_object())
    fail(ExitCode::model_file, "{}: expected a pre-tokenizer object with ByteLevel in it, found {}", where,
         short_dump(json));
  const std::string& type = string_field(json, "type", where);
  if (type == "ByteLevel")
    return {std::make_unique<ByteLevelSplit>(bool_field(json, "add_prefix_space", true, where),
                                             bool_field(json, "use_regex", true, where)),
            true};
  if (type == "Split") return {parse_split(json, where)};
  if (type == "Digits")
    return {std::make_unique<ClassSplit>(
        is_numeric, bool_field(json, "individual_digits", false, where) ? Delimiter::isolated : Delimiter::contiguous)};
  if (type == "Punctuation")
    return {std::make_unique<ClassSplit>(
        is_punctuation, json.contains("behavior") ? parse_behavior(string_field(json, "behavior", where), where)
                                                  : Delimiter::isolated)};
  if (type == "Sequence") {
    const auto parts = json.find("pretokenizers");
    if (parts == json.end() || !parts->is_array())
      fail(ExitCode::model_file, "{}: Sequence without an array \"pretokenizers\"", where);
    std::vector<std::unique_ptr<const PreTokenizer>> stages;
    bool is_byte_level = false;
    for (size_t i = 0; i < parts->size(); ++i) {
      const std::string part_where = where + ".pretokenizers[" + std::to_string(i) + "]";
      // Behind ByteLevel text is spelled in another alphabet; nothing real puts a stage there.
      if (is_byte_level) fail(ExitCode::model_file, "{}: a stage after ByteLevel is not supported", part_where);
      ParsedStage part = parse_stage((*parts)[i], part_where);
      is_byte_level = part.is_byte_level;
      stages.push_back(std::move(part.stage));
    }
    return {std::make_unique<SequenceSplit>(std::move(stages)), is_byte_level};
  }
  fail(ExitCode::model_file,
       "{}: pre-tokenizer {} is not supported, expected ByteLevel, Split, Digits, Punctuation or Sequence", where,
       json_literal(type));
}

}  // namespace

std::unique_ptr<const PreTokenizer> parse_pre_tokenizer(const nlohmann::json& json, const std::string& where) {
  ParsedStage parsed = parse_stage(json, where);
  if (!parsed.is_byte_level)
    fail(ExitCode::model_file, "{}: no ByteLevel stage; only byte-level BPE tokenizers are supported", where);
  return std::move(parsed.stage);
}

std::unique_ptr<const PreTokenizer> gpt2_pre_tokenizer() { return std::make_unique<ByteLevelSplit>(false, true); }

}  // namespace paceline
