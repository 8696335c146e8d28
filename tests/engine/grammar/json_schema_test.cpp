// JSON Schema as a grammar: for each keyword texts that are of it and texts that are not, and where errors point.

#include "engine/grammar/json_schema.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/engine/grammar/grammar_match.h"

namespace paceline::test {
namespace {

nlohmann::ordered_json parsed(const std::string& schema) { return nlohmann::ordered_json::parse(schema); }

struct SchemaCase {
  const char* schema;
  std::vector<const char*> valid, invalid;
};

void expect_matches(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& one : cases) {
    const ByteGrammar grammar = json_schema_grammar(parsed(one.schema));
    for (const char* text : one.valid) EXPECT_TRUE(matches(grammar, text)) << one.schema << " of " << text;
    for (const char* text : one.invalid) EXPECT_FALSE(matches(grammar, text)) << one.schema << " not of " << text;
  }
}

TEST(JsonSchema, Types) {
  expect_matches({
      {R"({"type": "null"})", {"null"}, {"", "nul", "true", "null "}},
      {R"({"type": "boolean"})", {"true", "false"}, {"null", "0", "True"}},
      {R"({"type": "integer"})",
       {"0", "-1", "10", "9223372036854775807", "-9223372036854775808"},
       {"-0", "01", "1.0", "1e3", "-", "+1", "9223372036854775808", "-9223372036854775809"}},
      {R"({"type": "number"})",
       {"0", "-0.5", "12.25", "1e9", "1E-07", "1234567890123456"},
       {".5", "1.", "01", "1e", "1e123", "12345678901234567", "NaN", "\"1\""}},
      {R"({"type": "string"})",
       {R"("")", R"("a")", R"("é😀")", R"("\n\"\\\/\b\f\r\t")", R"("\u00e9\uD7FF\ue000\u0000")"},
       {R"(")", R"(a)", "\"\n\"", "\"\x01\"", R"("\x")", R"("\ud800")", R"("\uDFFF")", R"("\u12")", "\"\xc3\"",
        "\"\xed\xa0\x80\"", R"("a"b")"}},
      {R"({"type": "array"})", {"[]", "[1]", R"([1,"a",[null],{"b":2}])"}, {"", "[", "[1,]", "[,1]", "{}"}},
      {R"({"type": "object"})", {"{}", R"({"a":1})", R"({"a":{"b":[]},"c":""})"}, {"[]", "{a:1}", R"({"a":1,})"}},
      {R"({"type": ["string", "null"]})", {"null", R"("x")"}, {"1", "true"}},
      {R"({"type": ["integer", "number"]})", {"1", "1.5"}, {"null"}},
      {"{}", {"1", "null", "[{}]", R"("x")", R"({"a":[1.5,true]})"}, {"", "[1", "nul"}},
      {"true", {"1", "{}"}, {""}},
      {R"({"title": "t", "description": "d", "default": 1, "examples": [], "deprecated": true, "readOnly": false,
           "writeOnly": false, "$schema": "s", "$id": "i", "$comment": "c", "type": "null"})",
       {"null"},
       {"1"}},
  });
}

TEST(JsonSchema, WhitespaceIsBounded) {
  const std::string twenty(20, ' ');
  const ByteGrammar grammar = json_schema_grammar(parsed(R"({"type": ["object", "array"]})"));
  for (const std::string& text : {std::string("{\n  \"a\": [\n    1,\n    2\n  ]\n}"), std::string("[ 1, 2 ]"),
                                  "[\n" + twenty + "1]", std::string("{ \"a\":\n1 }")})
    EXPECT_TRUE(matches(grammar, text)) << text;
  for (const std::string& text :
       {std::string("[  1]"), "[\n" + twenty + " 1]", std::string("[\n\n1]"), std::string("[1 ,2]"),
        std::string(" [1]"), std::string("[1] "), std::string("[ ]"), std::string("{\n}"), std::string("[\t1]"),
        std::string("[\r\n1]"), std::string("{\"a\" :1}"), std::string("[ \n1]")})
    EXPECT_FALSE(matches(grammar, text)) << text;
}

TEST(JsonSchema, Objects) {
  expect_matches({
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "c": {"type": "boolean"}},
           "required": ["b"], "additionalProperties": false})",
       {R"({"b":null})", R"({"a":1,"b":null})", R"({"b":null,"c":true})", R"({"a":1,"b":null,"c":true})",
        R"({ "a": 1, "b": null })"},
       {"{}", R"({"a":1})", R"({"b":null,"a":1})", R"({"b":null,"b":null})", R"({,"b":null})", R"({"b":null,})",
        R"({"b":1})", R"({"b":null,"d":1})", R"({"a":1"b":null})"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}, "additionalProperties": false})",
       {"{}", R"({"a":1})", R"({"b":null})", R"({"a":1,"b":null})"},
       {R"({"b":null,"a":1})", R"({"x":1})", R"({"a":1,})"}},
      {R"({"type": "object", "properties": {"ab": {"type": "integer"}, "a": {"type": "null"}}})",
       {"{}", R"({"ab":1})", R"({"abc":"x"})", R"({"b":[]})", R"({"":0})", R"({"ab":1,"a":null,"aba":1,"z":2})",
        R"({"ac":1})", R"({"é":1})"},
       {R"({"ab":"x"})", R"({"a":1})", R"({"z":1,"ab":1})", R"({"z":1,"ab":"x"})", R"({"\u0061b":"x"})",
        R"({"z\n":1})"}},
      {R"({"type": "object", "required": ["x", "y"], "properties": {"y": {"type": "integer"}},
           "additionalProperties": {"type": "string"}})",
       {R"({"y":1,"x":"s"})", R"({"y":1,"x":"s","z":"t"})"},
       {R"({"y":1})", R"({"x":"s"})", R"({"y":1,"x":2})", R"({"y":1,"x":"s","z":2})"}},
      {R"({"type": "object", "properties": {"q\"\n/é": {"type": "null"}}, "additionalProperties": {"type": "integer"}})",
       {R"({"q\"\n/é":null})", R"({"q":1})"},
       {R"({"q\"\n/é":1})", R"({"q\u0022":1})"}},
      {R"({"properties": {"a": true}, "additionalProperties": false})", {"{}", R"({"a":[]})"}, {"1", "[]"}},
      {R"({"properties": {"a": false}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"a":1})", "{ }"}},
      {R"({"type": "string", "properties": {"a": true}})", {R"("s")"}, {"{}"}},
  });
}

TEST(JsonSchema, ManyOptionalPropertiesStaySmall) {
  nlohmann::ordered_json schema = {{"type", "object"}, {"additionalProperties", false}};
  for (int i = 0; i < 300; ++i) schema["properties"][fmt::format("p{}", i)] = {{"type", "null"}};
  const ByteGrammar grammar = json_schema_grammar(schema);
  EXPECT_LT(grammar.items.size(), 10'000u);
  EXPECT_TRUE(matches(grammar, R"({"p7":null,"p299":null})"));
  EXPECT_FALSE(matches(grammar, R"({"p299":null,"p7":null})"));
}

TEST(JsonSchema, Arrays) {
  expect_matches({
      {R"({"type": "array", "items": {"type": "integer"}})", {"[]", "[1]", "[1,2,3]"}, {"[null]", "[1,null]"}},
      {R"({"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 3})",
       {"[null,null]", "[null,null,null]"},
       {"[]", "[null]", "[null,null,null,null]"}},
      {R"({"type": "array", "items": {"type": "null"}, "minItems": 1})", {"[null]", "[null,null]"}, {"[]"}},
      {R"({"type": "array", "items": {"type": "null"}, "maxItems": 1})", {"[]", "[null]"}, {"[null,null]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"type": "array", "maxItems": 2.0})", {"[]", "[1,2]"}, {"[1,2,3]"}},
      {R"({"prefixItems": [{"type": "null"}, {"type": "integer"}], "items": false})",
       {"[]", "[null]", "[null,1]"},
       {"[1]", "[null,null]", "[null,1,1]"}},
      {R"({"prefixItems": [{"type": "null"}, {"type": "integer"}], "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4})",
       {"[null,1]", "[null,1,true]", "[null,1,true,false]"},
       {"[]", "[null]", "[null,1,1]", "[null,1,true,true,true]"}},
      {R"({"prefixItems": [{"type": "null"}, {"type": "integer"}, {"type": "null"}], "maxItems": 2})",
       {"[]", "[null]", "[null,1]"},
       {"[null,1,null]"}},
      {R"({"prefixItems": [{"type": "null"}]})", {"[]", "[null,[],1]"}, {"[1]"}},
      {R"({"type": "array", "items": false})", {"[]"}, {"[1]"}},
  });
}

TEST(JsonSchema, EnumAndConst) {
  expect_matches({
      {R"({"enum": ["a", "b\"", 1, -2.5, null, true, [], {}]})",
       {R"("a")", R"("b\"")", "1", "-2.5", "null", "true", "[]", "{}"},
       {R"("b")", "2", "false", "[1]", R"("\u0061")"}},
      {R"({"const": {"a": [1, "x"], "b": {}}})",
       {R"({"a":[1,"x"],"b":{}})", R"({ "a": [ 1, "x" ], "b": {} })"},
       {"{}", R"({"b":{},"a":[1,"x"]})", R"({"a":[1],"b":{}})"}},
      {R"({"type": "string", "enum": ["a", 1, "b"]})", {R"("a")", R"("b")"}, {"1"}},
      {R"({"type": "integer", "enum": [1, 2.0, 2.5]})", {"1", "2.0"}, {"2.5"}},
      {R"({"type": "number", "enum": [1, 2.5, 7], "maximum": 6, "exclusiveMinimum": 1})", {"2.5"}, {"1", "7"}},
      {R"({"enum": [0.5, 0.1, 3], "minimum": 0.2, "maximum": 0.9})", {"0.5"}, {"0.1", "3"}},
      {R"({"enum": ["a", "éé", "ccc"], "minLength": 2, "maxLength": 2})", {R"("éé")"}, {R"("a")", R"("ccc")"}},
      {R"({"const": 1, "enum": [1.0, 2]})", {"1.0"}, {"1", "2"}},
  });
}

TEST(JsonSchema, LengthsCountCodePoints) {
  expect_matches({
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("é😀")", R"("\u00e9\n")", R"("\\\"\u0041")"},
       {R"("")", R"("a")", R"("😀")", R"("\\")", R"("abcd")", R"("\n\n\n\n")"}},
      {R"({"type": "string", "minLength": 2})", {R"("ab")", R"("abcdefghij")"}, {R"("a")"}},
      {R"({"type": "string", "maxLength": 0})", {R"("")"}, {R"("a")"}},
  });
}

TEST(JsonSchema, PatternsSearchTheStringBehindItsEscapes) {
  expect_matches({
      {R"({"type": "string", "pattern": "^[a-c]+$"})", {R"("abc")"}, {R"("")", R"("abd")", R"("xabc")", "abc"}},
      {R"({"type": "string", "pattern": "b"})", {R"("b")", R"("abc")", R"("é\nb\"")"}, {R"("")", R"("ac")"}},
      {R"({"type": "string", "pattern": "^a"})", {R"("a")", R"("ab")"}, {R"("ba")"}},
      {R"({"type": "string", "pattern": "a$"})", {R"("a")", R"("ba")"}, {R"("ab")"}},
      {R"({"type": "string", "pattern": "^a|b$"})", {R"("ax")", R"("xb")"}, {R"("xa")", R"("bx")"}},
      {R"({"type": "string", "pattern": "^[^a]$"})",
       {R"("b")", R"("\"")", R"("\\")", R"("\n")", R"("\u0001")", R"("é")"},
       {R"("a")", R"(""")", R"("\")", "\"\n\""}},
      {R"({"type": "string", "pattern": "^\"\\\\\\n$"})", {R"("\"\\\n")"}, {R"("\\n")"}},
      {R"({"type": "string", "pattern": "^\\d{4}-\\d{2}$"})", {R"("2024-01")"}, {R"("2024-1")"}},
      {R"({"type": "string", "pattern": ""})", {R"("")", R"("x")"}, {}},
  });
}

TEST(JsonSchema, IntegersKeepTheirBounds) {
  struct Bounds {
    const char* keywords;
    int64_t least, most;
  };
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  for (const Bounds& bounds :
       std::vector<Bounds>{{R"("minimum": 0, "maximum": 0)", 0, 0},
                           {R"("minimum": 7, "maximum": 123)", 7, 123},
                           {R"("minimum": -123, "maximum": 45)", -123, 45},
                           {R"("minimum": -205, "maximum": -9)", -205, -9},
                           {R"("minimum": 99, "maximum": 1000)", 99, 1000},
                           {R"("exclusiveMinimum": 5, "exclusiveMaximum": 7)", 6, 6},
                           {R"("minimum": 1.5, "maximum": 3.5)", 2, 3},
                           {R"("exclusiveMinimum": 1.5, "exclusiveMaximum": 4.0)", 2, 3},
                           {R"("minimum": 3, "exclusiveMinimum": 3)", 4, kMost},
                           {R"("minimum": -1)", -1, kMost},
                           {R"("maximum": 18446744073709551615)", kLeast, kMost},
                           {R"("minimum": -9223372036854775808, "maximum": 1e300)", kLeast, kMost}}) {
    const ByteGrammar grammar =
        json_schema_grammar(parsed(fmt::format(R"({{"type": "integer", {}}})", bounds.keywords)));
    for (int64_t value = -1200; value <= 1200; ++value)
      ASSERT_EQ(matches(grammar, std::to_string(value)), value >= bounds.least && value <= bounds.most)
          << bounds.keywords << " of " << value;
    EXPECT_EQ(matches(grammar, std::to_string(kLeast)), bounds.least == kLeast);
    EXPECT_EQ(matches(grammar, std::to_string(kMost)), bounds.most == kMost);
    EXPECT_FALSE(matches(grammar, "007"));
  }
}

TEST(JsonSchema, AlternativesAndReferences) {
  expect_matches({
      {R"({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null, "title": "t"})", {"1", "null"}, {"true"}},
      {R"({"anyOf": [false, {"type": "null"}]})", {"null"}, {"1"}},
      {R"({"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"type": "null"}}, "description": "d"})", {"null"}, {"1"}},
      {R"({"$ref": "#/definitions/a~1b%20~0", "definitions": {"a/b ~": {"const": 7}}})", {"7"}, {"8"}},
      {R"({"type": "array", "prefixItems": [{"type": "null"}, {"$ref": "#/prefixItems/0"}], "items": false})",
       {"[null,null]"},
       {"[null,1]"}},
      {R"({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"],
           "additionalProperties": false})",
       {R"({"next":null})", R"({"next":{"next":{"next":null}}})"},
       {"{}", R"({"next":{}})", R"({"next":{"next":null})"}},
      {R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/leaf"}},
           "leaf": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/tree"}]}}})",
       {"[]", "[[],[null,[[]]]]"},
       {"[", "[1]", "null"}},
      {R"({"type": "object", "properties": {"self": {"$ref": "#/$defs/endless"}}, "additionalProperties": false,
           "$defs": {"endless": {"type": "array", "items": {"$ref": "#/$defs/endless"}, "minItems": 1}}})",
       {"{}"},
       {R"({"self":[]})"}},
  });
}

TEST(JsonSchema, AnyObject) {
  const ByteGrammar grammar = json_object_grammar();
  EXPECT_TRUE(matches(grammar, R"({"a": [1, {"b": null}]})"));
  for (const char* text : {"", "[]", "1", "{", R"({"a":1)"}) EXPECT_FALSE(matches(grammar, text)) << text;
}

TEST(JsonSchema, ErrorsNameTheirPlace) {
  struct Case {
    const char* schema;
    const char* where;
    const char* says;
  };
  for (
      const Case& one : std::vector<Case>{
          {R"({"properties": {"a": {"type": "string", "format": "date"}}})", "/properties/a/format", "not supported"},
          {R"({"propertes": {}})", "/propertes", "did you mean \"properties\"?"},
          {R"({"oneOf": [true]})", "/oneOf", "not supported"},
          {R"({"not": {}})", "/not", "not supported"},
          {R"({"$defs": {"unused": {"multipleOf": 2}}})", "/$defs/unused/multipleOf", "not supported"},
          {R"({"properties": {"a/b~c": {"x y": 1}}})", "/properties/a~1b~0c/x y", "not supported"},
          {R"({"items": {"$id": "i"}})", "/items/$id", "not supported: only the whole schema may have one"},
          {"7", "", "found 7, expected a schema"},
          {R"({"items": []})", "/items", "prefixItems"},
          {R"({"items": 1})", "/items", "found 1, expected a schema"},
          {R"({"type": "strin"})", "/type", "did you mean \"string\"?"},
          {R"({"type": []})", "/type", "a list of 0, expected one to seven"},
          {R"({"type": ["null","null","null","null","null","null","null","null"]})", "/type", "a list of 8"},
          {R"({"type": ["null", 7]})", "/type/1", "found 7"},
          {R"({"properties": []})", "/properties", "expected an object"},
          {R"({"required": "a"})", "/required", "expected a list"},
          {R"({"required": ["a", 7]})", "/required/1", "expected a name"},
          {R"({"required": ["a"], "additionalProperties": false})", "/required/0", "not in properties"},
          {R"({"minItems": -1})", "/minItems", "found -1"},
          {R"({"maxItems": 1.5})", "/maxItems", "found 1.5"},
          {R"({"minLength": "2"})", "/minLength", "found \"2\""},
          {R"({"minItems": 3, "maxItems": 2})", "/maxItems", "below minItems 3"},
          {R"({"minLength": 3, "maxLength": 2})", "/maxLength", "below minLength 3"},
          {R"({"maxLength": 100000000})", "", "16 MiB"},
          {R"({"items": {"items": {"maxItems": 100000000}}})", "/items/items", "16 MiB"},
          {R"({"pattern": 7})", "/pattern", "regular expression"},
          {R"({"items": {"pattern": "a("}})", "/items/pattern", "character"},
          {R"({"pattern": "(?=a)b"})", "/pattern", "look"},
          {R"({"pattern": "a", "minLength": 1})", "/minLength", "beside pattern"},
          {R"({"type": "number", "minimum": 1})", "/minimum", "integer"},
          {R"({"type": "integer", "minimum": "1"})", "/minimum", "expected a number"},
          {R"({"type": "integer", "minimum": 5, "maximum": 4})", "/maximum", "between the bounds"},
          {R"({"type": "integer", "minimum": 9223372036854775808})", "/minimum", "64 bits"},
          {R"({"type": "integer", "exclusiveMinimum": true})", "/exclusiveMinimum", "expected a number"},
          {R"({"enum": []})", "/enum", "empty list"},
          {R"({"type": "string", "enum": [1, 2]})", "/enum", "no value"},
          {R"({"type": "string", "const": 1})", "/const", "no value"},
          {R"({"enum": [1], "const": 2})", "/enum", "no value"},
          {R"({"enum": ["a"], "pattern": "a"})", "/pattern", "beside enum"},
          {R"({"anyOf": []})", "/anyOf", "empty list"},
          {R"({"anyOf": [{"type": "null"}, {"bad": 1}]})", "/anyOf/1/bad", "not supported"},
          {R"({"anyOf": [true], "type": "null"})", "/anyOf", "beside type"},
          {R"({"anyOf": [true], "allOf": [true]})", "/allOf", "beside anyOf"},
          {R"({"allOf": [true, true]})", "/allOf", "2 schemas"},
          {R"({"$ref": "#/$defs/x"})", "/$ref", "no place"},
          {R"({"$ref": "http://x"})", "/$ref", "#/$defs/x"},
          {R"({"$ref": "#/$defs/x", "const": 1, "$defs": {"x": true}})", "/$ref", "beside const"},
          {R"({"$ref": "#"})", "", "stands for itself"},
          {R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}})",
           "/$defs/b/anyOf/1", "stands for itself"},
          {R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "", "without an end"},
          {R"({"items": {"$ref": "#/$defs/x"}, "minItems": 1, "$defs": {"x": {"items": {"$ref": "#/$defs/x"}, "minItems": 1}}})",
           "/$defs/x", "without an end"},
          {R"({"prefixItems": [{"type": "null"}, false], "minItems": 2})", "/prefixItems/1", "no value matches"},
          {"false", "", "no value matches"},
      }) {
    try {
      json_schema_grammar(parsed(one.schema));
      ADD_FAILURE() << one.schema << ": no error";
    } catch (const GrammarError& error) {
      EXPECT_EQ(error.where(), one.where) << one.schema << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(one.says), std::string::npos) << one.schema << ": " << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << one.schema;
    }
  }
}

TEST(JsonSchema, AKeywordThatIsNotSupportedIsNoTypoOfAnother) {
  for (const char* const keyword : {"minProperties", "maxProperties", "contains", "uniqueItems", "additionalItems"}) {
    try {
      json_schema_grammar(parsed(fmt::format(R"({{"{}": 1}})", keyword)));
      ADD_FAILURE() << keyword << ": no error";
    } catch (const GrammarError& error) {
      EXPECT_TRUE(std::string_view(error.what()).ends_with("this keyword is not supported")) << error.what();
    }
  }
}

TEST(JsonSchema, LimitsHold) {
  const auto nested = [](int depth) {
    std::string schema = "true";
    for (int i = 1; i < depth; ++i) schema = R"({"items": )" + schema + "}";
    return parsed(schema);
  };
  EXPECT_NO_THROW(json_schema_grammar(nested(64)));
  EXPECT_THROW(json_schema_grammar(nested(65)), GrammarError);
  nlohmann::ordered_json large = {{"enum", nlohmann::ordered_json::array()}};
  for (int i = 0; i < 200'000; ++i) large["enum"].push_back(fmt::format("some value number {}", i));
  EXPECT_THROW(json_schema_grammar(large), GrammarError);
  EXPECT_THROW(json_schema_grammar(parsed("{}"), {.max_bytes = 10}), GrammarError);
  EXPECT_THROW(json_schema_grammar(parsed("{}"), {.max_ms = 0}), GrammarError);
}

}  // namespace
}  // namespace paceline::test
