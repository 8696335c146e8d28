#include "engine/text/word_scanner.h"

#include "engine/text/char_class.h"

namespace paceline {

namespace {

enum class Contractions { none, lower_case, any_case };

/// A view of one text with the classes at hand.
class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text), classes_(CharClasses::get()) {}
  size_t size() const { return text_.size(); }
  char byte(size_t pos) const { return text_[pos]; }
  ClassedChar at(size_t pos) const { return classes_.at(text_, pos); }
  bool is_at(size_t pos, unsigned wanted) const { return pos < size() && (at(pos).classes & wanted) != 0; }
  /// End of the characters of `wanted` from `pos` on.
  size_t skip(size_t pos, unsigned wanted) const {
    while (pos < size()) {
      const ClassedChar c = at(pos);
      if ((c.classes & wanted) == 0) break;
      pos += c.num_bytes;
    }
    return pos;
  }
  size_t skip_at_most(size_t pos, unsigned wanted, int most) const {
    for (; most > 0 && is_at(pos, wanted); --most) pos += at(pos).num_bytes;
    return pos;
  }
  /// End of the characters that are in none of `unwanted`.
  size_t skip_others(size_t pos, unsigned unwanted) const {
    while (pos < size()) {
      const ClassedChar c = at(pos);
      if ((c.classes & unwanted) != 0) break;
      pos += c.num_bytes;
    }
    return pos;
  }
  size_t skip_line_ends(size_t pos, bool and_slashes) const {
    while (pos < size() && (byte(pos) == '\r' || byte(pos) == '\n' || (and_slashes && byte(pos) == '/'))) ++pos;
    return pos;
  }

  /// End of 's 't 're 've 'm 'll 'd at `pos`, or `pos`. Regardless of case, U+017F is an s.
  size_t skip_contraction(size_t pos, Contractions kind) const {
    if (kind == Contractions::none || pos + 1 >= size() || byte(pos) != '\'') return pos;
    const bool any_case = kind == Contractions::any_case;
    const auto letter = [&](size_t i) -> char {
      if (i >= size()) return 0;
      const char c = byte(i);
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    };
    const char first = letter(pos + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return pos + 2;
    if (any_case && text_.substr(pos + 1, 2) == "\u017F") return pos + 3;
    const char second = letter(pos + 2);
    if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')) return pos + 3;
    return pos;
  }

  /// \s+(?!\S)|\s+ at white space: all of a run at the end of the text, else all but its last character, or that one.
  size_t skip_blanks(size_t pos) const {
    const size_t begin = pos;
    size_t last = pos;
    while (pos < size()) {
      const ClassedChar c = at(pos);
      if ((c.classes & kWhite) == 0) break;
      last = pos;
      pos += c.num_bytes;
    }
    return pos == size() || last == begin ? pos : last;
  }

  /// \s*[\r\n]+ at white space: end of the last line end in the run, or `pos`.
  size_t skip_lines(size_t pos) const {
    size_t end = pos;
    while (pos < size()) {
      const ClassedChar c = at(pos);
      if ((c.classes & kWhite) == 0) break;
      pos += c.num_bytes;
      if ((c.classes & kLineEnd) != 0) end = pos;
    }
    return end;
  }

 private:
  std::string_view text_;
  const CharClasses& classes_;
};

constexpr unsigned kNoOther = kLetter | kNumber | kWhite;  // what [^\s\p{L}\p{N}] leaves out

size_t scan_gpt2(std::string_view text, size_t pos) {
  const Scan scan(text);
  if (const size_t end = scan.skip_contraction(pos, Contractions::lower_case); end != pos) return end;
  const size_t begin = pos + (text[pos] == ' ');
  if (begin < text.size()) {
    const unsigned classes = scan.at(begin).classes;
    if ((classes & kLetter) != 0) return scan.skip(begin, kLetter);
    if ((classes & kNumber) != 0) return scan.skip(begin, kNumber);
    if ((classes & kWhite) == 0) return scan.skip_others(begin, kNoOther);
  }
  return scan.skip_blanks(pos);
}

/// What all later patterns end with: digits, the rest with its line ends, white space.
size_t scan_tail(const Scan& scan, size_t pos, int most_digits, bool and_slashes) {
  const ClassedChar c = scan.at(pos);
  if ((c.classes & kNumber) != 0) return scan.skip_at_most(pos, kNumber, most_digits);
  const size_t begin = pos + (scan.byte(pos) == ' ');
  if (begin < scan.size() && (scan.at(begin).classes & kNoOther) == 0)
    return scan.skip_line_ends(scan.skip_others(begin, kNoOther), and_slashes);
  if (const size_t end = scan.skip_lines(pos); end != pos) return end;
  return scan.skip_blanks(pos);
}

/// Where the letters begin after the one character [^\r\n\p{L}\p{N}]? that may stand before them.
size_t skip_lead(const Scan& scan, size_t pos) {
  const ClassedChar c = scan.at(pos);
  return (c.classes & (kLetter | kNumber | kLineEnd)) == 0 ? pos + c.num_bytes : pos;
}

template <int most_digits>
size_t scan_cl100k(std::string_view text, size_t pos) {
  const Scan scan(text);
  if (const size_t end = scan.skip_contraction(pos, Contractions::any_case); end != pos) return end;
  const size_t letters = skip_lead(scan, pos);
  if (scan.is_at(letters, kLetter)) return scan.skip(letters, kLetter);
  return scan_tail(scan, pos, most_digits, false);
}

constexpr unsigned kHead = kUpperish | kOtherLetter | kMark;  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
constexpr unsigned kBody = kLower | kOtherLetter | kMark;     // [\p{Ll}\p{Lm}\p{Lo}\p{M}]

/// The longest Head* Body+ from `pos`, as backtracking finds it: heads are taken while they last, then given back up to
/// the last that is a body too. `pos` where there is none.
size_t skip_capitalized(const Scan& scan, size_t pos) {
  size_t last_both = scan.size(), end = pos;
  while (end < scan.size()) {
    const ClassedChar c = scan.at(end);
    if ((c.classes & kHead) == 0) break;
    if ((c.classes & kBody) != 0) last_both = end;
    end += c.num_bytes;
  }
  if (scan.is_at(end, kBody)) return scan.skip(end, kBody);
  if (last_both == scan.size()) return pos;
  return scan.skip(last_both, kBody);
}

template <Contractions contractions, int most_digits>
size_t scan_o200k(std::string_view text, size_t pos) {
  const Scan scan(text);
  // Both alternatives are tried with the character before the letters, then without: a mark may be either.
  const size_t letters = skip_lead(scan, pos);
  for (const size_t begin : {letters, pos}) {
    const size_t end = begin < text.size() ? skip_capitalized(scan, begin) : begin;
    if (end != begin) return scan.skip_contraction(end, contractions);
  }
  for (const size_t begin : {letters, pos}) {  // Head+ Body*, with no body at hand
    if (scan.is_at(begin, kHead)) return scan.skip_contraction(scan.skip(begin, kHead), contractions);
  }
  return scan_tail(scan, pos, most_digits, true);
}

}  // namespace

const WordPattern kGpt2Words = {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                                scan_gpt2};

const WordPattern kLlama3Words = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                                  R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                                  scan_cl100k<3>};

const WordPattern kQwen2Words = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                 R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                                 scan_cl100k<1>};

const WordPattern kGpt4oWords = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    scan_o200k<Contractions::any_case, 3>};

const WordPattern kTekkenWords = {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                  R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                  R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                                  scan_o200k<Contractions::none, 1>};

WordScanner find_word_scanner(std::string_view regex) {
  for (const WordPattern* pattern : {&kGpt2Words, &kLlama3Words, &kQwen2Words, &kGpt4oWords, &kTekkenWords}) {
    if (pattern->regex == regex) return pattern->scan;
  }
  return nullptr;
}

}  // namespace paceline
