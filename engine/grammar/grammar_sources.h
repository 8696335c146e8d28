#pragma once
// Grammars of choices, regular expressions and EBNF. JSON Schema is in json_schema.h. All throw GrammarError.

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "engine/grammar/grammar_builder.h"

namespace paceline {

/// One of these texts.
ByteGrammar choice_grammar(std::span<const std::string> choices, const GrammarLimits& limits = {});

struct RegexOptions {
  /// Any text with a match in it, as JSON Schema's `pattern` means it; false: the whole text is the match. ^ and $ are
  /// taken at the edges of the pattern in both.
  bool search = false;
  /// How one character of a set is spelled, of sorted ranges that do not touch; none: in UTF-8. For texts within
  /// texts, as strings of JSON are, with their escapes.
  std::function<GrammarBuilder::Expr(std::span<const CodeRange>)> characters;
};
/// The syntax that JavaScript, Python and Rust agree on. \d, \w and \s are ASCII's, as in JavaScript (\s: with
/// Unicode's blanks); `.` is any character but line ends. Refused by name: look-around, back references, word borders,
/// \p, atomic groups, possessive quantifiers, flags. A lazy quantifier means what a greedy one does, as no text is cut
/// by it.
ByteGrammar regex_grammar(std::string_view pattern, const GrammarLimits& limits = {});
GrammarBuilder::Expr add_regex(GrammarBuilder& to, std::string_view pattern, const RegexOptions& options = {});

/// The EBNF of llama.cpp (GBNF) and of xgrammar, which vLLM's `grammar` takes: `root ::= ...`.
ByteGrammar ebnf_grammar(std::string_view source, const GrammarLimits& limits = {});

}  // namespace paceline
