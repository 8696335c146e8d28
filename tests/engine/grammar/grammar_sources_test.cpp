// What each source of a grammar takes, and what it refuses.

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/grammar/stack_machine.h"
#include "engine/text/regex.h"
#include "engine/text/utf8.h"
#include "tests/engine/grammar/grammar_cases.h"

namespace paceline::test {
namespace {

class Reader {
 public:
  explicit Reader(ByteGrammar grammar) : machine_(std::move(grammar)) {}
  bool matches(std::string_view text) {
    StackMachine::State state = machine_.start();
    for (const char c : text) state = machine_.advance(state, uint8_t(c));
    return machine_.complete(state);
  }

 private:
  StackMachine machine_;
};

std::string regex_complaint(const std::string& pattern) {
  return complaint_of([&] { regex_grammar(pattern); });
}
std::string ebnf_complaint(const std::string& source) {
  return complaint_of([&] { ebnf_grammar(source); });
}

// PCRE2 says what matches. Patterns without what the two read differently: \s and \w of other alphabets.
TEST(GrammarSources, RegularExpressionsMatchWhatPcreMatches) {
  const std::vector<std::string> patterns = {"a+b?",
                                             "(a|b)*c",
                                             "[a-c]{2,3}",
                                             "[^a-c]+",
                                             "x*(ab|a)(bc|c)?",
                                             "(?:ab){1,2}|c",
                                             "\\d{1,3}(\\.\\d+)?",
                                             "a.c",
                                             "[\\d.-]+",
                                             "[x\\]]+",
                                             "(a*)*b",
                                             "(a|ab)(c|bcd)(d*)",
                                             "\\x41B",
                                             "[é-ü]+",
                                             "ä?ö{2}",
                                             ".*",
                                             "(?<name>a)b",
                                             "a{2}",
                                             "a{2",
                                             "a{,x}",
                                             "\\(\\)\\\\",
                                             "a|",
                                             "(|a)b",
                                             "[a\\-z]+",
                                             "[-a]+",
                                             "(a?){4}",
                                             "(a{0,2})?b",
                                             "(a{0,2}){2}b",
                                             "((a|b)?c?)*",
                                             "\\t|\\n",
                                             "a*?b",
                                             "\\D\\S",
                                             "^ab$",
                                             "^(a|b)$",
                                             "(^a$)|b"};
  const std::vector<std::string> pieces = {"a",  "b", "c", "x", "d", "1", ".", "-", "é",  "ü", "ä", "ö", "\n",
                                           "\t", "A", "B", "{", "2", "]", "(", ")", "\\", ",", "z", " "};
  std::mt19937 random(1);
  size_t matched = 0;
  for (const std::string& pattern : patterns) {
    SCOPED_TRACE(pattern);
    Reader reader(regex_grammar(pattern));
    const Regex pcre("(?:" + pattern + ")\\z(?<=\\A|.|\\n)", "test");
    for (int i = 0; i < 3000; ++i) {
      std::string text;
      const size_t length = random() % 6, alphabet = i % 2 ? pieces.size() : 5;
      for (size_t j = 0; j < length; ++j) text += pieces[random() % alphabet];
      RegexMatcher matcher(text.size());
      // match_at finds no empty match.
      const bool expected = !text.empty() && matcher.match_at(pcre, text, 0) == text.size();
      matched += expected;
      if (!text.empty()) {
        ASSERT_EQ(reader.matches(text), expected) << text;
      }
    }
  }
  EXPECT_GT(matched, 5000u);
}

TEST(GrammarSources, CharacterClassesAreOfCodePoints) {
  struct Case {
    const char* pattern;
    bool (*holds)(char32_t code);
  };
  const Case cases[] = {
      {".", [](char32_t c) { return c != '\n' && c != '\r' && c != 0x2028 && c != 0x2029; }},
      {"[^\\u0100-\\uFFFE]", [](char32_t c) { return c < 0x100 || c > 0xFFFE; }},
      {"[\\u{7F}-\\u{801}\\uD83D\\uDE00]", [](char32_t c) { return (c >= 0x7F && c <= 0x801) || c == 0x1F600; }},
      {"\\S", [](char32_t c) { return c != 0xFEFF && !(is_white_space(c) && c != 0x85 && (c < 0x1C || c > 0x1F)); }},
      {"\\W", [](char32_t c) { return !(c < 128 && (isalnum(int(c)) || c == '_')); }}};
  for (const Case& one : cases) {
    Reader reader(regex_grammar(one.pattern));
    for (char32_t code = 0; code <= kLastCode; ++code) {
      if (code >= 0xD800 && code <= 0xDFFF) continue;
      std::string text;
      utf8_append(text, code);
      ASSERT_EQ(reader.matches(text), one.holds(code)) << one.pattern << " " << uint32_t(code);
    }
    for (const char* ill :
         {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF8\x80\x80\x80\x80"}) {
      EXPECT_FALSE(reader.matches(ill)) << one.pattern;
    }
  }
}

TEST(GrammarSources, ASearchHasAnyTextAroundTheMatch) {
  const auto reader = [](const char* pattern, bool search) {
    GrammarBuilder builder;
    return Reader(builder.finish(add_regex(builder, pattern, {.search = search, .characters = {}})));
  };
  struct Case {
    const char *pattern, *text;
    bool whole, found;
  };
  for (const Case& one : std::vector<Case>{{"ab", "ab", true, true},
                                           {"ab", "xab\n", false, true},
                                           {"^ab", "abx", false, true},
                                           {"^ab", "xab", false, false},
                                           {"ab$", "xab", false, true},
                                           {"ab$", "abx", false, false},
                                           {"^ab$", "ab", true, true},
                                           {"^ab$", "abab", false, false},
                                           {"^a|b$", "axx", false, true},
                                           {"^a|b$", "xxb", false, true},
                                           {"^a|b$", "xxa", false, false},
                                           {"(^a|b)c", "xbcx", false, true},
                                           {"(^a|b)c", "xacx", false, false},
                                           {"", "x", false, true},
                                           {"^", "x", false, true},
                                           {"^$", "x", false, false},
                                           {"^$", "", true, true},
                                           {"a?", "xyz", false, true}}) {
    EXPECT_EQ(reader(one.pattern, false).matches(one.text), one.whole) << one.pattern << " " << one.text;
    EXPECT_EQ(reader(one.pattern, true).matches(one.text), one.found) << one.pattern << " " << one.text;
  }
}

TEST(GrammarSources, CharactersMayBeSpelledAsWanted) {
  GrammarBuilder builder;
  const auto doubled = [&](std::span<const CodeRange> ranges) {
    const std::array<GrammarBuilder::Expr, 2> twice = {builder.characters(ranges), builder.characters(ranges)};
    return builder.sequence(twice);
  };
  Reader reader(builder.finish(add_regex(builder, "[ab]c", {.search = true, .characters = doubled})));
  EXPECT_TRUE(reader.matches("xyabcc"));
  EXPECT_FALSE(reader.matches("ac"));
}

TEST(GrammarSources, RegularExpressionsThatAreRefused) {
  EXPECT_EQ(regex_complaint("a(?=b)"), "character 2: look-around is not supported");
  EXPECT_EQ(regex_complaint("(?<!b)a"), "character 1: look-around is not supported");
  EXPECT_EQ(regex_complaint("é(a)\\1"), "character 5: back references are not supported");
  EXPECT_EQ(regex_complaint("(?P=n)"), "character 1: back references are not supported");
  EXPECT_EQ(regex_complaint("\\bword"), "character 1: word borders are not supported");
  EXPECT_EQ(regex_complaint("(?>a)"), "character 1: atomic groups are not supported");
  EXPECT_EQ(regex_complaint("a++"), "character 3: possessive quantifiers are not supported");
  EXPECT_EQ(regex_complaint("a+*"), "character 3: a quantifier of a quantifier");
  EXPECT_EQ(regex_complaint("\\p{L}"), "character 1: classes by Unicode property are not supported");
  EXPECT_EQ(regex_complaint("(?i)a"), "character 1: flags, conditions and recursion are not supported");
  EXPECT_EQ(regex_complaint("(a"), "character 1: \"(\" without \")\"");
  EXPECT_EQ(regex_complaint("a)"), "character 2: \")\" without \"(\"");
  EXPECT_EQ(regex_complaint("[a"), "character 1: \"[\" without \"]\"");
  EXPECT_EQ(regex_complaint("[b-a]"), "character 2: a range in the wrong order");
  EXPECT_EQ(regex_complaint("a{3,2}"), "character 2: bounds in the wrong order");
  EXPECT_EQ(regex_complaint("*"), "character 1: a quantifier without what it repeats");
  EXPECT_EQ(regex_complaint("\\"), "character 2: the text ends too early");
  EXPECT_EQ(regex_complaint("\\q"), "character 1: an unknown escape");
  EXPECT_EQ(regex_complaint("\\x4"), "character 4: expected 2 hexadecimal digits");
  EXPECT_EQ(regex_complaint("\\uD800"), "character 1: half of a surrogate pair");
  EXPECT_EQ(regex_complaint("a^b"), "character 2: ^ is supported where the pattern begins");
  EXPECT_EQ(regex_complaint("a$b"), "character 2: $ is supported where the pattern ends");
  EXPECT_EQ(regex_complaint("(^a)*"), "character 1: ^ and $ are not supported in what is repeated");
  EXPECT_EQ(regex_complaint("a{1000001}"), "character 3: a repetition of more than a million");
  EXPECT_EQ(regex_complaint("\xFF"), "character 1: the text is not UTF-8");
  EXPECT_EQ(regex_complaint("[\\s\\S]"), "taken");
  EXPECT_EQ(regex_complaint("[^\\s\\S]"), "no text is within the grammar");
  EXPECT_EQ(regex_complaint(std::string(65, '(') + std::string(65, ')')), "character 65: groups nested deeper than 64");
  EXPECT_EQ(regex_complaint(std::string(64, '(') + std::string(64, ')')), "taken");
  std::string beside;
  for (int i = 0; i < 65; ++i) beside += "(a)";
  EXPECT_EQ(regex_complaint(beside), "taken");
}

// nlohmann/json says what is JSON. It lets a number be of any length, and so do we.
TEST(GrammarSources, EbnfOfJsonTakesWhatIsJson) {
  Reader reader(ebnf_grammar(kJsonEbnf));
  const std::vector<std::string> texts = {R"({"a": [1, -2.5e+3, {}], "b\n\u00e9": "x é", "c": null})", "[]",
                                          R"(["", [[], {"k": [true, false]}]])", " 0 ", R"("\\ \" \/ \b")"};
  const std::string other = "{}[]\",:0123456789.eE+-tfn \\u\n\x01\xC3";
  std::mt19937 random(5);
  size_t valid = 0, invalid = 0;
  for (const std::string& text : texts) {
    EXPECT_TRUE(reader.matches(text)) << text;
    for (int i = 0; i < 3000; ++i) {
      std::string changed = text;
      const size_t at = random() % changed.size();
      if (random() % 2) changed.erase(at, 1 + random() % 3);
      if (random() % 2) changed.insert(std::min(at, changed.size()), 1, other[random() % other.size()]);
      const bool expected = nlohmann::json::accept(changed);
      (expected ? valid : invalid) += 1;
      ASSERT_EQ(reader.matches(changed), expected) << changed;
    }
  }
  EXPECT_GT(valid, 1000u);
  EXPECT_GT(invalid, 1000u);
}

TEST(GrammarSources, EbnfWithWhatItsWritersUse) {
  struct Case {
    const char *source, *taken, *refused;
  };
  for (const Case& one :
       std::vector<Case>{{"root ::= \"a\"\n  | \"b\" # or\n\n  \"c\"\n", "bc", "b"},
                         {"a-1 ::= \"x\" root ::= a-1 a-1\n", "xx", "x"},
                         {"root ::= [^\\n\\]\"]+ \"]\"", "ab-]", "\"]"},
                         {"root ::= [a-c_-]{2}", "_-", "d_"},
                         {"root ::= \"a\"{2,} \"b\"{,2} \"c\"{1}", "aaabc", "ac"},
                         {"root ::= (\"a\" | (\"b\")?)+ \"\\x41\\u00e9\\U0001F600\\\"\"", "abaAé😀\"", "A"},
                         {"root ::= . .", "é\n", "x"},
                         {"root ::= \"a\" root | \"a\"", "aaa", ""},
                         {"root ::= | \"x\"", "", "xx"},
                         {"root ::= \"\"", "", "x"},
                         {"root ::= x*\r\nx ::= \"a\"?\r\n", "aaa", "b"}}) {
    Reader reader(ebnf_grammar(one.source));
    EXPECT_TRUE(reader.matches(one.taken)) << one.source;
    EXPECT_FALSE(reader.matches(one.refused)) << one.source;
  }
}

TEST(GrammarSources, EbnfThatIsRefused) {
  const std::string left = "recursion on the left is not supported: a rule that begins with itself";
  EXPECT_EQ(ebnf_complaint("root ::= root \"a\" | \"b\""), "rule \"root\": " + left);
  EXPECT_EQ(ebnf_complaint("root ::= \"x\" list\nlist ::= opt list2\nopt ::= \"a\"?\nlist2 ::= list | \"b\""),
            "rule \"list\": " + left);
  EXPECT_EQ(ebnf_complaint("root ::= (a)*\na ::= a \"x\" | \"y\""), "rule \"a\": " + left);
  EXPECT_EQ(ebnf_complaint("root ::= (a)*\na ::= a?"), "taken");  // a is the empty text
  EXPECT_EQ(ebnf_complaint("root ::= \"a\" root"), "no text is within the grammar");
  EXPECT_EQ(ebnf_complaint("root ::= \"a\"\nother ::= other \"a\""), "taken");  // no text comes there
  EXPECT_EQ(ebnf_complaint("root ::= \"a\"\n  b"), "line 2, column 3: the rule \"b\" is not defined");
  EXPECT_EQ(ebnf_complaint("a ::= \"a\""), "the grammar has no rule \"root\"");
  EXPECT_EQ(ebnf_complaint(""), "the grammar has no rule \"root\"");
  EXPECT_EQ(ebnf_complaint("root ::= \"a\"\nroot ::= \"b\""), "line 2, column 1: the rule has a definition already");
  EXPECT_EQ(ebnf_complaint("root ::= \"a"), "line 1, column 10: a text without a second \"");
  EXPECT_EQ(ebnf_complaint("root ::= [a"), "line 1, column 10: \"[\" without \"]\"");
  EXPECT_EQ(ebnf_complaint("root ::= (\"a\""), "line 1, column 10: \"(\" without \")\"");
  EXPECT_EQ(ebnf_complaint("root ::= \"a\")"), "line 1, column 13: \")\" without \"(\"");
  EXPECT_EQ(ebnf_complaint("root = \"a\""), "line 1, column 1: expected a rule: name ::= ...");
  EXPECT_EQ(ebnf_complaint("root ::= <think>"), "line 1, column 10: tokens are not supported, only their texts");
  EXPECT_EQ(ebnf_complaint("root ::= (=\"a\")"), "line 1, column 10: look-ahead is not supported");
  EXPECT_EQ(ebnf_complaint("root ::= \"a\"{}"), "line 1, column 13: expected {2}, {2,} or {2,3}");
  EXPECT_EQ(ebnf_complaint("root ::= \"\\q\""), "line 1, column 11: an unknown escape");
  EXPECT_EQ(ebnf_complaint("root ::= [\\uD800]"), "line 1, column 11: half of a surrogate pair");
  EXPECT_EQ(ebnf_complaint("root ::= []"), "no text is within the grammar");
}

TEST(GrammarSources, ChoicesAreTheirTexts) {
  std::vector<std::string> choices;
  for (int i = 0; i < 10000; i += 2) choices.push_back("item " + std::to_string(i));
  Reader reader(choice_grammar(choices, {.max_ms = 600'000}));
  for (int i = 0; i < 10000; ++i) ASSERT_EQ(reader.matches("item " + std::to_string(i)), i % 2 == 0) << i;
  EXPECT_EQ(complaint_of([] { choice_grammar({}); }), "no text is within the grammar");
}

}  // namespace
}  // namespace paceline::test
