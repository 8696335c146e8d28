#include "engine/grammar/regex_parser.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/grammar/grammar_builder.h"
#include "engine/grammar/source_reader.h"

namespace paceline {

namespace {

class RegexParser {
 public:
  RegexParser(std::string_view pattern, int max_depth)
      : in_(pattern, SourceReader::Place::character), max_depth_(max_depth) {}

  RegexNode parse() {
    RegexNode root = alternatives();
    if (!in_.at_end()) in_.fail("\")\" without \"(\"");
    return root;
  }

 private:
  using Kind = RegexNode::Kind;
  using Ranges = std::vector<CodeRange>;

  static RegexNode characters(Ranges ranges) { return {.kind = Kind::characters, .ranges = tidy_ranges(ranges)}; }
  static void adopt(RegexNode& parent, RegexNode child) {
    parent.has_anchor = parent.has_anchor || child.has_anchor;
    parent.children.push_back(std::move(child));
  }

  RegexNode alternatives() {
    RegexNode any{.kind = Kind::any_of, .at = in_.at()};
    do {
      RegexNode sequence{.kind = Kind::sequence, .at = in_.at()};
      while (!in_.at_end() && in_.peek() != U'|' && in_.peek() != U')') adopt(sequence, quantified());
      adopt(any, std::move(sequence));
    } while (in_.take(U'|'));
    return any.children.size() == 1 ? std::move(any.children.front()) : std::move(any);
  }

  RegexNode quantified() {
    const size_t at = in_.at();
    RegexNode node = atom();
    node.at = at;
    for (bool first = true;; first = false) {
      const size_t quantifier = in_.at();
      int least = 0, most = GrammarBuilder::kUnbounded;
      if (!in_.take_quantifier(least, most) && !bounds(least, most)) return node;
      if (!first) in_.fail_at(quantifier, "a quantifier of a quantifier");
      if (node.kind == Kind::text_begins || node.kind == Kind::text_ends) {
        in_.fail_at(quantifier, "a quantifier of an anchor");
      }
      if (most != GrammarBuilder::kUnbounded && least > most) in_.fail_at(quantifier, "bounds in the wrong order");
      if (in_.peek() == U'+') in_.fail("possessive quantifiers are not supported");
      in_.take(U'?');  // lazy: the same texts match
      RegexNode repeat{.kind = Kind::repeat, .least = least, .most = most, .at = at};
      adopt(repeat, std::move(node));
      node = std::move(repeat);
    }
  }

  /// {2}, {2,} and {2,3}. Anything else in braces is text.
  bool bounds(int& least, int& most) {
    const size_t begin = in_.at();
    if (in_.take(U'{')) {
      least = in_.number();
      if (least >= 0) {
        most = least;
        if (in_.take(U',')) {
          most = in_.number();
          if (most < 0) most = GrammarBuilder::kUnbounded;
        }
        if (in_.take(U'}')) return true;
      } else if (in_.peek() == U',' && in_.peek(1) >= U'0' && in_.peek(1) <= U'9') {
        in_.fail_at(begin, "a bound without a lower one means different things in different languages");
      }
    }
    in_.go_to(begin);
    return false;
  }

  RegexNode atom() {
    const size_t at = in_.at();
    const char32_t code = in_.next();
    switch (code) {
      case U'(': return group(at);
      case U'[': return characters(char_class(at));
      case U'.': return characters(other_codes(Ranges{{U'\n', U'\n'}, {U'\r', U'\r'}, {0x2028, 0x2029}}));
      case U'^': return {.kind = Kind::text_begins, .has_anchor = true};
      case U'$': return {.kind = Kind::text_ends, .has_anchor = true};
      case U'\\': return characters(escape(at, false));
      case U'*':
      case U'+':
      case U'?': in_.fail_at(at, "a quantifier without what it repeats");
      default: return characters({{code, code}});
    }
  }

  RegexNode group(size_t at) {
    if (in_.take(U'?')) {
      if (in_.peek() == U'=' || in_.peek() == U'!' ||
          (in_.peek() == U'<' && (in_.peek(1) == U'=' || in_.peek(1) == U'!'))) {
        in_.fail_at(at, "look-around is not supported");
      }
      if (in_.peek() == U'>') in_.fail_at(at, "atomic groups are not supported");
      if (in_.peek() == U'P' && in_.peek(1) == U'=') in_.fail_at(at, "back references are not supported");
      if (in_.peek() == U'#') in_.fail_at(at, "comments are not supported");
      if (in_.take(U"<") || in_.take(U"P<")) {
        while (in_.next() != U'>') continue;
      } else if (!in_.take(U':')) {
        in_.fail_at(at, "flags, conditions and recursion are not supported");
      }
    }
    if (++depth_ > max_depth_) in_.fail_at(at, "groups nested deeper than " + std::to_string(max_depth_));
    RegexNode node = alternatives();
    --depth_;
    if (!in_.take(U')')) in_.fail_at(at, "\"(\" without \")\"");
    return node;
  }

  Ranges char_class(size_t at) {
    const bool is_other = in_.take(U'^');
    Ranges ranges;
    if (in_.peek() == U']') in_.fail_at(at, "an empty class means different things in different languages");
    while (!in_.take(U']')) {
      const size_t begin = in_.at();
      if (in_.at_end()) in_.fail_at(at, "\"[\" without \"]\"");
      if (in_.peek() == U'[' && in_.peek(1) == U':') in_.fail("POSIX classes are not supported");
      const Ranges first = class_item();
      if (in_.peek() == U'-' && in_.peek(1) != U']' && in_.peek(1) != SourceReader::kNone) {
        in_.next();
        const Ranges last = class_item();
        if (!is_one(first) || !is_one(last)) in_.fail_at(begin, "a range between classes");
        if (first[0][0] > last[0][0]) in_.fail_at(begin, "a range in the wrong order");
        ranges.push_back({first[0][0], last[0][0]});
      } else {
        ranges.insert(ranges.end(), first.begin(), first.end());
      }
    }
    return is_other ? other_codes(ranges) : ranges;
  }
  static bool is_one(const Ranges& ranges) { return ranges.size() == 1 && ranges[0][0] == ranges[0][1]; }

  Ranges class_item() {
    const size_t at = in_.at();
    const char32_t code = in_.next();
    if (code == U'\\') return escape(at, true);
    return {{code, code}};
  }

  Ranges escape(size_t at, bool in_class) {
    const char32_t code = in_.next();
    const auto one = [](char32_t is) { return Ranges{{is, is}}; };
    static const Ranges kDigits = {{U'0', U'9'}};
    static const Ranges kWord = {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}};
    static const Ranges kBlank = {{U'\t', U'\r'},   {U' ', U' '},     {0xA0, 0xA0},     {0x1680, 0x1680},
                                  {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                  {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    switch (code) {
      case U'd': return kDigits;
      case U'D': return other_codes(kDigits);
      case U'w': return kWord;
      case U'W': return other_codes(kWord);
      case U's': return kBlank;
      case U'S': return other_codes(kBlank);
      case U't': return one(U'\t');
      case U'n': return one(U'\n');
      case U'r': return one(U'\r');
      case U'f': return one(U'\f');
      case U'v': return one(U'\v');
      case U'x': return one(in_.hex(2));
      case U'u': return one(unicode(at));
      case U'0':
        if (in_.peek() >= U'0' && in_.peek() <= U'9') in_.fail_at(at, "octal escapes are not supported");
        return one(0);
      case U'c': {
        const char32_t letter = in_.next();
        const bool is_letter = (letter >= U'a' && letter <= U'z') || (letter >= U'A' && letter <= U'Z');
        if (!is_letter) in_.fail_at(at, "\\c without a letter");
        return one(letter % 32);
      }
      case U'b':
        if (in_class) return one(U'\b');
        [[fallthrough]];
      case U'B': in_.fail_at(at, "word borders are not supported");
      case U'p':
      case U'P': in_.fail_at(at, "classes by Unicode property are not supported");
      case U'k': in_.fail_at(at, "back references are not supported");
      case U'A':
      case U'Z':
      case U'z': in_.fail_at(at, "anchors but ^ and $ are not supported");
      default: break;
    }
    if (code >= U'1' && code <= U'9') in_.fail_at(at, "back references are not supported");
    if ((code >= U'a' && code <= U'z') || (code >= U'A' && code <= U'Z')) in_.fail_at(at, "an unknown escape");
    return one(code);
  }

  char32_t unicode(size_t at) {
    if (in_.take(U'{')) {
      int digits = 0;
      while (in_.peek(size_t(digits)) != U'}' && digits < 7) ++digits;
      const char32_t code = in_.hex(std::max(1, digits));
      if (!in_.take(U'}')) in_.fail_at(at, "\\u{ without }");
      return code;
    }
    const char32_t code = in_.hex(4);
    if (code < 0xD800 || code > 0xDFFF) return code;
    if (code < 0xDC00 && in_.take(U"\\u")) {  // a pair of surrogates
      const char32_t second = in_.hex(4);
      if (second >= 0xDC00 && second <= 0xDFFF) return 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
    }
    in_.fail_at(at, "half of a surrogate pair");
  }

  SourceReader in_;
  const int max_depth_;
  int depth_ = 0;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern, int max_depth) { return RegexParser(pattern, max_depth).parse(); }

}  // namespace paceline
