// Grammars of requests: compiled once, kept within limits, and errors with their place.

#include "engine/serve/grammar_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/serve/api_error.h"
#include "tests/engine/serve/small_tokenizer.h"

namespace paceline {
namespace {

using Form = StructuredOutput::Form;

StructuredOutput output_of(Form form, const std::string& source) {
  StructuredOutput output;
  output.form = form;
  output.param = std::string("f");
  if (form == Form::json_schema)
    output.schema = nlohmann::ordered_json::parse(source);
  else if (form == Form::choice)
    output.choices = {source};
  else
    output.text = source;
  return output;
}

ApiError error_of(GrammarCache& cache, const StructuredOutput& output) {
  try {
    cache.find(output);
  } catch (const ApiError& error) {
    return error;
  }
  return {.status = 200, .message = "nothing was refused"};
}

TEST(GrammarCache, TheSameSourceIsCompiledOnce) {
  GrammarCache cache(test::small_tokenizer(), {});
  const auto first = cache.find(output_of(Form::regex, "a"));
  EXPECT_EQ(cache.find(output_of(Form::regex, "a")), first);
  EXPECT_NE(cache.find(output_of(Form::choice, "a")), first);
  EXPECT_NE(cache.find(output_of(Form::json_schema, R"({"const": "a"})")), first);
  EXPECT_EQ(cache.num_kept(), 3u);
}

TEST(GrammarCache, KeepsTheLastOnes) {
  GrammarCache cache(test::small_tokenizer(), {.max_grammars = 3});
  const auto a = cache.find(output_of(Form::regex, "a"));
  for (const char* other : {"b", "c"}) cache.find(output_of(Form::regex, other));
  EXPECT_EQ(cache.num_kept(), 3u);
  EXPECT_EQ(cache.find(output_of(Form::regex, "a")), a);  // now b was asked for longest ago
  const auto c = cache.find(output_of(Form::regex, "c"));
  cache.find(output_of(Form::regex, "d"));
  EXPECT_EQ(cache.num_kept(), 3u);
  EXPECT_EQ(cache.find(output_of(Form::regex, "a")), a);
  EXPECT_EQ(cache.find(output_of(Form::regex, "c")), c);
}

TEST(GrammarCache, KeepsNoMoreBytesThanItMay) {
  const auto bytes_of = [](const std::string& regex) {
    GrammarCache alone(test::small_tokenizer(), {});
    const auto grammar = alone.find(output_of(Form::regex, regex));
    const CompiledGrammar::Lock lock(*grammar);
    return int64_t(1 + regex.size() + grammar->bytes());
  };
  const int64_t both = bytes_of("a{9}") + bytes_of("b{9}");
  for (const int64_t most : {both - 1, both, both + 1}) {
    GrammarCache cache(test::small_tokenizer(), {.max_kept_grammar_bytes = most});
    cache.find(output_of(Form::regex, "a{9}"));
    cache.find(output_of(Form::regex, "b{9}"));
    EXPECT_EQ(cache.num_kept(), most < both ? 1u : 2u) << most;
  }
}

// Ten forms of open requests, none of which is kept.
TEST(GrammarCache, AllThatLiveHaveALimit) {
  const auto form = [](int i) { return output_of(Form::regex, fmt::format("a{{{}}}", 100 + i)); };
  size_t all = 0;
  {
    GrammarCache cache(test::small_tokenizer(), {});
    for (int i = 0; i < 10; ++i) {
      const auto grammar = cache.find(form(i));
      const CompiledGrammar::Lock lock(*grammar);
      all += grammar->bytes();
    }
  }
  for (const int64_t most : {int64_t(all) - 1, int64_t(all), int64_t(all) + 1}) {
    GrammarCache cache(test::small_tokenizer(), {.max_grammars = 0, .max_live_grammar_bytes = most});
    std::vector<std::shared_ptr<CompiledGrammar>> open;
    for (int i = 0; i < 9; ++i) open.push_back(cache.find(form(i)));
    const bool is_refused = most < int64_t(all);
    EXPECT_EQ(error_of(cache, form(9)).status, is_refused ? 503 : 200) << most;
    open.pop_back();
    EXPECT_EQ(error_of(cache, form(9)).status, 200) << "one has ended";
  }
  GrammarCache keeps(test::small_tokenizer(), {.max_live_grammar_bytes = int64_t(all) - 1});
  for (int i = 0; i < 9; ++i) keeps.find(form(i));
  EXPECT_EQ(keeps.num_kept(), 9u);
  EXPECT_EQ(error_of(keeps, form(9)).status, 200) << "those that no request has make room";
  EXPECT_LT(keeps.num_kept(), 10u);
}

TEST(GrammarCache, ASourceHasItsLimit) {
  GrammarCache cache(test::small_tokenizer(), {.max_grammar_source_bytes = 100});
  for (const size_t bytes : {99u, 100u, 101u}) {
    const ApiError error = error_of(cache, output_of(Form::regex, std::string(bytes, 'a')));
    EXPECT_EQ(error.status, bytes > 100 ? 400 : 200) << bytes;
    if (bytes > 100) {
      EXPECT_EQ(error.param, "f");
    }
  }
}

TEST(GrammarCache, AGrammarHasItsLimits) {
  const auto schema = output_of(Form::json_schema, R"({"type": "string", "maxLength": 2000})");
  const auto takes = [&](int64_t bytes) {
    GrammarCache cache(test::small_tokenizer(), {.max_grammar_bytes = bytes});
    return error_of(cache, schema).status == 200;
  };
  int64_t too_few = 0, enough = ServeLimits{}.max_grammar_bytes;
  ASSERT_TRUE(takes(enough));
  while (enough - too_few > 1) {
    const int64_t middle = (too_few + enough) / 2;
    (takes(middle) ? enough : too_few) = middle;
  }
  EXPECT_GT(too_few, 2000);
  EXPECT_FALSE(takes(enough - 1));
  EXPECT_TRUE(takes(enough) && takes(enough + 1));
  GrammarCache hurried(test::small_tokenizer(), {.max_grammar_ms = 0});
  EXPECT_EQ(error_of(hurried, schema).param, "f");
}

TEST(GrammarCache, ErrorsNameFieldAndPlace) {
  GrammarCache cache(test::small_tokenizer(), {});
  for (const auto& [form, source, param] : std::vector<std::tuple<Form, const char*, const char*>>{
           {Form::json_schema, R"({"items": {"format": "date"}})", "f/items/format"},
           {Form::json_schema, "7", "f"},
           {Form::regex, "(", "f"},
           {Form::grammar, "root ::= other", "f"}}) {
    const ApiError error = error_of(cache, output_of(form, source));
    EXPECT_EQ(error.status, 400) << source;
    EXPECT_EQ(error.param, param) << error.message;
    EXPECT_TRUE(error.message.starts_with(std::string(param) + ": ")) << error.message;
  }
  EXPECT_EQ(cache.num_kept(), 0u);
}

}  // namespace
}  // namespace paceline
