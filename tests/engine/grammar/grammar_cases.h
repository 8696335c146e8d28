#pragma once
// Grammars of all sources over the bytes a, b and c, and one of JSON.

#include <string>
#include <vector>

#include "engine/grammar/grammar_sources.h"

namespace paceline::test {

/// What is said of a grammar that is not taken.
template <class Make>
std::string complaint_of(const Make& make) {
  try {
    make();
    return "taken";
  } catch (const GrammarError& error) {
    return error.what();
  }
}

struct GrammarCase {
  std::string name;
  ByteGrammar grammar;
};

inline constexpr const char* kJsonEbnf = R"(
root   ::= ws value ws
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( pair ( "," ws pair )* )? "}"
pair   ::= string ws ":" ws value ws
array  ::= "[" ws ( value ws ( "," ws value ws )* )? "]"   # a comment
string ::= "\"" ( [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""
number ::= "-"? ( "0" | [1-9] [0-9]* ) ( "." [0-9]+ )? ( [eE] [-+]? [0-9]+ )?
ws     ::= [ \t\n\r]*
)";

inline std::vector<GrammarCase> small_grammars() {
  std::vector<GrammarCase> cases;
  for (const char* pattern :
       {"a*b", "(a|b)*abb", "(a?){3}b", "(a{0,2}){2}b", "(a*)*", "(a*b*)*c", "(ab|a)(bc|c)?", "a{2,4}", "a{3}",
        "a{0,9}b?", "(a|ab|abc)+", "(?:a{1,2}){2,3}", "[^a]+", "((a|b)?c?){0,4}", "a{2,}", "(|a)(|b)(|c)"}) {
    cases.push_back({std::string("regex ") + pattern, regex_grammar(pattern)});
  }
  for (const char* source :
       {"root ::= \"a\" root \"b\" | \"\"", "root ::= s s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"a\"",
        "root ::= \"a\" root? root? | \"b\"", "root ::= x? x? x? \"c\"\nx ::= y? y?\ny ::= \"a\" | \"b\"",
        "root ::= s | w | \"aa\" w\nw ::= s \"c\"\ns ::= \"a\" s | \"a\" t \"b\" | \"b\"\nt ::= s",
        "root ::= (\"a\" | \"b\" root \"b\" | \"b\" root \"c\")*", "root ::= p{0,3}\np ::= \"(\" p* \")\" | [abc]",
        "root ::= e\ne ::= t (\"b\" e)?\nt ::= \"a\" | \"c\" e \"c\""}) {
    cases.push_back({source, ebnf_grammar(source)});
  }
  const std::vector<std::string> choices = {"a", "ab", "abc", "b", "bca", "cc", ""};
  cases.push_back({"choices", choice_grammar(choices)});
  return cases;
}

}  // namespace paceline::test
