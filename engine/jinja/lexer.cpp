#include "engine/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "engine/text/utf8.h"

namespace paceline::jinja {

namespace {

constexpr size_t kMaxNameBytes = 256;  // names are copied and compared as if that cost nothing

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  explicit Lexer(const Source& source) : name_(source.name), text_(normalized(source.text)) {}

  std::vector<Token> run() {
    while (pos_ < text_.size()) {
      const size_t tag = find_tag();
      std::string_view plain = view().substr(pos_, tag - pos_);
      if (tag < text_.size()) plain = strip_before(plain, tag);
      if (!plain.empty()) add(TokenKind::text, std::string(plain), pos_);
      pos_ = tag;
      if (tag < text_.size()) read_tag();
    }
    add(TokenKind::end, {}, pos_);
    return std::move(tokens_);
  }

 private:
  /// Newlines become "\n" and one at the end is dropped (keep_trailing_newline is off).
  static std::string normalized(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') {
        out.push_back('\n');
        if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
      } else {
        out.push_back(text[i]);
      }
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
  }

  std::string_view view() const { return text_; }
  char at(size_t pos) const { return pos < text_.size() ? text_[pos] : '\0'; }

  Position position(size_t pos) {
    // Tokens come in order, so counting resumes where it stopped.
    for (; counted_ < pos; ++counted_) {
      if (text_[counted_] == '\n') {
        ++line_;
        line_start_ = counted_ + 1;
      }
    }
    if (pos < line_start_) return {line_, 1};
    return {line_, static_cast<int>(pos - line_start_) + 1};
  }

  void add(TokenKind kind, std::string text, size_t pos) {
    Token token;
    token.kind = kind;
    token.text = std::move(text);
    token.position = position(pos);
    tokens_.push_back(std::move(token));
  }

  size_t find_tag() const {
    for (size_t i = view().find('{', pos_); i != std::string_view::npos; i = view().find('{', i + 1)) {
      const char next = at(i + 1);
      if (next == '{' || next == '%' || next == '#') return i;
    }
    return text_.size();
  }

  /// "-" takes all white space before the tag; without a sign, a statement or comment that is first on its line takes
  /// the blanks before it (lstrip_blocks).
  std::string_view strip_before(std::string_view plain, size_t tag) const {
    const char sign = at(tag + 2);
    if (sign == '-') {
      while (!plain.empty() && is_blank(plain.back())) plain.remove_suffix(1);
    } else if (sign != '+' && at(tag + 1) != '{') {
      const size_t newline = plain.rfind('\n');
      const size_t start = newline == plain.npos ? 0 : newline + 1;
      const bool starts_line = newline != plain.npos || at_line_start_;
      if (starts_line && std::all_of(plain.begin() + static_cast<std::ptrdiff_t>(start), plain.end(), is_blank))
        plain = plain.substr(0, start);
    }
    return plain;
  }

  /// Called behind a closing tag. `sign` is '-', '+' or neither; statements and comments take one newline.
  void strip_after(char sign, bool trims_newline) {
    const size_t begin = pos_;
    if (sign == '-') {
      while (pos_ < text_.size() && is_blank(text_[pos_])) ++pos_;
    } else if (trims_newline && sign != '+' && at(pos_) == '\n') {
      ++pos_;
    }
    at_line_start_ = pos_ > begin && text_[pos_ - 1] == '\n';
  }

  void read_tag() {
    const size_t begin = pos_;
    const char kind = at(pos_ + 1);
    pos_ += 2;
    if (at(pos_) == '-' || at(pos_) == '+') ++pos_;
    if (kind == '#') {
      const size_t close = view().find("#}", pos_);
      if (close == std::string_view::npos) fail_at(name_, position(begin), "comment without \"#}}\"");
      const char sign = close > pos_ ? text_[close - 1] : '\0';
      pos_ = close + 2;
      strip_after(sign, true);
      return;
    }
    if (kind == '%' && read_raw(begin)) return;
    add(kind == '{' ? TokenKind::expression_begin : TokenKind::block_begin, {}, begin);
    read_expression(begin, kind == '{' ? '}' : '%');
  }

  /// {% raw %} … {% endraw %}
  bool read_raw(size_t begin) {
    size_t pos = skip_blanks(pos_);
    if (view().substr(pos, 3) != "raw") return false;
    pos = skip_blanks(pos + 3);
    char sign = '\0';
    if (at(pos) == '-' || at(pos) == '+') sign = text_[pos++];
    if (view().substr(pos, 2) != "%}") return false;
    pos_ = pos + 2;
    strip_after(sign, true);
    for (size_t tag = view().find("{%", pos_); tag != std::string_view::npos; tag = view().find("{%", tag + 2)) {
      size_t end = tag + 2;
      if (at(end) == '-' || at(end) == '+') ++end;
      end = skip_blanks(end);
      if (view().substr(end, 6) != "endraw") continue;
      end = skip_blanks(end + 6);
      char end_sign = '\0';
      if (at(end) == '-' || at(end) == '+') end_sign = text_[end++];
      if (view().substr(end, 2) != "%}") continue;
      const std::string_view plain = strip_before(view().substr(pos_, tag - pos_), tag);
      if (!plain.empty()) add(TokenKind::text, std::string(plain), pos_);
      pos_ = end + 2;
      strip_after(end_sign, true);
      return true;
    }
    fail_at(name_, position(begin), "raw without endraw");
  }

  size_t skip_blanks(size_t pos) const {
    while (pos < text_.size() && is_blank(text_[pos])) ++pos;
    return pos;
  }

  void read_expression(size_t begin, char closer) {
    std::string open;  // brackets; a closing tag inside them is not one
    for (;;) {
      pos_ = skip_blanks(pos_);
      if (pos_ >= text_.size()) fail_at(name_, position(begin), "tag is not closed, expected \"{}}}\"", closer);
      if (open.empty()) {
        const size_t sign_bytes = at(pos_) == '-' || at(pos_) == '+' ? 1 : 0;
        if (at(pos_ + sign_bytes) == closer && at(pos_ + sign_bytes + 1) == '}') {
          const char sign = sign_bytes != 0 ? text_[pos_] : '\0';
          add(closer == '}' ? TokenKind::expression_end : TokenKind::block_end, {}, pos_);
          pos_ += sign_bytes + 2;
          strip_after(sign, closer == '%');
          return;
        }
      }
      read_token(open);
    }
  }

  void read_token(std::string& open) {
    const char c = text_[pos_];
    const size_t begin = pos_;
    if (is_name_start(c)) {
      while (pos_ < text_.size() && (is_name_start(text_[pos_]) || is_digit(text_[pos_]))) ++pos_;
      if (pos_ - begin > kMaxNameBytes)
        fail_at(name_, position(begin), "name of {} bytes beyond the limit of {}", pos_ - begin, kMaxNameBytes);
      add(TokenKind::name, text_.substr(begin, pos_ - begin), begin);
    } else if (is_digit(c)) {
      read_number();
    } else if (c == '\'' || c == '"') {
      read_string();
    } else {
      read_symbol(open);
    }
  }

  void read_number() {
    const size_t begin = pos_;
    std::string digits;
    bool real = false;
    const auto take_digits = [&] {
      while (is_digit(at(pos_)) || (at(pos_) == '_' && is_digit(at(pos_ + 1)))) {
        if (text_[pos_] != '_') digits.push_back(text_[pos_]);
        ++pos_;
      }
    };
    take_digits();
    if (at(pos_) == '.' && is_digit(at(pos_ + 1))) {
      real = true;
      digits.push_back(text_[pos_++]);
      take_digits();
    }
    if (at(pos_) == 'e' || at(pos_) == 'E') {
      const size_t sign = at(pos_ + 1) == '+' || at(pos_ + 1) == '-' ? 1 : 0;
      if (is_digit(at(pos_ + 1 + sign))) {
        real = true;
        digits.append("e").append(at(pos_ + 1) == '-' ? "-" : "");
        pos_ += 1 + sign;
        take_digits();
      }
    }
    add(real ? TokenKind::real : TokenKind::integer, digits, begin);
    Token& token = tokens_.back();
    const char* const end = digits.data() + digits.size();
    const auto result =
        real ? std::from_chars(digits.data(), end, token.real) : std::from_chars(digits.data(), end, token.integer);
    if (result.ec != std::errc() || result.ptr != end)
      fail_at(name_, token.position, "number {:.40} is out of range", digits);
  }

  void read_string() {
    const size_t begin = pos_;
    const char quote = text_[pos_++];
    std::string out;
    for (;; ++pos_) {
      if (pos_ >= text_.size()) fail_at(name_, position(begin), "string is not closed");
      const char c = text_[pos_];
      if (c == quote) break;
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      read_escape(begin, out);
    }
    ++pos_;
    add(TokenKind::string, std::move(out), begin);
  }

  /// At a backslash; leaves pos_ on the last character of the escape. Unknown escapes stay as written, as in Python.
  void read_escape(size_t string_begin, std::string& out) {
    static constexpr std::array<std::pair<char, char>, 11> kSimple{{{'n', '\n'},
                                                                    {'t', '\t'},
                                                                    {'r', '\r'},
                                                                    {'\\', '\\'},
                                                                    {'\'', '\''},
                                                                    {'"', '"'},
                                                                    {'a', '\a'},
                                                                    {'b', '\b'},
                                                                    {'f', '\f'},
                                                                    {'v', '\v'},
                                                                    {'0', '\0'}}};
    const char c = at(pos_ + 1);
    const auto simple = std::find_if(kSimple.begin(), kSimple.end(), [&](const auto& pair) { return pair.first == c; });
    if (c == '\n') {
      ++pos_;
    } else if (simple != kSimple.end() && pos_ + 1 < text_.size()) {
      ++pos_;
      out.push_back(simple->second);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t num_digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t code = 0;
      const char* const first = text_.data() + std::min(pos_ + 2, text_.size());
      const char* const last = text_.data() + std::min(pos_ + 2 + num_digits, text_.size());
      const auto result = std::from_chars(first, last, code, 16);
      if (result.ptr != first + num_digits || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        fail_at(name_, position(string_begin), "\\{} needs {} hex digits of a character", c, num_digits);
      utf8_append(out, code);
      pos_ += 1 + num_digits;
    } else {
      out.push_back('\\');
    }
  }

  void read_symbol(std::string& open) {
    static constexpr std::array<std::string_view, 6> kTwo{"==", "!=", "<=", ">=", "//", "**"};
    static constexpr std::string_view kOne = "+-*/%~<>=.,:|()[]{}";
    const size_t begin = pos_;
    const std::string_view two = view().substr(pos_, 2);
    const char c = text_[pos_];
    if (std::find(kTwo.begin(), kTwo.end(), two) != kTwo.end()) {
      pos_ += 2;
      add(TokenKind::symbol, std::string(two), begin);
      return;
    }
    if (kOne.find(c) == kOne.npos) fail_at(name_, position(begin), "unexpected character {}", string_for_message(c));
    if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail_at(name_, position(begin), "unexpected \"{}\"", c);
      open.pop_back();
    }
    ++pos_;
    add(TokenKind::symbol, std::string(1, c), begin);
  }

  static std::string string_for_message(char c) {
    return c > ' ' && c < 0x7F ? fmt::format("\"{}\"", c) : fmt::format("0x{:02x}", static_cast<unsigned char>(c));
  }

  std::string name_;
  std::string text_;
  size_t pos_ = 0;
  bool at_line_start_ = true;
  size_t counted_ = 0, line_start_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const Source& source) { return Lexer(source).run(); }

}  // namespace paceline::jinja
