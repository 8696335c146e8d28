#include <map>
#include <string>
#include <vector>

#include "engine/grammar/grammar_sources.h"
#include "engine/grammar/source_reader.h"
#include "engine/text/utf8.h"

namespace paceline {

namespace {

class EbnfParser {
 public:
  EbnfParser(std::string_view source, const GrammarLimits& limits)
      : in_(source, SourceReader::Place::line), builder_(limits) {}

  ByteGrammar parse() {
    for (skip_blanks(); !in_.at_end(); skip_blanks()) {
      const size_t at = in_.at();
      if (!begins_rule()) in_.fail("expected a rule: name ::= ...");
      Rule& rule = rule_of(name());
      skip_blanks();
      in_.take(U"::=");
      if (rule.is_defined) in_.fail_at(at, "the rule has a definition already");
      rule.is_defined = true;
      const Expr body = alternatives();
      builder_.define(rule.expr, body);
    }
    for (const auto& [name, rule] : rules_) {
      if (!rule.is_defined) in_.fail_at(rule.used_at, "the rule \"" + name + "\" is not defined");
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw GrammarError("", "the grammar has no rule \"root\"");
    return builder_.finish(root->second.expr);
  }

 private:
  using Expr = GrammarBuilder::Expr;
  struct Rule {
    Expr expr;
    size_t used_at;  // the first time
    bool is_defined = false;
  };

  static bool is_of_name(char32_t code) {
    return (code >= U'a' && code <= U'z') || (code >= U'A' && code <= U'Z') || (code >= U'0' && code <= U'9') ||
           code == U'-' || code == U'_';
  }
  void skip_blanks() {
    for (; !in_.at_end(); in_.next()) {
      if (in_.peek() == U'#') {
        while (!in_.at_end() && in_.peek() != U'\n') in_.next();
        if (in_.at_end()) return;
      } else if (in_.peek() != U' ' && in_.peek() != U'\t' && in_.peek() != U'\n' && in_.peek() != U'\r') {
        return;
      }
    }
  }

  /// Whether a name and ::= come next.
  bool begins_rule() {
    const size_t at = in_.at();
    bool is_rule = is_of_name(in_.peek());
    if (is_rule) {
      name();
      skip_blanks();
      is_rule = in_.take(U"::=");
    }
    in_.go_to(at);
    return is_rule;
  }
  std::string name() {
    std::string name;
    while (is_of_name(in_.peek())) name += char(in_.next());
    return name;
  }
  Rule& rule_of(const std::string& name) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    return rules_.emplace(name, Rule{.expr = builder_.declare(name), .used_at = in_.at() - name.size()}).first->second;
  }

  Expr alternatives() {
    std::vector<Expr> any;
    do {
      std::vector<Expr> parts;
      for (skip_blanks(); !in_.at_end() && in_.peek() != U'|' && in_.peek() != U')' && !begins_rule(); skip_blanks()) {
        parts.push_back(repeated(element()));
      }
      any.push_back(builder_.sequence(parts));
    } while (in_.take(U'|'));
    if (in_.peek() == U')' && depth_ == 0) in_.fail("\")\" without \"(\"");
    return builder_.any_of(any);
  }

  Expr repeated(Expr part) {
    for (;;) {
      const size_t at = in_.at();
      int least = 0, most = GrammarBuilder::kUnbounded;
      if (in_.take_quantifier(least, most)) {
      } else if (in_.take(U'{')) {
        skip_blanks();
        least = in_.number();
        most = least;
        if (least < 0) least = 0;
        skip_blanks();
        if (in_.take(U',')) {
          skip_blanks();
          most = in_.number();
          if (most < 0) most = GrammarBuilder::kUnbounded;
        } else if (most < 0) {
          in_.fail_at(at, "expected {2}, {2,} or {2,3}");
        }
        skip_blanks();
        if (!in_.take(U'}')) in_.fail_at(at, "expected {2}, {2,} or {2,3}");
        if (most != GrammarBuilder::kUnbounded && least > most) in_.fail_at(at, "bounds in the wrong order");
      } else {
        return part;
      }
      part = builder_.repeat(part, least, most);
    }
  }

  Expr element() {
    const size_t at = in_.at();
    if (in_.take(U'(')) {
      if (in_.peek() == U'=' || in_.peek() == U'!') in_.fail_at(at, "look-ahead is not supported");
      if (++depth_ > builder_.limits().max_depth) {
        in_.fail_at(at, "groups nested deeper than " + std::to_string(builder_.limits().max_depth));
      }
      const Expr group = alternatives();
      --depth_;
      if (!in_.take(U')')) in_.fail_at(at, "\"(\" without \")\"");
      return group;
    }
    if (in_.take(U'"')) return literal(at);
    if (in_.take(U'[')) return char_class(at);
    if (in_.take(U'.')) return builder_.characters(std::vector<CodeRange>{{0, kLastCode}});
    if (in_.peek() == U'<' || in_.peek() == U'!') in_.fail("tokens are not supported, only their texts");
    if (in_.peek() == U'/') in_.fail("regular expressions are not supported within EBNF");
    if (!is_of_name(in_.peek())) in_.fail("expected a name, a text in \"\", a class in [] or a group in ()");
    return rule_of(name()).expr;
  }

  Expr literal(size_t at) {
    std::string text;
    while (!in_.take(U'"')) {
      if (in_.at_end() || in_.peek() == U'\n') in_.fail_at(at, "a text without a second \"");
      utf8_append(text, character());
    }
    return builder_.text(text);
  }

  Expr char_class(size_t at) {
    const bool is_other = in_.take(U'^');
    std::vector<CodeRange> ranges;
    while (!in_.take(U']')) {
      if (in_.at_end() || in_.peek() == U'\n') in_.fail_at(at, "\"[\" without \"]\"");
      const size_t begin = in_.at();
      const char32_t first = character();
      char32_t last = first;
      if (in_.peek() == U'-' && in_.peek(1) != U']') {
        in_.next();
        last = character();
      }
      if (first > last) in_.fail_at(begin, "a range in the wrong order");
      ranges.push_back({first, last});
    }
    return builder_.characters(is_other ? other_codes(ranges) : ranges);
  }

  char32_t character() {
    const size_t at = in_.at();
    const char32_t code = in_.next();
    if (code != U'\\') return code;
    const char32_t escaped = in_.next();
    switch (escaped) {
      case U'n': return U'\n';
      case U'r': return U'\r';
      case U't': return U'\t';
      case U'f': return U'\f';
      case U'v': return U'\v';
      case U'b': return U'\b';
      case U'0': return 0;
      case U'x': return in_.hex(2);
      case U'u': return scalar(at, in_.hex(4));
      case U'U': return scalar(at, in_.hex(8));
      default: break;
    }
    if (is_of_name(escaped) && escaped != U'-' && escaped != U'_') {
      in_.fail_at(at, "an unknown escape");
    }
    return escaped;
  }
  char32_t scalar(size_t at, char32_t code) {
    if (code >= 0xD800 && code <= 0xDFFF) in_.fail_at(at, "half of a surrogate pair");
    return code;
  }

  SourceReader in_;
  GrammarBuilder builder_;
  std::map<std::string, Rule> rules_;
  int depth_ = 0;
};

}  // namespace

ByteGrammar ebnf_grammar(std::string_view source, const GrammarLimits& limits) {
  return EbnfParser(source, limits).parse();
}

}  // namespace paceline
