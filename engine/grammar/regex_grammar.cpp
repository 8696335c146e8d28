#include <string>
#include <vector>

#include "engine/grammar/grammar_sources.h"
#include "engine/grammar/regex_parser.h"

namespace paceline {

namespace {

class RegexBuilder {
 public:
  using Expr = GrammarBuilder::Expr;
  using Kind = RegexNode::Kind;

  RegexBuilder(GrammarBuilder& to, const RegexOptions& options) : to_(to), options_(options) {}

  /// begins, ends: whether the node begins and ends the pattern. There anchors may stand, and a search has other text.
  Expr build(const RegexNode& node, bool begins, bool ends) {
    if (node.kind == Kind::any_of) {
      std::vector<Expr> alternatives;
      for (const RegexNode& child : node.children) alternatives.push_back(build(child, begins, ends));
      return to_.any_of(alternatives);
    }
    std::vector<Expr> parts;
    if (node.kind == Kind::sequence) {
      if (node.children.empty()) add_edged(to_.sequence({}), begins, ends, parts);
      for (size_t i = 0; i < node.children.size(); ++i) {
        add_part(node.children[i], begins && i == 0, ends && i + 1 == node.children.size(), parts);
      }
    } else {
      add_part(node, begins, ends, parts);
    }
    return to_.sequence(parts);
  }

 private:
  static std::string place(const RegexNode& node) { return "character " + std::to_string(node.at + 1); }

  void add_part(const RegexNode& node, bool begins, bool ends, std::vector<Expr>& parts) {
    switch (node.kind) {
      case Kind::text_begins:
        if (!begins) throw GrammarError(place(node), "^ is supported where the pattern begins");
        add_edged(to_.sequence({}), false, ends, parts);
        break;
      case Kind::text_ends:
        if (!ends) throw GrammarError(place(node), "$ is supported where the pattern ends");
        add_edged(to_.sequence({}), begins, false, parts);
        break;
      case Kind::characters: add_edged(spelled(node.ranges), begins, ends, parts); break;
      case Kind::repeat: {
        if (node.has_anchor) throw GrammarError(place(node), "^ and $ are not supported in what is repeated");
        const Expr part = build(node.children.front(), false, false);
        add_edged(to_.repeat(part, node.least, node.most), begins, ends, parts);
        break;
      }
      case Kind::sequence:
      case Kind::any_of:
        if (node.has_anchor) {
          parts.push_back(build(node, begins, ends));
        } else {
          add_edged(build(node, false, false), begins, ends, parts);
        }
        break;
    }
  }

  /// A part with the text around a match.
  void add_edged(Expr part, bool begins, bool ends, std::vector<Expr>& parts) {
    const bool other_text = options_.search && (begins || ends);
    const Expr any = other_text ? to_.repeat(spelled({{0, kLastCode}}), 0, GrammarBuilder::kUnbounded) : part;
    if (options_.search && begins) parts.push_back(any);
    parts.push_back(part);
    if (options_.search && ends) parts.push_back(any);
  }

  Expr spelled(const std::vector<CodeRange>& ranges) {
    if (!options_.characters) return to_.characters(ranges);
    return options_.characters(tidy_ranges(ranges));
  }

  GrammarBuilder& to_;
  const RegexOptions& options_;
};

}  // namespace

GrammarBuilder::Expr add_regex(GrammarBuilder& to, std::string_view pattern, const RegexOptions& options) {
  return RegexBuilder(to, options).build(parse_regex(pattern, to.limits().max_depth), true, true);
}

ByteGrammar regex_grammar(std::string_view pattern, const GrammarLimits& limits) {
  GrammarBuilder builder(limits);
  return builder.finish(add_regex(builder, pattern));
}

ByteGrammar choice_grammar(std::span<const std::string> choices, const GrammarLimits& limits) {
  GrammarBuilder builder(limits);
  std::vector<GrammarBuilder::Expr> texts;
  for (const std::string& choice : choices) texts.push_back(builder.text(choice));
  return builder.finish(builder.any_of(texts));
}

}  // namespace paceline
