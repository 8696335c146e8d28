#include "experiments/config/file/jsonc.h"

#include <charconv>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/util/suggest.h"

namespace paceline {

namespace {

/// Thrown inside the scanner only: the complaint is already recorded and the rest of the text cannot be trusted.
struct Unreadable {};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '+' ||
         c == '-' || (static_cast<unsigned char>(c) & 0x80) != 0;
}

/// JSON's own grammar of numbers: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
bool is_json_number(std::string_view word, bool& integral) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t begin = i;
    while (i < word.size() && is_digit(word[i])) ++i;
    return i - begin;
  };
  if (i < word.size() && word[i] == '-') ++i;
  const bool leading_zero = i < word.size() && word[i] == '0';
  const size_t whole = digits();
  if (whole == 0 || (leading_zero && whole > 1)) return false;
  integral = true;
  if (i < word.size() && word[i] == '.') {
    integral = false;
    ++i;
    if (digits() == 0) return false;
  }
  if (i < word.size() && (word[i] == 'e' || word[i] == 'E')) {
    integral = false;
    ++i;
    if (i < word.size() && (word[i] == '+' || word[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == word.size();
}

/// `; write 16` for numerals of other languages: 0x10, 010, 1_000, +5.
std::string plain_number_hint(std::string_view word) {
  std::string digits;
  for (const char c : word) {
    if (c != '_') digits += c;
  }
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

/// Length of the UTF-8 sequence at `text[i]`, or 0 when it is not valid.
size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  const unsigned first = byte(i);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || first > 0xF4) return 0;
  for (size_t j = 1; j < length; ++j) {
    if ((byte(i + j) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(i + 1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
      (first == 0xF4 && second > 0x8F)) {
    return 0;  // overlong, surrogate, beyond U+10FFFF
  }
  return length;
}

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
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
    return fmt::format("'{}'", text_.substr(pos_, std::max<size_t>(1, utf8_length(text_, pos_))));
  }

  [[noreturn]] void stop(const Origin& origin, std::string message) {
    diagnostics_.add(origin, std::move(message));
    throw Unreadable{};
  }

  void check_utf8() {
    for (size_t i = pos_; i < text_.size();) {
      const size_t length = utf8_length(text_, i);
      if (length == 0) {
        while (pos_ < i) advance();
        stop(here(),
             fmt::format("byte 0x{:02x} is not UTF-8: save the file as UTF-8", static_cast<unsigned char>(text_[i])));
      }
      i += length;
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

  void object(ConfigNode& node, int depth) {
    node.kind = NodeKind::object;
    std::unordered_map<std::string, int> line_of;
    advance();
    skip_blank();
    if (at_end()) stop(node.origin, "this object is never closed: add '}'");
    bool more = peek() != '}';
    while (more) {
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
      if (is_new) {
        node.members.push_back(std::move(member));
      } else {
        diagnostics_.add(member.key_origin,
                         fmt::format("duplicate key \"{}\" (first on line {})", member.key, first->second));
      }
      more = another('}', "an object");
    }
    advance();
  }

  void list(ConfigNode& node, int depth) {
    node.kind = NodeKind::list;
    advance();
    skip_blank();
    if (at_end()) stop(node.origin, "this list is never closed: add ']'");
    bool more = peek() != ']';
    while (more) {
      node.items.emplace_back();
      value(node.items.back(), depth + 1);
      more = another(']', "a list");
    }
    advance();
  }

  uint32_t hex4() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = peek();
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return UINT32_MAX;
      code = code * 16 + static_cast<uint32_t>(digit);
      advance();
    }
    return code;
  }

  void escape(std::string& out) {
    const Origin begin = here();
    advance();
    const char c = peek();
    static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (const size_t known = kFrom.find(c); c != '\0' && known != std::string_view::npos) {
      out += kTo[known];
      advance();
      return;
    }
    if (c != 'u') {
      diagnostics_.add(begin, fmt::format("unknown escape '\\{}': a backslash itself is written \\\\", c));
      return;
    }
    advance();
    uint32_t code = hex4();
    if (code >= 0xD800 && code <= 0xDBFF && peek() == '\\' && peek(1) == 'u') {
      advance();
      advance();
      const uint32_t low = hex4();
      code = low >= 0xDC00 && low <= 0xDFFF ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : UINT32_MAX;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      diagnostics_.add(begin, "\\u needs four hex digits, and a surrogate its other half");
      return;
    }
    append_utf8(out, code);
  }

  std::string string() {
    const Origin begin = here();
    const char quote = peek();
    if (quote == '\'') diagnostics_.add(begin, "strings stand in double quotes");
    advance();
    std::string out;
    while (true) {
      if (at_end() || peek() == '\n') {
        diagnostics_.add(begin, "this string is never closed: add '\"'");
        return out;
      }
      const char c = peek();
      if (c == quote) {
        advance();
        return out;
      }
      if (c == '\\') {
        escape(out);
        continue;
      }
      if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r') {
        diagnostics_.add(here(), fmt::format("control character 0x{:02x} in a string", static_cast<unsigned char>(c)));
      }
      out += c;
      advance();
    }
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
    if (text == "true" || text == "false") {
      node.kind = NodeKind::boolean;
      node.boolean = text == "true";
      return;
    }
    if (text == "null") return;
    bool integral = false;
    if (is_json_number(text, integral)) {
      node.kind = NodeKind::number;
      const auto parsed = std::from_chars(text.data(), text.data() + text.size(), node.number);
      if (parsed.ec != std::errc() || !std::isfinite(node.number)) {
        diagnostics_.add(node.origin, fmt::format("the number {} does not fit in 64 bits", text));
        node.kind = NodeKind::null;
        node.unreadable = true;
        return;
      }
      if (integral) {
        const auto whole = std::from_chars(text.data(), text.data() + text.size(), node.integer);
        if (whole.ec == std::errc()) node.kind = NodeKind::integer;
      }
      return;
    }
    const char first = text[0];
    if (is_digit(first) || first == '-' || first == '+' || first == '.') {
      diagnostics_.add(node.origin, fmt::format("{} is not a JSON number{}", text, plain_number_hint(text)));
      node.unreadable = true;
      return;
    }
    std::string hint = did_you_mean(text, {"true", "false", "null"});
    if (hint.empty()) hint = word_hint(text);
    if (hint.empty()) hint = fmt::format(": strings stand in double quotes, \"{}\"", text);
    diagnostics_.add(node.origin, fmt::format("{} is not a JSON value{}", text, hint));
    node.unreadable = true;
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
