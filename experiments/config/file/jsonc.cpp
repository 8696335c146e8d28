#include <charconv>
#include <string>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/text/utf8.h"
#include "engine/util/suggest.h"
#include "experiments/config/file/parse.h"

namespace paceline {

namespace {

/// Thrown inside the scanner only: the complaint is already recorded and the rest of the text cannot be trusted.
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

class Scanner {
 public:
  Scanner(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics)
      : source_(std::move(source)), text_(source_->text), diagnostics_(diagnostics) {}

  ConfigNode document() {
    ConfigNode root;
    root.origin = here();
    try {
      if (text_.size() > kMaxConfigBytes) {
        stop(here(), fmt::format("the text is {} bytes long: at most {} are read", text_.size(), kMaxConfigBytes));
      }
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
    } else if (pos_ >= text_.size() || (static_cast<unsigned char>(text_[pos_]) & 0xC0) != 0x80) {
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
    std::unordered_map<std::string, int> line_of;
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
      const auto [first, is_new] = line_of.emplace(member.key, member.key_origin.line);
      if (is_new)
        node.members.push_back(std::move(member));
      else
        diagnostics_.add(member.key_origin,
                         fmt::format("duplicate key \"{}\" (first on line {})", member.key, first->second));
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
      const bool is_integer = value.is_number_integer() && (!value.is_number_unsigned() || value <= INT64_MAX);
      node.kind = is_integer ? NodeKind::integer : NodeKind::number;
      if (is_integer) node.integer = value.get<int64_t>();
      return;
    }
    node.unreadable = true;
    double number = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc::result_out_of_range) {
      diagnostics_.add(node.origin, fmt::format("the number {} does not fit in 64 bits", text));
      return;
    }
    const char first = text[0];
    if (is_digit(first) || first == '-' || first == '+' || first == '.') {
      diagnostics_.add(node.origin, fmt::format("{} is not a JSON number{}", text, plain_number_hint(text)));
      return;
    }
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

}  // namespace

ConfigNode parse_jsonc(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics) {
  return Scanner(std::move(source), diagnostics).document();
}

}  // namespace paceline
