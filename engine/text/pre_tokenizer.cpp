#include "engine/text/pre_tokenizer.h"

#include <utf8proc.h>
#include <utility>

#include "engine/text/byte_level.h"
#include "engine/text/char_class.h"
#include "engine/text/find_text.h"
#include "engine/text/utf8.h"
#include "engine/text/word_scanner.h"
#include "engine/util/json_io.h"
#include "engine/util/utf8_chars.h"
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
    join_or_flush(is_delimiter);
    if (is_delimiter && behavior_ == Delimiter::removed) return;
    if (begin_ == end_) begin_ = begin;
    end_ = end;
  }

  /// Behind what was added last.
  void add_empty_delimiter() { join_or_flush(true); }

  void flush() {
    if (end_ > begin_) pieces_.push_back(text_.substr(begin_, end_ - begin_));
    begin_ = end_ = 0;
  }

 private:
  void join_or_flush(bool is_delimiter) {
    switch (behavior_) {
      case Delimiter::isolated:
      case Delimiter::removed: flush(); break;
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
    last_is_delimiter_ = is_delimiter;
  }

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
    std::optional<size_t> last_end;  // of a match; an empty one behind it does not count
    while (pos < text.size()) {
      const auto length = scratch.matcher().match_at(regex_, text, pos, RegexMatcher::Empty::allowed);
      if (length && (*length > 0 || last_end != pos)) {
        sink.add(gap, pos, invert_);
        if (*length == 0 && !invert_) sink.add_empty_delimiter();
        sink.add(pos, pos + *length, !invert_);
        pos += *length;
        gap = pos;
        last_end = pos;
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
  using Predicate = bool (*)(std::string_view text, size_t pos, ClassedChar c);
  ClassSplit(Predicate is_delimiter, Delimiter behavior) : is_delimiter_(is_delimiter), behavior_(behavior) {}

  void split(std::string_view text, SplitScratch&, Pieces& pieces) const override {
    SpanSink sink(text, behavior_, pieces);
    size_t gap = 0;
    const CharClasses& classes = CharClasses::get();
    for (size_t pos = 0; pos < text.size();) {
      const ClassedChar c = classes.at(text, pos);
      const size_t end = pos + c.num_bytes;
      if (is_delimiter_(text, pos, c)) {
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

bool is_numeric(std::string_view, size_t, ClassedChar c) { return (c.classes & kNumber) != 0; }

bool is_punctuation(std::string_view text, size_t pos, ClassedChar) {
  const char32_t code = utf8_decode(text, pos).code;
  if (code < 0x80)
    return code > ' ' && code < 0x7F && !((code | 0x20) >= 'a' && (code | 0x20) <= 'z') &&
           !(code >= '0' && code <= '9');
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/// Every word is a piece.
class WordSplit final : public PreTokenizer {
 public:
  explicit WordSplit(WordScanner scan) : scan_(scan) {}

  void split(std::string_view text, SplitScratch&, Pieces& pieces) const override {
    for (size_t pos = 0; pos < text.size();) {
      const size_t end = scan_(text, pos);
      pieces.push_back(text.substr(pos, end - pos));
      pos = end;
    }
  }

 private:
  WordScanner scan_;
};

class ByteLevelSplit final : public PreTokenizer {
 public:
  ByteLevelSplit(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}

  void split(std::string_view text, SplitScratch& scratch, Pieces& pieces) const override {
    if (add_prefix_space_ && !text.empty() && text.front() != ' ')
      text = scratch.arena.emplace_back(1, ' ').append(text);
    if (use_regex_) {
      words_.split(text, scratch, pieces);
    } else if (!text.empty()) {
      pieces.push_back(text);
    }
  }

 private:
  bool add_prefix_space_, use_regex_;
  WordSplit words_{kGpt2Words.scan};
};

/// A stage behind ByteLevel: it sees each byte as a character of GPT-2's alphabet.
class AlphabetSplit final : public PreTokenizer {
 public:
  explicit AlphabetSplit(std::unique_ptr<const PreTokenizer> stage) : stage_(std::move(stage)) {}

  void split(std::string_view text, SplitScratch& scratch, Pieces& pieces) const override {
    const std::string spelled = byte_level_encode(text);
    Pieces parts;
    stage_->split(spelled, scratch, parts);
    size_t spelled_pos = 0, pos = 0;  // the same place in both
    for (const std::string_view part : parts) {
      const auto begin = static_cast<size_t>(part.data() - spelled.data());
      pos += utf8_length(std::string_view(spelled).substr(spelled_pos, begin - spelled_pos));
      const size_t length = utf8_length(part);
      pieces.push_back(text.substr(pos, length));
      pos += length;
      spelled_pos = begin + part.size();
    }
  }

 private:
  std::unique_ptr<const PreTokenizer> stage_;
};

class MetaspaceWords final : public PreTokenizer {
 public:
  void split(std::string_view text, SplitScratch&, Pieces& pieces) const override {
    size_t begin = 0, after_space = 0;  // the end of the U+2581 seen last
    for (size_t hit = find_text(text, kMetaspace); hit != std::string_view::npos;
         hit = find_text(text, kMetaspace, after_space)) {
      if (hit > after_space) {
        pieces.push_back(text.substr(begin, hit - begin));
        begin = hit;
      }
      after_space = hit + kMetaspace.size();
    }
    if (begin < text.size()) pieces.push_back(text.substr(begin));
  }
};

/// Blanks become U+2581, and one stands before the text where `prepend` says so and none is there.
class MetaspaceSplit final : public PreTokenizer {
 public:
  enum class Prepend { never, at_start, always };
  MetaspaceSplit(Prepend prepend, bool into_words) : prepend_(prepend), into_words_(into_words) {}

  void split(std::string_view text, SplitScratch& scratch, Pieces& pieces) const override {
    if (text.empty()) return;
    std::string& spelled = scratch.arena.emplace_back();
    spelled.reserve(text.size() + text.size() / 2);
    if (prepend_ == Prepend::always || (prepend_ == Prepend::at_start && scratch.place == SpanPlace::text_start)) {
      if (text.front() != ' ' && !text.starts_with(kMetaspace)) spelled += kMetaspace;
    }
    for (const char c : text) {
      if (c == ' ')
        spelled += kMetaspace;
      else
        spelled += c;
    }
    if (!into_words_) return pieces.push_back(spelled);
    LiteralSplit(std::string(kMetaspace), Delimiter::merged_with_next, false).split(spelled, scratch, pieces);
  }

 private:
  Prepend prepend_;
  bool into_words_;
};

class SequenceSplit final : public PreTokenizer {
 public:
  explicit SequenceSplit(std::vector<std::unique_ptr<const PreTokenizer>> stages) : stages_(std::move(stages)) {}

  void split(std::string_view text, SplitScratch& scratch, Pieces& pieces) const override {
    Pieces from, to;
    if (!text.empty()) from.push_back(text);
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

std::unique_ptr<const PreTokenizer> split_by_regex(const std::string& pattern, Delimiter behavior, bool invert,
                                                   const std::string& where) {
  // The matches of a word pattern cover the text: whether the gaps are kept makes no difference.
  const bool keeps_matches = behavior == Delimiter::isolated || (behavior == Delimiter::removed && invert);
  if (const WordScanner scan = find_word_scanner(pattern); scan != nullptr && keeps_matches)
    return std::make_unique<WordSplit>(scan);
  if (pattern == kDigitPattern && !invert) return std::make_unique<ClassSplit>(is_numeric, behavior);
  return std::make_unique<RegexSplit>(Regex(pattern, where), behavior, invert);
}

std::unique_ptr<const PreTokenizer> parse_split(const nlohmann::json& json, const std::string& where) {
  const Delimiter behavior = parse_behavior(string_field(json, "behavior", where), where);
  const bool invert = bool_field(json, "invert", false, where);
  const auto pattern = json.find("pattern");
  if (pattern == json.end() || !pattern->is_object())
    fail(ExitCode::model_file, "{}: Split without an object \"pattern\"", where);
  if (pattern->contains("Regex"))
    return split_by_regex(string_field(*pattern, "Regex", where + ".pattern"), behavior, invert, where);
  const std::string& literal = string_field(*pattern, "String", where + ".pattern");
  if (literal.empty()) fail(ExitCode::model_file, "{}: Split at an empty string", where);
  return std::make_unique<LiteralSplit>(literal, behavior, invert);
}

/// Files of before 2024 have add_prefix_space in place of prepend_scheme, and no split.
std::unique_ptr<const PreTokenizer> parse_metaspace(const nlohmann::json& json, const std::string& where) {
  using Prepend = MetaspaceSplit::Prepend;
  const std::string& blank = string_field(json, "replacement", where);
  if (blank != kMetaspace)
    fail(ExitCode::model_file, "{}: replacement {} is not supported, expected {}", where, json_literal(blank),
         json_literal(kMetaspace));
  Prepend prepend = bool_field(json, "add_prefix_space", true, where) ? Prepend::always : Prepend::never;
  if (json.contains("prepend_scheme")) {
    const std::string& scheme = string_field(json, "prepend_scheme", where);
    if (scheme != "always" && scheme != "first" && scheme != "never")
      fail(ExitCode::model_file, "{}: unknown prepend_scheme {}", where, json_literal(scheme));
    prepend = scheme == "always" ? Prepend::always : scheme == "first" ? Prepend::at_start : Prepend::never;
  }
  return std::make_unique<MetaspaceSplit>(prepend, bool_field(json, "split", true, where));
}

/// Stages as they are read; `byte_level` says that one of them was ByteLevel.
struct StageReader {
  bool byte_level = false;

  std::unique_ptr<const PreTokenizer> read(const nlohmann::json& json, const std::string& where) {
    if (!json.is_object())
      fail(ExitCode::model_file, "{}: expected a pre-tokenizer object, found {}", where, short_dump(json));
    const std::string& type = string_field(json, "type", where);
    if (type == "Sequence") return read_sequence(json, where);
    if (type == "ByteLevel") {
      if (byte_level) fail(ExitCode::model_file, "{}: a second ByteLevel", where);
      byte_level = true;
      return std::make_unique<ByteLevelSplit>(bool_field(json, "add_prefix_space", true, where),
                                              bool_field(json, "use_regex", true, where));
    }
    auto stage = read_simple(json, type, where);
    if (byte_level) return std::make_unique<AlphabetSplit>(std::move(stage));
    return stage;
  }

 private:
  std::unique_ptr<const PreTokenizer> read_sequence(const nlohmann::json& json, const std::string& where) {
    const auto parts = json.find("pretokenizers");
    if (parts == json.end() || !parts->is_array())
      fail(ExitCode::model_file, "{}: Sequence without an array \"pretokenizers\"", where);
    std::vector<std::unique_ptr<const PreTokenizer>> stages;
    for (size_t i = 0; i < parts->size(); ++i)
      stages.push_back(read((*parts)[i], where + ".pretokenizers[" + std::to_string(i) + "]"));
    return in_sequence(std::move(stages));
  }

  std::unique_ptr<const PreTokenizer> read_simple(const nlohmann::json& json, const std::string& type,
                                                  const std::string& where) const {
    if (type == "Split") return parse_split(json, where);
    if (type == "Digits") {
      const bool alone = bool_field(json, "individual_digits", false, where);
      return std::make_unique<ClassSplit>(is_numeric, alone ? Delimiter::isolated : Delimiter::contiguous);
    }
    if (type == "Punctuation") {
      const Delimiter behavior = json.contains("behavior")
                                     ? parse_behavior(string_field(json, "behavior", where), where)
                                     : Delimiter::isolated;
      return std::make_unique<ClassSplit>(is_punctuation, behavior);
    }
    if (type == "Metaspace" && !byte_level) return parse_metaspace(json, where);
    fail(ExitCode::model_file,
         "{}: pre-tokenizer {} is not supported, expected ByteLevel, Split, Digits, Punctuation, Metaspace or Sequence",
         where, json_literal(type));
  }
};

}  // namespace

std::unique_ptr<const PreTokenizer> parse_pre_tokenizer(const nlohmann::json& json, const std::string& where) {
  StageReader reader;
  auto stage = reader.read(json, where);
  if (!reader.byte_level)
    fail(ExitCode::model_file,
         "{}: no ByteLevel stage, and nothing that spells blanks as {}; only byte-level and SentencePiece-like BPE is "
         "supported",
         where, kMetaspace);
  return stage;
}

std::unique_ptr<const PreTokenizer> parse_metaspace_pre_tokenizer(const nlohmann::json& json,
                                                                  const std::string& where) {
  if (json.is_null()) return in_sequence({});
  return StageReader().read(json, where);
}

std::unique_ptr<const PreTokenizer> split_at_matches(std::string_view pattern, const std::string& where) {
  return split_by_regex(std::string(pattern), Delimiter::isolated, false, where);
}

std::unique_ptr<const PreTokenizer> in_sequence(std::vector<std::unique_ptr<const PreTokenizer>> stages) {
  if (stages.size() == 1) return std::move(stages.front());
  return std::make_unique<SequenceSplit>(std::move(stages));
}

std::unique_ptr<const PreTokenizer> metaspace_words() { return std::make_unique<MetaspaceWords>(); }

}  // namespace paceline
