#include "engine/tokenizer/chat_template.h"

#include <algorithm>
#include <cstdlib>
#include <sys/stat.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "tests/engine/text/text_test_support.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

std::string render_text(const std::string& text, const Json& messages = Json::array(),
                        const RenderOptions& options = {}) {
  return ChatTemplate::parse(text, "t.jinja").render(messages, options);
}

/// The message of the Error that rendering throws, or "" when it throws none.
std::string error_of(const std::string& text) {
  try {
    render_text(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::model_file) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return {};
}

TEST(ChatTemplate, EqualsJinja2OnEveryCase) {
  setenv("TZ", "UTC", 1);
  const Json data = Json::parse(test::read_file(source_dir() / "tests/data/text/jinja_cases.json"));
  int num_texts = 0, num_errors = 0;
  for (const Json& one : data["cases"]) {
    const auto& source = data["templates"][one["template"].get<size_t>()].get_ref<const std::string&>();
    SCOPED_TRACE(one["name"].get<std::string>() + " on " + one["chat"].get<std::string>() + ": " +
                 source.substr(0, 200));
    RenderOptions options{.add_generation_prompt = one["add_generation_prompt"],
                          .tools = one["tools"].get<bool>() ? data["tools"] : Json(nullptr),
                          .variables = data["variables"],
                          .now = data["now"].get<std::time_t>()};
    try {
      const ChatTemplate chat = ChatTemplate::parse(source, "case", data["tokens"]);
      const std::string got = chat.render(data["chats"][one["chat"].get<std::string>()], options);
      if (one["expected"].is_null()) {
        ADD_FAILURE() << "Jinja2 refuses this, we gave: " << got;
      } else {
        EXPECT_EQ(got, one["expected"].get<std::string>());
        ++num_texts;
      }
    } catch (const Error& error) {
      EXPECT_TRUE(one["expected"].is_null()) << error.what();
      ++num_errors;
    }
  }
  EXPECT_GE(num_texts, 230);
  EXPECT_GE(num_errors, 50);
}

TEST(ChatTemplate, BuiltInModelMatchesItsGoldenPrompt) {
  const auto folder = source_dir() / "configs/models/target-7m";
  ASSERT_TRUE(std::filesystem::exists(folder / "tokenizer_config.json")) << folder;
  const ChatTemplate chat = ChatTemplate::load(folder);
  EXPECT_TRUE(ChatTemplate::exists(folder));
  EXPECT_EQ(chat.render({{{"role", "user"}, {"content", " Hi\n"}}}), "<|user|>\nHi<|end|>\n<|assistant|>\n");
  EXPECT_EQ(chat.render({{{"role", "user"}, {"content", "Hi"}}}, {.add_generation_prompt = false}),
            "<|user|>\nHi<|end|>\n");
}

TEST(ChatTemplate, LoadsEveryFormOfFile) {
  const Json messages = {{{"role", "user"}, {"content", "x"}}};
  {
    test::TemporaryFolder folder;
    folder.write("tokenizer_config.json",
                 R"({"bos_token": {"content": "<s>"}, "chat_template": [{"name": "other", "template": "no"},
                    {"name": "default", "template": "{{ bos_token }}{{ messages[0].content }}"}]})");
    EXPECT_EQ(ChatTemplate::load(folder.path()).render(messages), "<s>x");
    EXPECT_EQ(ChatTemplate::load(folder.path(), "other").render(messages), "no");
    EXPECT_THROW(ChatTemplate::load(folder.path(), "third"), Error);
    folder.write("chat_template.jinja", "from file {{ bos_token }}");
    EXPECT_EQ(ChatTemplate::load(folder.path()).render(messages), "from file <s>");
  }
  test::TemporaryFolder empty;
  EXPECT_FALSE(ChatTemplate::exists(empty.path()));
  EXPECT_THROW(ChatTemplate::load(empty.path()), Error);
  empty.write("tokenizer_config.json", "{}");
  EXPECT_THROW(ChatTemplate::load(empty.path()), Error);
  empty.write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THROW(ChatTemplate::load(empty.path()), Error);
}

TEST(ChatTemplate, WhatIsNoFileIsNamedAndNotWaitedFor) {
  const test::TemporaryFolder folder, other;
  std::filesystem::create_directory(folder.path() / "chat_template.jinja");
  test::expect_error(ExitCode::model_file, {"chat_template.jinja", "is a folder"},
                     [&] { ChatTemplate::load(folder.path()); });
  ASSERT_EQ(::mkfifo((other.path() / "chat_template.jinja").c_str(), 0600), 0);
  test::expect_error(ExitCode::model_file, {"chat_template.jinja", "is a FIFO"},
                     [&] { ChatTemplate::load(other.path()); });
  test::TemporaryFolder large;
  large.write("chat_template.jinja", std::string((1 << 20) + 1, 'x'));
  test::expect_error(ExitCode::model_file, {"chat_template.jinja", "1048577 bytes", "at most 1048576"},
                     [&] { ChatTemplate::load(large.path()); });
}

TEST(ChatTemplate, PartsAreAListForTemplatesThatReadOneElseLines) {
  const auto rendered = [&](const char* role, const std::string& text) {
    nlohmann::ordered_json messages = nlohmann::ordered_json::parse(
        R"([{"content": [{"type": "text", "text": "part one"}, {"type": "text", "text": " two"}]}])");
    messages[0]["role"] = role;
    return ChatTemplate::parse(text, "t").render(messages);
  };
  const std::string each = "{% for m in messages %}<", end = ">{% endfor %}";
  const std::string list = "{% for part in m.content %}{{ part.text }}{% endfor %}";
  const std::string either = "{% if m.content is string %}{{ m.content }}{% else %}" + list + "{% endif %}";
  EXPECT_EQ(rendered("user", each + "{{ m.content }}" + end), "<part one\n two>");
  EXPECT_EQ(rendered("user", each + either + end), "<part one two>");
  EXPECT_EQ(rendered("user", "{{ 'Say: ' + messages[0]['content'] }}"), "Say: part one\n two");
  // of one role alone; and one that reads the first part only
  const std::string of_users =
      each + "{% if m.role == 'user' %}" + either + "{% else %}{{ m.content }}{% endif %}" + end;
  EXPECT_EQ(rendered("user", of_users), "<part one two>");
  EXPECT_EQ(rendered("system", of_users), "<part one\n two>");
  const std::string first = "{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0].text }}{% endif %}";
  EXPECT_EQ(rendered("user", each + first + end), "<part one\n two>");
}

TEST(ChatTemplate, ArgumentsOfToolCallsAreObjectsUnlessTheTemplateTakesTexts) {
  const auto rendered = [](const std::string& text, const std::string& arguments) {
    const nlohmann::ordered_json function = {{"name", "f"}, {"arguments", arguments}};
    const nlohmann::ordered_json call = {{"function", function}};
    return ChatTemplate::parse(text, "t").render(nlohmann::ordered_json::array(
        {{{"role", "user"}, {"content", "u"}},
         {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", nlohmann::ordered_json::array({call})}}}));
  };
  const std::string each = "{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}",
                    end = "{% endfor %}{% endif %}{% endfor %}";
  const std::string as_json = each + "{{ c.function.arguments | tojson }}" + end;
  EXPECT_EQ(rendered(as_json, R"({"b": 1, "a": ["K"]})"), R"({"b": 1, "a": ["K"]})");
  EXPECT_EQ(rendered(as_json, R"({"b": )"), R"("{\"b\": ")") << "no JSON";
  EXPECT_EQ(rendered(as_json, "7"), R"("7")") << "no object";
  EXPECT_EQ(rendered(as_json, std::string(100'000, '[')).size(), 100'002u);
  EXPECT_EQ(rendered(each + "{{ '<' + c.function.arguments + '>' }}" + end, R"({"b": 1})"), R"(<{"b": 1}>)");
}

TEST(ChatTemplate, RefusalOfMessagesIsAUsageError) {
  try {
    render_text("\n{{ raise_exception('roles must\nalternate') }}");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(), R"(t.jinja: chat template 2:19: refused these messages: "roles must\nalternate")");
  }
}

TEST(ChatTemplate, ErrorsNameThePosition) {
  const std::pair<const char*, const char*> cases[] = {
      {"ab\n  {{ ''.__class__ }}", "t.jinja: chat template 2:9: attribute \"__class__\" is not allowed"},
      {"{{ messages['__class__'] }}", "1:12: attribute \"__class__\" is not allowed"},
      {"{{ messages | attr('x') }}", "filter \"attr\" is not supported"},
      {"{% include 'x' %}", "1:4: tag \"include\" is not supported here"},
      {"{% import 'os' as os %}", "tag \"import\""},
      {"{{ __import__('os') }}", "name \"__import__\" is not allowed"},
      {"{{ open('/etc/passwd') }}", "1:4: call of \"open\" is not allowed"},
      {"{{ messages.pop() }}", "method \"pop\" of list is not allowed"},
      {"{{ '%s' % 3 }}", "str % int is not supported"},
      {"{% set loop = 1 %}", "\"loop\" cannot be assigned to"},
      {"{{ cycler('a') }}", "call of \"cycler\" is not allowed"},
      {"{{ range(1, *2) }}", "1:9: a int cannot be iterated over"},
      {"{{ range(**messages) }}", "** of a list, expected a dict with names as keys"},
      {"{% call messages %}{% endcall %}", "expected a call of a macro before \"%}\""},
      {"{{ '{:9999}'.format(1) }}", "format \"9999\" of a int is not supported"},
      {"{{ '{0:{1}}'.format(1, 5) }}", "format \"{1\" of a int is not supported"},
      {"{{ '{a!r}'.format(**{'a!r': 7, 'a': 'q'}) }}", "format: field \"a!r\" is not supported"},
      {"{{ '{:08,}'.format(42) }}", "format \"08,\" of a int is not supported"},
      {"{{ '{:c}'.format(255) }}", "format \"c\" of a int is not supported"},
      {"{{ '{:d}'.format('a') }}", "format \"d\" of a str is not supported"},
      {"{% break %}", "\"break\" outside a loop"},
      {"{{ 9223372036854775807 + 1 }}", "integer overflow"},
      {"{{ 99999999999999999999 }}", "out of range"},
      {"{{ 'a' ", "tag is not closed"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_NE(error_of(text).find(expected), std::string::npos) << error_of(text);
}

std::string nested(const std::string& open, const std::string& inside, const std::string& close, int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += inside;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(ChatTemplate, EveryLimitIsNamedAndReachedWithinATenthOfASecond) {
  const std::string many_locals = [] {
    std::string text = "{% for x in [1] %}";
    for (int i = 0; i < 20000; ++i) text += "{% set v" + std::to_string(i) + "=1 %}";
    return text + "{% for i in range(10000) %}{% for j in range(10000) %}{{ q }}{% endfor %}{% endfor %}{% endfor %}";
  }();
  const std::string alike_keys = [] {
    std::string text = "{% set a = 'a' * 60000 %}", dict;
    for (int i = 0; i < 16; ++i) {
      text += fmt::format("{{% set k{} = a ~ '{}' %}}", i, char('a' + i));
      dict += fmt::format("k{}: 1, ", i);
    }
    return text + "{% set d = {" + dict + "} %}";
  }();
  const std::pair<std::string, const char*> cases[] = {
      {"{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}", "limit of 1000000 steps"},
      {"{% for a in range(10000) %}{% for b in range(10000) %}{{ a + b * 2 }}{% endfor %}{% endfor %}", "limit of"},
      {"{{ range(10**9) }}", "limit of 10000 items"},
      {"{{ range(10001) | list | length }}", "limit of 10000 items"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "limit of depth 64"},
      {"{% macro f(n) %}{{ g(n) }}{% endmacro %}{% macro g(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
       "limit of depth 64"},
      {"{% macro f() %}{% for i in range(2) %}{{ f() }}{% endfor %}{% endmacro %}{{ f() }}", "limit of depth 64"},
      {"{{ 'a' * 10**9 }}", "limit of 1 MiB"},
      {"{{ [1] * 10**9 }}", "limit of 1 MiB"},
      {"{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor "
       "%}",
       "limit of 1 MiB"},
      {"{% for i in range(10000) %}{{ 'abcdefghijklmnopqrstuvwxyz' * 100 }}{% endfor %}", "limit of"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "limit of"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x] %}{% endfor %}",
       "limit of depth 64"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
       "limit of"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | "
       "tojson }}",
       "limit of"},
      {"{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = "
       "[ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
       "limit of"},
      {"{% set x = 'ab' * 500000 %}{% for i in range(10000) %}{{ 'zz' in x }}{% endfor %}", "limit of"},
      {"{% set x = 'ab' * 500000 %}{% set y = 'ab' * 500000 %}{% for i in range(10000) %}{{ x == y }}{% endfor %}",
       "limit of"},
      {"{% set x = 'ab' * 500000 %}{% for i in range(10000) %}{% set y = x | upper %}{% endfor %}", "limit of"},
      {"{% set x = 'ab' * 500000 %}{% for i in range(10000) %}{% set y = x | list %}{% endfor %}", "limit of"},
      {"{% set x = 'ab' * 500000 %}{% for i in range(10000) %}{% set y = x.split('a') %}{% endfor %}", "limit of"},
      {"{% set x = 'ab' * 160000 %}{% for i in range(10000) %}{% set y = x.split('a') %}{% endfor %}", "limit of"},
      {"{% set x = 'ab' * 160000 %}{% for i in range(10000) %}{% set y = x | list %}{% endfor %}", "limit of"},
      {"{% set x = 'ab' * 500000 %}{% for i in range(10000) %}{% set y = x.replace('', 'cc') %}{% endfor %}",
       "limit of"},
      {"{% set x = range(10000) | list %}{% for i in x %}{{ -1 in x }}{% endfor %}", "limit of"},
      {"{{ range(10000) | unique | list | length }}", "limit of"},
      {many_locals, "limit of 1000000 steps"},
      // Each loop holds the list that holds the last loop.
      {"{% set ns = namespace(l=1) %}{% for i in range(10000) %}{% for j in range(8) %}{% for x in [ns.l] %}"
       "{% set ns.l = loop %}{% endfor %}{% endfor %}{% endfor %}",
       "limit of depth 64"},
      // Keys that are alike up to their end, compared and copied.
      {alike_keys +
           "{% for i in range(10000) %}{% for j in range(10000) %}{% set x = d[k15] %}{% endfor %}{% endfor %}",
       "limit of 1000000 steps"},
      {alike_keys + "{% for i in range(10000) %}{% for j in range(10000) %}{{ d == d }}{% endfor %}{% endfor %}",
       "limit of 1000000 steps"},
      {alike_keys + "{% set ns = namespace() %}{% for i in range(10000) %}{% set ns.p = namespace(d) %}{% endfor %}",
       "limit of 1000000 steps"},
      {"{% set x = 'A' * 1000000 %}{% for i in range(10000) %}{{ x is upper }}{% endfor %}", "limit of 1000000 steps"},
      {"{% set c = 'abcdefgh' * 32 %}{% set x = 'h' * 1000000 %}{% for i in range(10000) %}{{ x.strip(c) }}{% endfor "
       "%}",
       "limit of 1000000 steps"},
      {"{{ " + nested("a", "", "", 100000) + " }}", "name of 100000 bytes beyond the limit of 256"},
      {"{{ " + nested("(", "1", ")", 100) + " }}", "limit of depth 64"},
      {"{{ " + nested("[", "1", "]", 100) + " }}", "limit of depth 64"},
      {"{{ " + nested("-", "1", "", 100) + " }}", "limit of depth 64"},
      {"{{ " + nested("not ", "1", "", 100000) + " }}", "limit of depth 64"},
      {"{{ x" + nested(".a", "", "", 100000) + " }}", "limit of depth"},
      {"{{ x" + nested("|trim", "", "", 100000) + " }}", "limit of depth"},
      {"{{ 1" + nested(" if 1", "", "", 1000) + " }}", "limit of depth 64"},
      {"{{ " + nested("1 if 1 else ", "1", "", 1000) + " }}", "limit of depth 64"},
      {nested("{% if 1 %}", "", "{% endif %}", 3000), "limit of depth 64"},
  };
  double slowest_ms = 0;
  for (const auto& [text, expected] : cases) {
    const double begin = test::thread_cpu_ms();
    const std::string message = error_of(text);
    const double spent = test::thread_cpu_ms() - begin;
    EXPECT_NE(message.find(expected), std::string::npos) << text.substr(0, 150) << " gave: " << message;
    if (!test::kSanitized) {
      EXPECT_LE(spent, 100.0) << text.substr(0, 150);
    }
    slowest_ms = std::max(slowest_ms, spent);
  }
  RecordProperty("slowest_ms", std::to_string(slowest_ms));
}

TEST(ChatTemplate, AnArgumentMayChangeTheNamespaceThatHoldsTheMacro) {
  // By the time that the arguments are there, the called entry is another, or lies elsewhere.
  EXPECT_EQ(render_text("{% macro g(x='') %}{% set ns.f = 1 %}<{{ x }}>{% endmacro %}{% set ns = namespace(f=g) %}"
                        "{{ ns.f(ns.f()) }}"),
            "<<>>");
  std::string grows = "{% macro g(x='') %}";
  for (int i = 0; i < 64; ++i) grows += "{% set ns.v" + std::to_string(i) + " = 1 %}";
  EXPECT_EQ(render_text(grows + "<{{ x }}>{% endmacro %}{% set ns = namespace(f=g) %}{{ ns.f(ns.f()) }}"), "<<>>");
}

/// A filter that is the argument of a filter, `depth` times.
std::string nested_map(int depth) {
  std::string text = "{{ 'a'|map(";
  for (int i = 0; i < depth; ++i) text += "'map',";
  return text + "'upper')|join }}";
}

TEST(ChatTemplate, FiltersThatCallFiltersAreBoundedAsExpressionsAre) {
  EXPECT_EQ(render_text("{{ 'ab'|map('upper')|join }}{{ [['a']]|map('map', 'upper')|map('join')|join }}"), "ABA");
  const std::string deep = nested_map(16'000);
  const double begin = test::thread_cpu_ms();
  EXPECT_EQ(error_of(deep), "t.jinja: chat template 1:8: calls nested deeper than the limit of depth 1000");
  if (!test::kSanitized) {
    EXPECT_LE(test::thread_cpu_ms() - begin, 200.0);
    constexpr size_t kMoreMemory = size_t{64} << 20;
    EXPECT_EXIT(
        {
          test::limit_further_memory(kMoreMemory);
          fmt::print(stderr, "{}\n", error_of(deep));
          std::_Exit(0);
        },
        testing::ExitedWithCode(0), "^t.jinja: chat template 1:8: calls nested deeper");
  }
}

TEST(ChatTemplate, SearchingTakesLinearTime) {
  const std::string setup = "{% set text = 'a' * 500000 %}{% set part = 'a' * 250000 ~ 'b' %}";
  const std::pair<const char*, const char*> cases[] = {
      {"{{ part in text }}", "False"},
      {"{{ text.split(part) | length }}", "1"},
      {"{{ text.replace(part, '') | length }}", "500000"},
      {"{{ text | replace(part, '') | length }}", "500000"},
  };
  for (const auto& [text, expected] : cases) {
    const double begin = test::thread_cpu_ms();
    EXPECT_EQ(render_text(setup + text), expected);
    if (!test::kSanitized) {
      EXPECT_LE(test::thread_cpu_ms() - begin, 100.0) << text;
    }
  }
}

TEST(ChatTemplate, AffixesAreStringsOrOneListOfThem) {
  EXPECT_EQ(render_text("{{ 'ab'.startswith(('x', 'a')) }}{{ 'ab'.endswith('b') }}{{ 'ab'.startswith(()) }}"),
            "TrueTrueFalse");
  // Lists that hold one list twice, sixty times over: nobody may walk that.
  EXPECT_EQ(error_of("{% set ns = namespace(x=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
                     "{{ 'a'.startswith(ns.x) }}"),
            "t.jinja: chat template 1:103: startswith: expected a string for \"prefix\", found list");
}

TEST(ChatTemplate, CopiedKeysCountAsMemory) {
  if (test::kSanitized) return;  // whose own memory exceeds the limit
  const std::string copies =
      "{% set k = 'a' * 1000000 %}{% set ns = namespace(l=[]) %}{% for i in range(10000) %}{% set ns.l = ns.l + [{k: "
      "1}] "
      "%}{% endfor %}";
  EXPECT_EXIT(
      {
        test::limit_further_memory(size_t{64} << 20);
        fmt::print(stderr, "{}\n", error_of(copies));
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "limit of 1000000 steps reached");
}

TEST(ChatTemplate, LongButFlatTemplatesAreFine) {
  std::string sum = "{{ 0", joined = "{{ ''", chain = "{% if 0 %}";
  for (int i = 0; i < 1000; ++i) {
    sum += " + 1";
    joined += " ~ 'a'";
    chain += "{% elif 0 %}";
  }
  EXPECT_EQ(render_text(sum + " }}"), "1000");
  EXPECT_EQ(render_text(joined + " }}"), std::string(1000, 'a'));
  EXPECT_EQ(render_text(chain + "{% else %}x{% endif %}"), "x");
  // A long prompt is well inside the limits.
  const std::string content(500'000, 'x');
  EXPECT_EQ(render_text("{% for m in messages %}{{ '<' + m.content | trim + '>' }}{% endfor %}",
                        {{{"role", "user"}, {"content", content}}}),
            "<" + content + ">");
}

TEST(ChatTemplate, CyclesThroughNamespacesAreFreed) {
  // The leak check of the sanitizer build is the assertion.
  EXPECT_EQ(render_text("{% set a = namespace() %}{% set b = namespace(x=a) %}{% set a.x = [b, a] %}ok"), "ok");
  EXPECT_EQ(render_text("{% set ns = namespace(p=none) %}{% for i in range(10000) %}{% set ns.p = namespace(p=ns.p) %}"
                        "{% endfor %}ok"),
            "ok");
}

// What a macro sees is kept with it, and so is what that keeps.
TEST(ChatTemplate, MacrosThatKeepMacrosAreBounded) {
  const auto chain = [](int length) {
    return "{% set ns = namespace(m=0) %}{% for i in range(" + std::to_string(length) +
           ") %}{% set last = ns.m %}{% macro m() %}{{ last is callable }}{% endmacro %}{% set ns.m = m %}{% endfor %}"
           "{{ ns.m() }}";
  };
  EXPECT_EQ(render_text(chain(30)), "True");
  EXPECT_NE(error_of(chain(1000)).find("macros nested deeper than the limit of depth 64"), std::string::npos);
}

TEST(ChatTemplate, BadMessagesAreUsageErrors) {
  const ChatTemplate chat = ChatTemplate::parse("x", "t");
  EXPECT_THROW(chat.render(Json::object()), Error);
  Json deep = Json::array();
  for (int i = 0; i < 100; ++i) deep = Json::array({deep});
  EXPECT_THROW(chat.render(deep), Error);
  EXPECT_EQ(render_text("{{ messages[0] }}", {"bad \xff utf"}), "bad \xEF\xBF\xBD utf");
}

TEST(ChatTemplate, MutatedTemplatesOnlyThrowErrors) {
  const Json data = Json::parse(test::read_file(source_dir() / "tests/data/text/jinja_cases.json"));
  const std::string pieces[] = {"{%", "%}", "{{",   "}}", "{#",  "-",      "'",  "(",   ")",  "[",
                                "]",  "|",  ".",    "if", "for", "endfor", "in", "not", "is", "~",
                                "\n", "\\", "\xff", "0",  "set", "endif",  "{",  ":",   ",",  "macro"};
  uint64_t state = 7;
  const auto random = [&](size_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>(state >> 33) % below;
  };
  int num_rendered = 0, num_errors = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text = data["templates"][random(data["templates"].size())];
    for (size_t edits = 1 + random(3); edits > 0; --edits) {
      const size_t at = random(text.size() + 1);
      if (random(2) == 0) {
        text.insert(at, pieces[random(std::size(pieces))]);
      } else {
        text.erase(at, 1 + random(4));
      }
    }
    try {
      ChatTemplate::parse(text, "mutant", data["tokens"]).render(data["chats"]["system"], {.tools = data["tools"]});
      ++num_rendered;
    } catch (const Error&) {
      ++num_errors;
    }
  }
  EXPECT_GE(num_rendered, 500);
  EXPECT_GE(num_errors, 500);
}

}  // namespace
}  // namespace paceline
