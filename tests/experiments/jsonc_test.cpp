#include <random>

#include <gtest/gtest.h>

#include "engine/util/suggest.h"
#include "experiments/config/file/tree.h"
#include "experiments/config/keys/expression.h"

namespace paceline {
namespace {

std::shared_ptr<const SourceText> source(const std::string& text) {
  auto s = std::make_shared<SourceText>();
  s->name = "x.json";
  s->text = text;
  return s;
}

/// Complaints as "line:col: message", one a line.
std::string complaints(const Diagnostics& diagnostics) {
  try {
    diagnostics.throw_if_any();
  } catch (const ConfigError& error) {
    std::string all;
    for (const Diagnostic& d : error.diagnostics()) {
      all += fmt::format("{}{}:{}: {}", all.empty() ? "" : "\n", d.origin.line, d.origin.column, d.message);
    }
    return all;
  }
  return "";
}

std::string problems(const std::string& text) {
  Diagnostics diagnostics;
  parse_jsonc(source(text), diagnostics);
  return complaints(diagnostics);
}

TEST(Jsonc, ReadsCommentsTrailingCommasAndPositions) {
  Diagnostics diagnostics;
  const ConfigNode root =
      parse_jsonc(source("\xEF\xBB\xBF// head\n{ # one\n  /* two\n lines */ \"a\": [1, -2.5e1, true, null,],\n"
                         "\t\"\xC3\xA4\": \"\\u00e9\\uD83D\\uDE00\\n\", \"z\": {},\n}\n"),
                  diagnostics);
  EXPECT_EQ(complaints(diagnostics), "");
  ASSERT_EQ(root.kind, NodeKind::object);
  const ConfigNode* list = root.find("a");
  ASSERT_TRUE(list);
  ASSERT_EQ(list->items.size(), 4u);
  EXPECT_EQ(list->items[0].integer, 1);
  EXPECT_EQ(list->items[1].kind, NodeKind::number);
  EXPECT_EQ(list->items[1].number, -25.0);
  EXPECT_TRUE(list->items[2].boolean);
  EXPECT_EQ(list->items[3].kind, NodeKind::null);
  EXPECT_EQ(root.find_member("a")->key_origin.line, 4);
  EXPECT_EQ(root.find_member("a")->key_origin.column, 11);
  EXPECT_EQ(root.find("\xC3\xA4")->text, "\xC3\xA9\xF0\x9F\x98\x80\n");
  EXPECT_EQ(root.find("z")->origin.line, 5);
  EXPECT_EQ(root.find("z")->origin.column, 36);  // code points, not bytes
}

TEST(Jsonc, NamesEveryMistakeInOnePass) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "1:1: the text is empty: expected a value"},
      {"{\"a\": 1 \"b\": 2}", "1:9: expected ',' or '}', found '\"'"},
      {"{\"a\": 1, \"a\": 2}", "1:10: duplicate key \"a\" (first on line 1)"},
      {"{\"a\": 1,, \"b\": 2}", "1:9: one comma too many"},
      {"{a: 1}", "1:2: keys stand in double quotes: write \"a\""},
      {"{'a': 'b'}", "1:2: strings stand in double quotes\n1:7: strings stand in double quotes"},
      {"{\"a\": True}", "1:7: True is not a JSON value (did you mean \"true\"?)"},
      {"{\"a\": yes}", "1:7: yes is not a JSON value; write true"},
      {"{\"a\": 256ms, \"b\": 01, \"c\": .5, \"d\": +1}",
       "1:7: 256ms is not a JSON number\n1:19: 01 is not a JSON number; write 1\n1:28: .5 is not a JSON number\n"
       "1:37: +1 is not a JSON number; write 1"},
      {"{\"a\": 1e999}", "1:7: the number 1e999 does not fit in 64 bits"},
      {"{\"a\": \"\\x\"}", "1:8: unknown escape '\\x': a backslash itself is written \\\\"},
      {"{\"a\": \"\\ud800\"}", "1:8: \\u needs four hex digits, and a surrogate its other half"},
      {"{\"a\": \"b\n}", "1:7: this string is never closed: add '\"'"},
      {"{\"a\": [1, 2}", "1:12: '}' closes a list: expected ']'"},
      {"{\"a\": 1", "1:8: the text ends inside an object: expected '}'"},
      {"{", "1:1: this object is never closed: add '}'"},
      {"{\"a\" 1}", "1:6: expected ':' after the key \"a\", found '1'"},
      {"{} {}", "1:4: expected the end of the text, found '{'"},
      {"/* x", "1:1: this comment is never closed: add */"},
      {"{\"a\":\n  \"\xC3\xA4\xFF\"}", "2:5: byte 0xff is not UTF-8: save the file as UTF-8"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(problems(text), expected) << text;
}

TEST(Jsonc, IsBounded) {
  EXPECT_EQ(problems(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_EQ(problems(std::string(100000, '[')), "1:66: nested more than 64 levels deep");
  std::string many = "[";
  for (size_t i = 0; i <= kMaxConfigNodes; ++i) many += "1,";
  EXPECT_NE(problems(many + "]").find("more than 200000 values"), std::string::npos);
  EXPECT_NE(problems(std::string(kMaxConfigBytes + 1, ' ')).find("at most 4194304 are read"), std::string::npos);
}

TEST(Jsonc, SurvivesDamagedText) {
  const std::string good =
      "{ // c\n \"a\": [1, 2.5, {\"b\": \"\\u00e9x\"}], /* y */ \"c\": {\"d\": true, }, \"e\": null }";
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (int edit = 0; edit < 3; ++edit) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 4); break;
        default: text.insert(at, 1, "{}[]\",:\\/*#\n"[random() % 12]);
      }
    }
    Diagnostics diagnostics, yaml_diagnostics;
    parse_jsonc(source(text), diagnostics);
    complaints(diagnostics);
    if (round % 10 == 0) parse_yaml(source(text), yaml_diagnostics);
  }
}

TEST(ConfigTree, DiagnosticShowsLineAndCaret) {
  const Origin second_line{source("{\n\t\"a\": \xC3\xA4 1,\n}"), 2, 9};
  const Diagnostic d{second_line, "wrong"};
  EXPECT_EQ(d.str(), "x.json:2:9: error: wrong\n\t\"a\": \xC3\xA4 1,\n\t       ^");
  const std::string padding(1000, 'x');
  const Origin far_right{source(padding), 1, 500};
  const std::string long_line = Diagnostic{far_right, "wrong"}.str();
  EXPECT_LT(long_line.size(), 400u);
  EXPECT_EQ(long_line.back(), '^');
}

TEST(Yaml, GivesTheSameTree) {
  Diagnostics diagnostics;
  const ConfigNode root =
      parse_yaml(source("# c\na: [1, 2.5, \"3\", true, no]\nb:\n  c: {d: ~}\n  e: [-4, 1e3]\n"), diagnostics);
  EXPECT_EQ(complaints(diagnostics), "");
  const ConfigNode* a = root.find("a");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->items[0].kind, NodeKind::integer);
  EXPECT_EQ(a->items[1].kind, NodeKind::number);
  EXPECT_EQ(a->items[2].kind, NodeKind::string);
  EXPECT_EQ(a->items[3].kind, NodeKind::boolean);
  EXPECT_EQ(a->items[4].kind, NodeKind::string);  // "no" is never coerced
  EXPECT_EQ(root.find("b")->find("c")->find("d")->kind, NodeKind::null);
  EXPECT_EQ(root.find("b")->find_member("e")->key_origin.line, 5);
  EXPECT_EQ(root.find("b")->find_member("e")->key_origin.column, 3);
  const ConfigNode tagged =
      parse_yaml(source("- !!str 8\n- !!str true\n- !!str\n- !!int 8\n- !!str 012\n"), diagnostics);
  ASSERT_TRUE(diagnostics.empty()) << complaints(diagnostics);
  for (const size_t i : {0, 1, 2, 4}) EXPECT_EQ(tagged.items[i].kind, NodeKind::string) << i;
  EXPECT_EQ(tagged.items[0].text, "8");
  EXPECT_EQ(tagged.items[3].kind, NodeKind::integer);
}

TEST(Yaml, NamesMistakes) {
  const auto yaml_problems = [](const std::string& text) {
    Diagnostics diagnostics;
    parse_yaml(source(text), diagnostics);
    return complaints(diagnostics);
  };
  EXPECT_EQ(yaml_problems("a: 1\nb: 2\na: 3\n"), "3:1: duplicate key \"a\" (first on line 1)");
  EXPECT_NE(yaml_problems("a: [1\n").find("2:1: "), std::string::npos);
  EXPECT_EQ(yaml_problems("---\na: 1\n"), "");
  EXPECT_EQ(yaml_problems("a: 1\n---\nb: 2\n"), "3:1: a second document: one document expected");
  EXPECT_EQ(yaml_problems("a: 1\n...\n---\n\n- b\n---\nc: 3\n"), "5:1: a second document: one document expected");
  EXPECT_EQ(yaml_problems("a: 012\nb: [-07, 00.5, 0.5, 0, 0e1]\n"),
            "1:4: 012 has a leading zero: write 12\n2:5: -07 has a leading zero: write -7\n2:10: 00.5 has a leading "
            "zero: write 0.5");
  EXPECT_EQ(yaml_problems("a: \"012\"\nb: 0x\n"), "");
  std::string bomb = "l0: &l0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string below = "*l" + std::to_string(i - 1);
    bomb += fmt::format("l{0}: &l{0} [{1},{1},{1},{1},{1},{1},{1},{1},{1},{1}]\n", i, below);
  }
  EXPECT_NE(yaml_problems(bomb).find("more than 200000 values once aliases are copied"), std::string::npos);
  EXPECT_NE(yaml_problems(std::string(5000, '[')), "");
}

TEST(Suggest, FindsTheNearestName) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("ngarm", "ngram"), 1u);  // a swap is one step
  const std::vector<std::string> names = {"num_speculative_tokens", "proposer", "tp", "k"};
  EXPECT_EQ(nearest_name("num_speculative_token", names), "num_speculative_tokens");
  EXPECT_EQ(nearest_name("num-speculative-tokens", names), "num_speculative_tokens");
  EXPECT_EQ(nearest_name("Proposer", names), "proposer");
  EXPECT_EQ(nearest_name("x", names), std::nullopt);
  EXPECT_EQ(nearest_name("temperature", names), std::nullopt);
  EXPECT_EQ(nearest_name("--cell", {"--help"}), std::nullopt) << "dashes are no letters";
  EXPECT_EQ(nearest_name("--hlep", {"--help"}), "--help");
  EXPECT_EQ(nearest_name("rate", {"mode", "rate_per_s", "arrival_seed"}), "rate_per_s");
  EXPECT_EQ(nearest_name("max", {"max_tokens", "max_num_seqs"}), std::nullopt) << "one of several";
}

ExpressionValue evaluate(const std::string& text) {
  return Expression::parse(text).evaluate([](const std::string& name) -> std::optional<ExpressionValue> {
    if (name == "tp") return 2.0;
    if (name == "load.concurrency") return 8.0;
    if (name == "proposer") return std::string("ngram");
    if (name == "on") return true;
    return std::nullopt;
  });
}

TEST(Expression, Evaluates) {
  const std::pair<const char*, ExpressionValue> cases[] = {
      {"2*load.concurrency", 16.0},
      {"1 + 2 * 3 - 4 / 2", 5.0},
      {"(1 + 2) * -3", -9.0},
      {"10 - 3 - 2", 5.0},
      {"7 % 4", 3.0},
      {"min(tp, 1, 5) + max(3, tp)", 4.0},
      {"ceil(tp / 3) + floor(2.5)", 3.0},
      {"tp == 2 && load.concurrency > 3", true},
      {"tp != 2 || !(1 < 2)", false},
      {"proposer == ngram", true},
      {"proposer != 'draft' && draft != proposer", true},
      {"on == true", true},
      {"1 >= 1 && 1 <= 1", true},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(evaluate(text), expected) << text;
}

TEST(Expression, NamesMistakes) {
  const std::tuple<const char*, size_t, const char*> cases[] = {
      {"tp +", 4, "expected a value, found the end"},
      {"tp = 2", 3, "expected ==, found a single ="},
      {"tp 2", 3, "expected an operator, found '2'"},
      {"(tp", 3, "expected ')'"},
      {"nope + 1", 0, "unknown name \"nope\""},
      {"tp / (2 - tp)", 3, "division by zero"},
      {"tp && on", 0, "expected true or false, found a number"},
      {"proposer + 1", 0, "expected a number, found a text"},
      {"proposer == 1", 9, "== compares a text with a number"},
      {"sqrt(4)", 0, "unknown function \"sqrt\": there are min, max, floor, ceil"},
      {"256ms", 3, "numbers carry no unit here"},
      {"1e308 * 10", 6, "the result is not a finite number"},
      {"'abc", 0, "this text is never closed"},
  };
  for (const auto& [text, offset, message] : cases) {
    try {
      evaluate(text);
      ADD_FAILURE() << text;
    } catch (const ExpressionError& error) {
      EXPECT_EQ(error.offset, offset) << text;
      EXPECT_EQ(error.message, message) << text;
    }
  }
  EXPECT_THROW(evaluate(std::string(100000, '(')), ExpressionError);
  EXPECT_THROW(evaluate(std::string(2000, '(')), ExpressionError);
  EXPECT_THROW(evaluate(std::string(2000, '-')), ExpressionError);
  std::string sum = "1";
  for (int i = 0; i < 1000; ++i) sum += "+1";
  EXPECT_THROW(evaluate(sum), ExpressionError);
}

}  // namespace
}  // namespace paceline
