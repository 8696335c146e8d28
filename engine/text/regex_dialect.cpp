#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/regex_dialect.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <pcre2.h>
#include <utility>
#include <vector>

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

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string run() {
    while (pos_ < pattern_.size()) {
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
      if (c == ')' && !open_groups_.empty()) {
        atom_ = open_groups_.back();
        open_groups_.pop_back();
      } else if (c == '(') {
        open_groups_.push_back(out_.size());
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
    return std::move(out_);
  }

 private:
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
    else if (!negated)
      out_ += ranges;
    else if (ranges.starts_with("\\p{") && ranges.find('}') + 1 == ranges.size())
      out_ += fmt::format("\\P{}", ranges.substr(2));  // of one property
    else
      refuse("has a negated set within a class at offset {}, which is not supported", pos_);
  }

  void escape() {
    const char next = pattern_[pos_ + 1];
    switch (next) {
      case 'h':
      case 'H': refuse("uses \\{}, which means different things in different libraries", next);
      case 's': put_set(kSpace, false); break;
      case 'w':
      case 'W': put_set(in_class_ ? kPosixWord : kWord, next == 'W'); break;
      case 'S':
        if (in_class_) return copy(2);  // the same but for U+180E
        put_set(kSpace, true);
        break;
      case 'b':
      case 'B': {
        if (in_class_) return copy(2);  // a backspace
        const std::string_view first = next == 'b' ? "!" : "=", second = next == 'b' ? "=" : "!";
        out_ += fmt::format("(?:(?<=[{0}])(?{1}[{0}])|(?<![{0}])(?{2}[{0}]))", kWord, first, second);
        break;
      }
      case 'p':
      case 'P': return property();
      default: return copy(2);
    }
    pos_ += 2;
  }

  void property() {
    const size_t end = pattern_.find('}', pos_);
    if (!pattern_.substr(pos_ + 2).starts_with('{') || end == pattern_.npos) return copy(2);
    std::string_view name = pattern_.substr(pos_ + 3, end - pos_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    if (name.size() > 2 && is_script(name))
      out_ += fmt::format(R"(\{}{{{}sc:{}}})", pattern_[pos_ + 1], negated ? "^" : "", name);
    else
      out_ += pattern_.substr(pos_, end + 1 - pos_);
    pos_ = end + 1;
  }

  /// "{2}", "{2,}", "{,3}", "{2,3}", and a "+" behind it; any other brace stands for itself.
  void quantifier() {
    const size_t end = pattern_.find('}', pos_);
    const std::string_view body = end == pattern_.npos ? "" : pattern_.substr(pos_ + 1, end - pos_ - 1);
    const bool is_one = body.find_first_not_of("0123456789,") == body.npos && std::ranges::count(body, ',') < 2 &&
                        body.find_first_of("0123456789") != body.npos;
    if (!is_one) return copy(1);
    out_ += body.starts_with(',') ? fmt::format("{{0{}}}", body) : fmt::format("{{{}}}", body);
    pos_ = end + 1;
    if (pattern_.substr(pos_).starts_with('+')) {
      out_.insert(atom_, "(?:");
      out_ += ")+";
      ++pos_;
    }
  }

  /// "(?mi:", "(?m)": PCRE2's name of what m is there is s.
  void group_options() {
    const size_t end = pattern_.find_first_not_of("imx-", pos_ + 2);
    const bool are_options = end != pattern_.npos && end > pos_ + 2 && (pattern_[end] == ':' || pattern_[end] == ')');
    if (!are_options) return copy(2);
    std::string options(pattern_.substr(pos_, end - pos_));
    std::ranges::replace(options, 'm', 's');
    out_ += options;
    pos_ = end;
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
  }

  std::string_view pattern_;
  const std::string& where_;
  std::string out_;
  size_t pos_ = 0;
  size_t atom_ = 0;  // in out_, of what a quantifier repeats
  std::vector<size_t> open_groups_;
  bool in_class_ = false;
};

}  // namespace

std::string from_oniguruma(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace paceline
