#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/regex_dialect.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <pcre2.h>
#include <utility>
#include <vector>

#include "engine/text/utf8.h"
#include "engine/util/json_io.h"
#include "engine/util/utf8_chars.h"
#include "kernels/error.h"

namespace paceline {

namespace {

// For use inside a class.

/// White_Space of Unicode. PCRE2's own \s also takes U+180E, which left that set in Unicode 6.3.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kPosixWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
/// Outside of classes Oniguruma has superscripts and fractions of Latin-1, too.
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kPosix{{{"alpha", R"(\p{Alphabetic})"},
                                                                                {"alnum", R"(\p{Alphabetic}\p{Nd})"},
                                                                                {"blank", R"(\x{9}\p{Zs})"},
                                                                                {"cntrl", R"(\p{Cc})"},
                                                                                {"digit", R"(\p{Nd})"},
                                                                                {"lower", R"(\p{Lowercase})"},
                                                                                {"punct", R"(\p{P}\p{S})"},
                                                                                {"space", kSpace},
                                                                                {"upper", R"(\p{Uppercase})"},
                                                                                {"word", kPosixWord}}};

/// Whether PCRE2 knows a script of this name.
bool is_script(std::string_view name) {
  const std::string pattern = fmt::format(R"(\p{{sc:{}}})", name);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

/// Of the characters that are not among `ranges`; for use inside a class.
std::string all_but(std::string_view ranges) {
  constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF, kLast = 0x10FFFF;
  const std::string pattern = fmt::format("[{}]", ranges);
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error,
                    &offset, nullptr),
      pcre2_code_free);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(pcre2_match_data_create(1, nullptr),
                                                                                  pcre2_match_data_free);
  PACELINE_CHECK(code && match, "{} at {}", pattern, offset);
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  std::string out;
  int64_t first = -1;  // of the range that goes on; -1: none does
  const auto end_at = [&](uint32_t end) {
    if (first >= 0) out += fmt::format(R"(\x{{{:X}}}-\x{{{:X}}})", first, end - 1);
    first = -1;
  };
  for (uint32_t c = 0; c <= kLast; ++c) {
    const bool is_surrogate = c >= kFirstSurrogate && c <= kLastSurrogate;
    std::string text;
    if (!is_surrogate) utf8_append(text, static_cast<char32_t>(c));
    const bool is_in = !is_surrogate && pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                                    0, PCRE2_NO_UTF_CHECK, match.get(), nullptr) < 0;
    if (is_in && first < 0) first = c;
    if (!is_in) end_at(c);
  }
  end_at(kLast + 1);
  return out;
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string run() {
    constexpr size_t kMostBytes = size_t{1} << 20;
    while (pos_ < pattern_.size()) {
      if (out_.size() > kMostBytes) refuse("grows beyond 1 MiB where its sets are written out");
      const char c = pattern_[pos_];
      const bool is_escape = c == '\\' && pos_ + 1 < pattern_.size();
      if (in_class_) {
        is_escape ? escape() : class_character();
        continue;
      }
      if (c == '{') {
        quantifier();
        continue;
      }
      if (c == ')' && open_groups_.size() > 1) {
        close_options();
        atom_ = open_groups_.back().begin;
        open_groups_.pop_back();
      } else if (c == '(') {
        open_groups_.push_back({.begin = out_.size()});
      } else if (!is_utf8_continuation(c) && c != '*' && c != '+' && c != '?') {
        atom_ = out_.size();
      }
      if (is_escape)
        escape();
      else if (pattern_.substr(pos_).starts_with("(?"))
        group_options();
      else if (c == '[')
        open_class();
      else
        copy(1);
    }
    close_options();
    return std::move(out_);
  }

 private:
  struct Group {
    size_t begin = 0;     // in out_
    int num_options = 0;  // groups that "(?i)" opened within
  };

  /// What "(?i)" opened ends with the group that it stands in.
  void close_options() {
    for (; open_groups_.back().num_options > 0; --open_groups_.back().num_options) out_ += ')';
  }

  /// Past a comment at pos_, if there is one.
  bool skip_comment() {
    if (!pattern_.substr(pos_).starts_with("(?#")) return false;
    for (pos_ += 3; pos_ < pattern_.size() && pattern_[pos_] != ')'; ++pos_)
      if (pattern_[pos_] == '\\') ++pos_;
    pos_ = std::min(pos_ + 1, pattern_.size());
    return true;
  }

  void copy(size_t count) {
    out_ += pattern_.substr(pos_, count);
    pos_ += count;
  }

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::model_file, "{}: pattern {} {}", where_, json_literal(pattern_),
         fmt::format(format, std::forward<Args>(args)...));
  }

  /// A set, or all but it, as a class or as part of one.
  void put_set(std::string_view ranges, bool negated) {
    if (!in_class_)
      out_ += fmt::format("[{}{}]", negated ? "^" : "", ranges);
    else
      out_ += negated ? others(ranges) : std::string(ranges);
  }

  /// all_but(), which takes a twentieth of a second, once for each set.
  const std::string& others(std::string_view ranges) {
    std::string& known = others_[ranges];
    if (known.empty()) known = all_but(ranges);
    return known;
  }

  /// Behind a set a hyphen of a class stands for itself.
  void literal_hyphen() {
    if (!in_class_ || !pattern_.substr(pos_).starts_with('-')) return;
    out_ += "\\-";
    ++pos_;
  }

  void escape() {
    const char next = pattern_[pos_ + 1];
    switch (next) {
      case 'h':
      case 'H': refuse("uses \\{}, which means different things in different libraries", next);
      case 'Q':
      case 'E':
      case 'V': refuse("uses \\{}, which is a letter in one library only", next);
      case 'v':
        out_ += R"(\x{B})";
        pos_ += 2;
        return;
      case 's':
      case 'S': put_set(kSpace, next == 'S'); break;
      case 'w':
      case 'W': put_set(in_class_ ? kPosixWord : kWord, next == 'W'); break;
      case 'u': return code_unit();
      case 'b':
      case 'B': {
        if (in_class_) return copy(2);  // a backspace
        const std::string_view first = next == 'b' ? "!" : "=", second = next == 'b' ? "=" : "!";
        out_ += fmt::format("(?:(?<=[{0}])(?{1}[{0}])|(?<![{0}])(?{2}[{0}]))", kWord, first, second);
        break;
      }
      case 'p':
      case 'P': return property();
      default: return copy(escape_length());
    }
    pos_ += 2;
    literal_hyphen();
  }

  /// Of one that is the same in both: \x41, \x{1F600}, \101, \k<name>, \cA, or a character.
  size_t escape_length() const {
    const std::string_view rest = pattern_.substr(pos_);
    const auto run = [&](size_t from, size_t most, std::string_view digits) {
      size_t end = from;
      while (end < rest.size() && end < from + most && digits.find(rest[end]) != digits.npos) ++end;
      return end;
    };
    const auto behind = [&](char closing) {
      const size_t end = rest.find(closing);
      return end == rest.npos ? size_t{2} : end + 1;
    };
    const char next = rest[1], opening = rest.size() > 2 ? rest[2] : '\0';
    if (next == 'x') return opening == '{' ? behind('}') : run(2, 2, "0123456789abcdefABCDEF");
    if (next >= '0' && next <= '9') return run(1, 3, "0123456789");
    if (next == 'k' || next == 'g') return opening == '<' ? behind('>') : 2;
    return next == 'c' ? std::min<size_t>(3, rest.size()) : 2;
  }

  /// \u with four hexadecimal digits.
  void code_unit() {
    const std::string_view digits = pattern_.substr(pos_ + 2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
      refuse("has \\u without four hexadecimal digits at offset {}", pos_);
    out_ += fmt::format(R"(\x{{{}}})", digits);
    pos_ += 6;
  }

  void property() {
    const size_t end = pattern_.find('}', pos_);
    if (!pattern_.substr(pos_ + 2).starts_with('{') || end == pattern_.npos)
      return copy(std::min<size_t>(3, pattern_.size() - pos_));
    std::string_view name = pattern_.substr(pos_ + 3, end - pos_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    if (name.size() > 2 && is_script(name))
      out_ += fmt::format(R"(\{}{{{}sc:{}}})", pattern_[pos_ + 1], negated ? "^" : "", name);
    else
      out_ += pattern_.substr(pos_, end + 1 - pos_);
    pos_ = end + 1;
  }

  /// "{2}", "{2,}", "{,3}", "{2,3}", with a "+" behind it, or the "?" of "{2}?", which makes it optional; any other
  /// brace stands for itself.
  void quantifier() {
    const size_t end = pattern_.find('}', pos_);
    const std::string_view body = end == pattern_.npos ? "" : pattern_.substr(pos_ + 1, end - pos_ - 1);
    const bool is_one = body.find_first_not_of("0123456789,") == body.npos && std::ranges::count(body, ',') < 2 &&
                        body.find_first_of("0123456789") != body.npos;
    if (!is_one) {
      atom_ = out_.size();
      return copy(1);
    }
    out_ += body.starts_with(',') ? fmt::format("{{0{}}}", body) : fmt::format("{{{}}}", body);
    pos_ = end + 1;
    while (skip_comment()) {
    }
    const std::string_view rest = pattern_.substr(pos_);
    const bool is_optional = rest.starts_with('?') && body.find(',') == body.npos;
    if (!rest.starts_with('+') && !is_optional) return;
    out_.insert(atom_, "(?:");
    out_ += ')';
    copy(1);
  }

  /// "(?mi:", "(?m)": PCRE2's name of what m is there is s. The second opens a group there, up to the end of the one
  /// that it stands in.
  void group_options() {
    if (pattern_.substr(pos_).starts_with("(?#")) {
      open_groups_.pop_back();
      skip_comment();
      return;
    }
    const size_t end = pattern_.find_first_not_of("imx-", pos_ + 2);
    const bool are_options = end != pattern_.npos && end > pos_ + 2 && (pattern_[end] == ':' || pattern_[end] == ')');
    if (!are_options) return copy(2);
    std::string options(pattern_.substr(pos_, end - pos_));
    std::ranges::replace(options, 'm', 's');
    out_ += options;
    pos_ = end;
    if (pattern_[end] == ':') return;
    out_ += ':';
    ++pos_;
    open_groups_.pop_back();
    ++open_groups_.back().num_options;
  }

  void open_class() {
    in_class_ = true;
    copy(1);
    for (const char leading : {'^', ']'})
      if (pattern_.substr(pos_).starts_with(leading)) copy(1);
  }

  void class_character() {
    const std::string_view rest = pattern_.substr(pos_);
    if (rest.starts_with('[')) return posix_class();
    if (rest.starts_with("&&")) refuse("intersects classes with &&, which is not supported");
    in_class_ = !rest.starts_with(']');
    copy(1);
  }

  void posix_class() {
    const size_t end = pattern_.find(":]", pos_);
    std::string_view name = pattern_.substr(pos_).starts_with("[:") && end != pattern_.npos
                                ? pattern_.substr(pos_ + 2, end - pos_ - 2)
                                : "";
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const bool is_name = !name.empty() && std::ranges::all_of(name, [](char c) { return c >= 'a' && c <= 'z'; });
    if (!is_name)
      refuse("has a class within a class at offset {}, which is not supported; a bracket is written \\[", pos_);
    const auto known = std::ranges::find(kPosix, name, &std::pair<std::string_view, std::string_view>::first);
    if (known != kPosix.end()) {
      put_set(known->second, negated);
    } else if (name == "xdigit" || name == "ascii") {
      out_ += pattern_.substr(pos_, end + 2 - pos_);
    } else {
      refuse("has the class [:{}:], which is not supported", name);
    }
    pos_ = end + 2;
    literal_hyphen();
  }

  std::string_view pattern_;
  const std::string& where_;
  std::string out_;
  size_t pos_ = 0;
  size_t atom_ = 0;                                 // in out_, of what a quantifier repeats
  std::vector<Group> open_groups_ = {{}};           // first the pattern
  std::map<std::string_view, std::string> others_;  // by the set: all but it
  bool in_class_ = false;
};

}  // namespace

std::string from_oniguruma(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace paceline
