// What a chat's template does not read is refused, not dropped.

#include "engine/serve/prepare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "small_tokenizer.h"

namespace paceline {
namespace {

constexpr const char* kContents = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
constexpr const char* kCalls =
    "{% for m in messages %}{{ m.role }}: {{ m.content or '' }}{% for c in m.tool_calls %}[{{ c.function.name }}]"
    "{% endfor %}\n{% endfor %}";
constexpr const char* kCall = R"([{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}])";

std::string user(const std::string& text) { return fmt::format(R"({{"role": "user", "content": "{}"}})", text); }
std::string assistant(const std::string& content, const std::string& more) {
  return fmt::format(R"({{"role": "assistant", "content": {}, {}}})", content, more);
}
std::string calls(const std::string& content) { return assistant(content, fmt::format(R"("tool_calls": {})", kCall)); }
const std::string kResult = R"({"role": "tool", "tool_call_id": "c1", "content": "sunny"})";

/// The param that is refused; "": none.
std::string refused(const char* chat_template, const std::vector<std::string>& messages, const std::string& more = "") {
  const ServedModel model{
      .names = {"m"}, .tokenizer = test::small_tokenizer(), .chat_template = ChatTemplate::parse(chat_template, "t")};
  const RequestRules rules{.limits = {}, .model_names = {"m"}, .vocab_size = 100};
  try {
    tokenize_body(fmt::format(R"({{"messages": [{}]{}}})", fmt::join(messages, ","), more), rules, model, 1000);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_NE(error.message.find("chat template does not read"), std::string::npos) << error.message;
    return error.param;
  }
  return "";
}

TEST(Prepare, ToolCallsThatTheTemplateDoesNotReadAreRefused) {
  EXPECT_EQ(refused(kContents, {user("Hi?"), calls("null"), kResult}), "messages[1].tool_calls");
  EXPECT_EQ(refused(kContents, {user("Hi?"), calls(R"("I look.")"), kResult}), "messages[1].tool_calls");
  EXPECT_EQ(refused(kCalls, {user("Hi?"), calls("null"), kResult}), "");
  EXPECT_EQ(refused(kCalls, {user("Hi?"), calls("null"), kResult, calls(R"("And again.")"), kResult}), "");
  EXPECT_EQ(refused(kContents, {user("Hi?"), assistant(R"("No.")", R"("tool_calls": [])")}), "");
}

TEST(Prepare, ToolCallsThatOnlyAMessageWithoutContentHasReadAreRefusedBesideContent) {
  const char* const either = "{% for m in messages %}{{ m.content or m.tool_calls[0].function.name }}{% endfor %}";
  EXPECT_EQ(refused(either, {user("Hi?"), calls("null"), kResult, calls(R"("And again.")"), kResult}),
            "messages[3].tool_calls");
}

TEST(Prepare, ATemplateThatDemandsAFieldReadsIt) {
  const char* const strict =
      "{% for m in messages %}{% if m.role == 'assistant' and not m.tool_calls %}{{ raise_exception('a call, please') "
      "}}"
      "{% endif %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(refused(strict, {user("Hi?"), calls(R"("")")}), "");
}

TEST(Prepare, NamesReasoningAndVariablesThatTheTemplateDoesNotReadAreTaken) {
  EXPECT_EQ(refused(kContents, {user("Hi?"), assistant(R"("Yes.")", R"("reasoning_content": "because")")}), "");
  EXPECT_EQ(refused(kContents, {R"({"role": "user", "name": "Ann", "content": "Hi"})"},
                    R"(, "chat_template_kwargs": {"enable_thinking": false})"),
            "");
  EXPECT_EQ(refused(kContents, {user("Hi?")}, R"(, "tools": [{"type": "function"}])"), "tools");
}

}  // namespace
}  // namespace paceline
