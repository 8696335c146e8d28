#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include "engine/text/utf8.h"
#include "engine/util/json_io.h"
#include "engine/util/suggest.h"
#include "engine/util/utf8_chars.h"
#include "experiments/config/file/tree.h"

namespace paceline {

namespace {

/// Thrown inside the readers only: the complaint is already recorded and the rest of the text cannot be trusted.
struct Unreadable {};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '+' ||
         c == '-' || (static_cast<unsigned char>(c) & 0x80) != 0;
}

/// `; write 16` for numerals of other languages: 0x10, 010, 1_000, +5.
std::string plain_number_hint(std::string_view word) {
  std::string digits(word);
  std::erase(digits, '_');
  if (digits.starts_with("+")) digits.erase(0, 1);
  const bool is_hex = digits.starts_with("0x") || digits.starts_with("0X");
  if (is_hex) digits.erase(0, 2);
  uint64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, is_hex ? 16 : 10);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
  return whole ? fmt::format("; write {}", value) : std::string();
}

/// For words of other languages that JSON has no name for.
std::string word_hint(std::string_view word) {
  if (word == "None" || word == "nil") return "; write null";
  if (word == "yes" || word == "on" || word == "Yes" || word == "On") return "; write true";
  if (word == "no" || word == "off" || word == "No" || word == "Off") return "; write false";
  if (word == "NaN" || word == "Infinity" || word == "inf" || word == "nan") return "; write a finite number";
  return "";
}

/// Lines of an object's keys.
using KeyLines = std::unordered_map<std::string, int>;

/// Adds a member to an object that has no such key.
void add_member(ConfigNode& object, ConfigMember member, KeyLines& lines, Diagnostics& diagnostics) {
  const auto [first, is_new] = lines.emplace(member.key, member.key_origin.line);
  if (is_new)
    object.members.push_back(std::move(member));
  else
    diagnostics.add(member.key_origin,
                    fmt::format("duplicate key \"{}\" (first on line {})", member.key, first->second));
}

std::string too_long(std::string_view text) {
  return fmt::format("the text is {} bytes long: at most {} are read", text.size(), kMaxConfigBytes);
}

class Scanner {
 public:
  Scanner(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics)
      : source_(std::move(source)), text_(source_->text), diagnostics_(diagnostics) {}

  ConfigNode document() {
    ConfigNode root;
    root.origin = here();
    try {
      if (text_.size() > kMaxConfigBytes) stop(here(), too_long(text_));
      if (text_.starts_with("\xEF\xBB\xBF")) pos_ = 3;
      check_utf8();
      skip_blank();
      if (at_end()) stop(here(), "the text is empty: expected a value");
      value(root, 0);
      skip_blank();
      if (!at_end()) diagnostics_.add(here(), fmt::format("expected the end of the text, found {}", show()));
    } catch (const Unreadable&) {
    }
    return root;
  }

 private:
  bool at_end() const { return pos_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  Origin here() const { return {source_, line_, column_}; }

  void advance() {
    const unsigned char c = static_cast<unsigned char>(text_[pos_++]);
    if (c == '\n') {
      ++line_;
      column_ = 1;
    } else if (pos_ >= text_.size() || !is_utf8_continuation(text_[pos_])) {
      ++column_;  // counted at the last byte of a code point
    }
  }

  std::string show() const {
    if (at_end()) return "the end of the text";
    const unsigned char c = static_cast<unsigned char>(peek());
    if (c < 0x20 || c == 0x7F) return fmt::format("the control character 0x{:02x}", c);
    return fmt::format("'{}'", text_.substr(pos_, size_t(utf8_decode(text_, pos_).num_bytes)));
  }

  [[noreturn]] void stop(const Origin& origin, std::string message) {
    diagnostics_.add(origin, std::move(message));
    throw Unreadable{};
  }

  void check_utf8() {
    for (size_t i = pos_; i < text_.size();) {
      const Utf8Char character = utf8_decode(text_, i);
      if (!character.valid) {
        while (pos_ < i) advance();
        stop(here(),
             fmt::format("byte 0x{:02x} is not UTF-8: save the file as UTF-8", static_cast<unsigned char>(text_[i])));
      }
      i += size_t(character.num_bytes);
    }
  }

  void skip_blank() {
    while (!at_end()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        advance();
      } else if (c == '#' || (c == '/' && peek(1) == '/')) {
        while (!at_end() && peek() != '\n') advance();
      } else if (c == '/' && peek(1) == '*') {
        const Origin begin = here();
        advance();
        advance();
        while (!at_end() && !(peek() == '*' && peek(1) == '/')) advance();
        if (at_end()) stop(begin, "this comment is never closed: add */");
        advance();
        advance();
      } else {
        return;
      }
    }
  }

  void value(ConfigNode& node, int depth) {
    node.origin = here();
    if (depth > kMaxConfigDepth) stop(here(), fmt::format("nested more than {} levels deep", kMaxConfigDepth));
    if (++num_nodes_ > kMaxConfigNodes) stop(here(), fmt::format("more than {} values in one file", kMaxConfigNodes));
    const char c = peek();
    if (c == '{') {
      object(node, depth);
    } else if (c == '[') {
      list(node, depth);
    } else if (c == '"' || c == '\'') {
      node.kind = NodeKind::string;
      node.text = string();
    } else if (is_word(c)) {
      word(node);
    } else {
      stop(here(), fmt::format("expected a value, found {}", show()));
    }
  }

  /// After a member or an item: true when another follows. A missing comma is named and forgiven.
  bool another(char closing, const char* what) {
    skip_blank();
    bool comma = false;
    const Origin begin = here();
    while (peek() == ',' && !at_end()) {
      if (comma) diagnostics_.add(here(), "one comma too many");
      comma = true;
      advance();
      skip_blank();
    }
    if (peek() == closing) return false;
    if (at_end()) stop(here(), fmt::format("the text ends inside {}: expected '{}'", what, closing));
    if (peek() == '}' || peek() == ']')
      stop(here(), fmt::format("'{}' closes {}: expected '{}'", peek(), what, closing));
    if (!comma) {
      if (!is_word(peek()) && peek() != '"' && peek() != '\'' && peek() != '{' && peek() != '[') {
        stop(begin, fmt::format("expected ',' or '{}', found {}", closing, show()));
      }
      diagnostics_.add(begin, fmt::format("expected ',' or '{}', found {}", closing, show()));
    }
    return true;
  }

  /// The members or items of `node` up to `closing`; `read` takes one.
  template <class Read>
  void each(const ConfigNode& node, char closing, Read read) {
    const char* const what = closing == '}' ? "object" : "list";
    advance();
    skip_blank();
    if (at_end()) stop(node.origin, fmt::format("this {} is never closed: add '{}'", what, closing));
    for (bool more = peek() != closing; more; more = another(closing, closing == '}' ? "an object" : "a list")) read();
    advance();
  }

  void object(ConfigNode& node, int depth) {
    node.kind = NodeKind::object;
    KeyLines lines;
    each(node, '}', [&] {
      ConfigMember member;
      member.key_origin = here();
      if (peek() == '"' || peek() == '\'') {
        member.key = string();
      } else if (is_word(peek()) || peek() == '$') {
        member.key = bare();
        diagnostics_.add(member.key_origin, fmt::format("keys stand in double quotes: write \"{}\"", member.key));
      } else {
        stop(here(), fmt::format("expected a key in double quotes, found {}", show()));
      }
      skip_blank();
      if (peek() != ':') stop(here(), fmt::format("expected ':' after the key \"{}\", found {}", member.key, show()));
      advance();
      skip_blank();
      value(member.value, depth + 1);
      add_member(node, std::move(member), lines, diagnostics_);
    });
  }

  void list(ConfigNode& node, int depth) {
    node.kind = NodeKind::list;
    each(node, ']', [&] { value(node.items.emplace_back(), depth + 1); });
  }

  void escape(std::string& out) {
    const auto read = [&](size_t length) {
      return nlohmann::json::parse(fmt::format("\"{}\"", text_.substr(pos_, length)), nullptr, false);
    };
    const bool is_code = peek(1) == 'u';
    size_t length = is_code ? 6 : 2;
    nlohmann::json character = read(length);
    if (character.is_discarded() && is_code) character = read(length = 12);  // a surrogate and its other half
    if (character.is_discarded()) {
      diagnostics_.add(here(), is_code
                                   ? "\\u needs four hex digits, and a surrogate its other half"
                                   : fmt::format("unknown escape '\\{}': a backslash itself is written \\\\", peek(1)));
      length = is_code ? 2 : 1;
    } else {
      out += character.get_ref<const std::string&>();
    }
    while (length-- > 0) advance();
  }

  std::string string() {
    const Origin begin = here();
    const char quote = peek();
    if (quote == '\'') diagnostics_.add(begin, "strings stand in double quotes");
    advance();
    std::string out;
    while (peek() != quote) {
      if (at_end() || peek() == '\n') {
        diagnostics_.add(begin, "this string is never closed: add '\"'");
        return out;
      }
      const unsigned char c = static_cast<unsigned char>(peek());
      if (c == '\\') {
        escape(out);
        continue;
      }
      if (c < 0x20 && c != '\t' && c != '\r')
        diagnostics_.add(here(), fmt::format("control character 0x{:02x} in a string", c));
      out += peek();
      advance();
    }
    advance();
    return out;
  }

  std::string bare() {
    std::string word_text;
    while (!at_end() && (is_word(peek()) || peek() == '$')) {
      word_text += peek();
      advance();
    }
    return word_text;
  }

  void word(ConfigNode& node) {
    node.text = bare();
    const std::string& text = node.text;
    const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    if (value.is_null()) return;
    if (value.is_boolean()) {
      node.kind = NodeKind::boolean;
      node.boolean = value.get<bool>();
      return;
    }
    if (value.is_number()) {
      node.number = value.get<double>();
      const auto integer = integer_of<int64_t>(value);
      node.kind = integer ? NodeKind::integer : NodeKind::number;
      if (integer) node.integer = *integer;
      return;
    }
    node.unreadable = true;
    double number = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc::result_out_of_range)
      return diagnostics_.add(node.origin, fmt::format("the number {} does not fit in 64 bits", text));
    if (is_digit(text[0]) || text[0] == '-' || text[0] == '+' || text[0] == '.')
      return diagnostics_.add(node.origin, fmt::format("{} is not a JSON number{}", text, plain_number_hint(text)));
    std::string hint = did_you_mean(text, {"true", "false", "null"});
    if (hint.empty()) hint = word_hint(text);
    if (hint.empty()) hint = fmt::format(": strings stand in double quotes, \"{}\"", text);
    diagnostics_.add(node.origin, fmt::format("{} is not a JSON value{}", text, hint));
  }

  std::shared_ptr<const SourceText> source_;
  std::string_view text_;
  Diagnostics& diagnostics_;
  size_t pos_ = 0;
  int line_ = 1;
  int column_ = 1;
  size_t num_nodes_ = 0;
};

class YamlReader {
 public:
  YamlReader(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics)
      : source_(std::move(source)), diagnostics_(diagnostics) {}

  /// Throws Unreadable where a bound was hit.
  void convert(const YAML::Node& yaml, ConfigNode& node, int depth) {
    node.origin = at(yaml.Mark());
    if (depth > kMaxConfigDepth) stop(node.origin, fmt::format("nested more than {} levels deep", kMaxConfigDepth));
    if (++num_nodes_ > kMaxConfigNodes)
      stop(node.origin, fmt::format("more than {} values once aliases are copied", kMaxConfigNodes));
    if (yaml.IsSequence()) {
      node.kind = NodeKind::list;
      for (const YAML::Node& item : yaml) convert(item, node.items.emplace_back(), depth + 1);
    } else if (yaml.IsMap()) {
      node.kind = NodeKind::object;
      KeyLines lines;
      for (const auto& entry : yaml) {
        const Origin key_origin = at(entry.first.Mark());
        if (!entry.first.IsScalar()) {
          diagnostics_.add(key_origin, "a key must be a plain string");
          continue;
        }
        ConfigMember member{entry.first.Scalar(), key_origin, {}};
        convert(entry.second, member.value, depth + 1);
        add_member(node, std::move(member), lines, diagnostics_);
      }
    } else if (yaml.IsScalar()) {
      scalar(yaml, node);
    }
  }

  /// Some mistakes stand nowhere: they are put at the top.
  Origin at(const YAML::Mark& mark) const {
    return {source_, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
  }

 private:
  [[noreturn]] void stop(const Origin& origin, std::string message) {
    diagnostics_.add(origin, std::move(message));
    throw Unreadable{};
  }

  void scalar(const YAML::Node& yaml, ConfigNode& node) {
    node.text = yaml.Scalar();
    node.kind = NodeKind::string;
    if (yaml.Tag() == "!" || yaml.Tag() == "tag:yaml.org,2002:str") return;  // quoted, or !!str
    const std::string& text = node.text;
    const char* const end = text.data() + text.size();
    if (text == "true" || text == "false") {
      node.kind = NodeKind::boolean;
      node.boolean = text == "true";
    } else if (text == "null" || text == "~" || text.empty()) {
      node.kind = NodeKind::null;
    } else if (const auto whole = std::from_chars(text.data(), end, node.integer);
               whole.ec == std::errc() && whole.ptr == end) {
      node.kind = NodeKind::integer;
      node.number = static_cast<double>(node.integer);
    } else if (const auto real = std::from_chars(text.data(), end, node.number);
               real.ec == std::errc() && real.ptr == end && std::isfinite(node.number)) {
      node.kind = NodeKind::number;
    }
    node.is_plain = node.kind == NodeKind::string;
    if (node.kind == NodeKind::integer || node.kind == NodeKind::number) refuse_leading_zero(node);
  }

  /// 012 is 10 in YAML 1.1 and 12 in YAML 1.2, so whoever writes it may mean either.
  void refuse_leading_zero(const ConfigNode& node) {
    const size_t sign = node.text.starts_with('-') ? 1 : 0;
    const auto is_digit = [&](size_t i) { return i < node.text.size() && node.text[i] >= '0' && node.text[i] <= '9'; };
    if (node.text.substr(sign, 1) != "0" || !is_digit(sign + 1)) return;
    size_t first = sign;  // digit that stays
    while (node.text[first] == '0' && is_digit(first + 1)) ++first;
    diagnostics_.add(node.origin, fmt::format("{} has a leading zero: write {}{}", node.text, node.text.substr(0, sign),
                                              node.text.substr(first)));
  }

  std::shared_ptr<const SourceText> source_;
  Diagnostics& diagnostics_;
  size_t num_nodes_ = 0;
};

/// Where the content of a second document stands; none: there is one document. Not YAML::LoadAll, which finds documents
/// without end in some damaged texts.
std::optional<Origin> second_document(const std::shared_ptr<const SourceText>& source) {
  const auto is_marker = [](std::string_view line, std::string_view marker) {
    return line.starts_with(marker) && (line.size() == 3 || line.find_first_of(" \t\r") == 3);
  };
  bool has_first = false, is_second = false;
  std::istringstream lines(source->text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const bool begins = is_marker(line, "---"), ends = is_marker(line, "...");
    if (begins || ends) is_second |= has_first;
    const size_t content = line.find_first_not_of(" \t\r", begins ? 3 : 0);
    if (ends || content == std::string::npos || line[content] == '#' || line[content] == '%') continue;
    if (is_second) return Origin{source, number, static_cast<int>(content) + 1};
    has_first = true;
  }
  return std::nullopt;
}

}  // namespace

ConfigNode parse_jsonc(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics) {
  return Scanner(std::move(source), diagnostics).document();
}

ConfigNode parse_yaml(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics) {
  ConfigNode root;
  root.origin = {source, 1, 1};
  if (source->text.size() > kMaxConfigBytes) {
    diagnostics.add(root.origin, too_long(source->text));
    return root;
  }
  YamlReader reader(source, diagnostics);
  try {
    reader.convert(YAML::Load(source->text), root, 0);
    if (const std::optional<Origin> second = second_document(source))
      diagnostics.add(*second, "a second document: one document expected");
  } catch (const Unreadable&) {
  } catch (const YAML::DeepRecursion& error) {
    diagnostics.add(reader.at(error.mark), fmt::format("nested more than {} levels deep", kMaxConfigDepth));
  } catch (const YAML::Exception& error) {
    const Origin at = reader.at(error.mark);
    const std::string_view line = line_of(source->text, at.line);
    const bool tab = line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string_view::npos;
    diagnostics.add(at, tab ? "YAML is indented with blanks, found a tab" : error.msg);
  } catch (const std::exception& error) {
    diagnostics.add({source, 1, 1}, fmt::format("this is not YAML: {}", error.what()));
  }
  return root;
}

}  // namespace paceline
