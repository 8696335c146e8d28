// Bodies of requests: what is read, and that nothing is ignored.

#include "engine/serve/request/api_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

const RequestRules& rules() {
  static const RequestRules made{.limits = {}, .model_names = {"m", "builtin:m"}, .vocab_size = 100};
  return made;
}

GenerationRequest completion(const std::string& more) {
  return parse_generation_request(ApiKind::completion, R"({"prompt": "p")" + (more.empty() ? "" : ", " + more) + "}",
                                  rules());
}
GenerationRequest chat(const std::string& more) {
  return parse_generation_request(
      ApiKind::chat, R"({"messages": [{"role": "user", "content": "hi"}])" + (more.empty() ? "" : ", " + more) + "}",
      rules());
}

/// What parsing throws; status 200: nothing.
template <class Parse>
ApiError error_of(const Parse& parse) {
  try {
    parse();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
    return error;
  }
  return {.status = 200, .message = "nothing was refused"};
}

void expect_refused(ApiKind kind, const std::string& more, const std::string& param) {
  const ApiError error = error_of([&] { kind == ApiKind::chat ? chat(more) : completion(more); });
  EXPECT_EQ(error.status, 400) << more;
  EXPECT_EQ(error.param, param) << more << ": " << error.message;
}

TEST(ApiRequest, DefaultsAreOpenAis) {
  const GenerationRequest request = completion("");
  EXPECT_EQ(std::get<std::string>(request.prompts.front()), "p");
  EXPECT_EQ(request.sampling.sampler.temperature, 1.0f);
  EXPECT_EQ(request.sampling.sampler.top_p, 1.0f);
  EXPECT_EQ(request.sampling.sampler.top_k, 0);
  EXPECT_EQ(request.num_choices, 1);
  EXPECT_FALSE(request.max_tokens || request.seed || request.stream || request.include_usage ||
               request.return_draft_flags);
  EXPECT_TRUE(request.add_special_tokens);
  EXPECT_FALSE(chat("").add_special_tokens);
}

TEST(ApiRequest, EveryFieldArrives) {
  const GenerationRequest request = completion(
      R"("model": "builtin:m", "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "seed": -3,
         "n": 2, "stop": ["a", "b"], "stop_token_ids": [5, 6], "ignore_eos": true, "stream": true,
         "stream_options": {"include_usage": true, "continuous_usage_stats": true}, "return_token_ids": true,
         "return_draft_flags": true, "skip_special_tokens": false, "include_stop_str_in_output": true, "add_special_tokens": false, "user": "u")");
  EXPECT_EQ(request.max_tokens, 7);
  EXPECT_EQ(request.sampling.sampler.temperature, 0.5f);
  EXPECT_EQ(request.sampling.sampler.top_p, 0.9f);
  EXPECT_EQ(request.sampling.sampler.top_k, 40);
  EXPECT_EQ(request.sampling.sampler.min_p, 0.1f);
  EXPECT_EQ(request.seed, uint64_t(-3));
  EXPECT_EQ(request.num_choices, 2);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.sampling.stop_token_ids, (std::vector<int32_t>{5, 6}));
  EXPECT_TRUE(request.sampling.ignore_eos && request.stream && request.include_usage && request.continuous_usage &&
              request.return_token_ids && request.return_draft_flags && request.include_stop);
  EXPECT_FALSE(request.skip_special_tokens || request.add_special_tokens);
  EXPECT_EQ(completion(R"("top_k": -1, "stop": "x")").stop, (std::vector<std::string>{"x"}));
  EXPECT_EQ(chat(R"("max_completion_tokens": 9)").max_tokens, 9);
  EXPECT_EQ(chat(R"("max_completion_tokens": 9, "max_tokens": 9)").max_tokens, 9);
}

TEST(ApiRequest, PromptsAreTextsOrIds) {
  const auto prompts = [](const char* prompt) {
    return parse_generation_request(ApiKind::completion, fmt::format(R"({{"prompt": {}}})", prompt), rules()).prompts;
  };
  EXPECT_EQ(prompts(R"(["a", ""])").size(), 2u);
  EXPECT_EQ(std::get<std::vector<int32_t>>(prompts("[0, 99, 5]").front()), (std::vector<int32_t>{0, 99, 5}));
  EXPECT_EQ(prompts("[[1], [2, 3]]").size(), 2u);
  for (const auto& [prompt, param] : std::vector<std::pair<const char*, const char*>>{{"[]", "prompt"},
                                                                                      {"{}", "prompt"},
                                                                                      {"7", "prompt"},
                                                                                      {"null", "prompt"},
                                                                                      {"[-1]", "prompt[0]"},
                                                                                      {"[100]", "prompt[0]"},
                                                                                      {"[1, 2.5]", "prompt[1]"},
                                                                                      {"[1, \"a\"]", "prompt[1]"},
                                                                                      {"[\"a\", 1]", "prompt[1]"},
                                                                                      {"[[1], 2]", "prompt[1]"},
                                                                                      {"[[[1]]]", "prompt[0][0]"},
                                                                                      {"[1e300]", "prompt[0]"},
                                                                                      {"[true]", "prompt[0]"}})
    EXPECT_EQ(error_of([&] { prompts(prompt); }).param, param) << prompt;
}

TEST(ApiRequest, MessagesAreStringsAndTextParts) {
  const auto read = [](const char* messages) {
    return parse_generation_request(ApiKind::chat, fmt::format(R"({{"messages": {}}})", messages), rules()).chat;
  };
  const ChatPrompt prompt = read(
      R"([{"role": "system", "content": "s", "name": "n"}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}, {"role": "tool", "content": "t", "tool_call_id": "1"}])");
  EXPECT_EQ(
      prompt.messages.dump(),
      R"([{"role":"system","content":"s","name":"n"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","content":"t","tool_call_id":"1"}])");
  for (const auto& [messages, param] : std::vector<std::pair<const char*, const char*>>{
           {"[]", "messages"},
           {"\"hi\"", "messages"},
           {"null", "messages"},
           {"[7]", "messages[0]"},
           {R"([{"content": "x"}])", "messages[0].role"},
           {R"([{"role": "king", "content": "x"}])", "messages[0].role"},
           {R"([{"role": "user"}])", "messages[0].content"},
           {R"([{"role": "user", "content": 7}])", "messages[0].content"},
           {R"([{"role": "user", "content": "x", "colour": 1}])", "messages[0].colour"},
           {R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])",
            "messages[0].content[0].type"},
           {R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text"}})
    EXPECT_EQ(error_of([&] { read(messages); }).param, param) << messages;
}

TEST(ApiRequest, AMissingFieldNamesWhatStandsInItsPlace) {
  const auto message = [](ApiKind kind, const char* body) {
    return error_of([&] { parse_generation_request(kind, body, rules()); }).message;
  };
  EXPECT_EQ(message(ApiKind::chat, R"({"message": []})"),
            "messages: missing, expected a list of messages; found \"message\"");
  EXPECT_EQ(message(ApiKind::chat, R"({"prompt": "hi"})"), "prompt: this goes to /v1/completions");
  EXPECT_EQ(message(ApiKind::completion, R"({"messages": []})"), "messages: these go to /v1/chat/completions");
  EXPECT_TRUE(message(ApiKind::completion, R"({"promt": "hi"})").ends_with("; found \"promt\""));
  EXPECT_TRUE(message(ApiKind::completion, R"({"text": "hi"})").ends_with("a list of such lists"));
  EXPECT_EQ(error_of([] { parse_tokenize_request(R"({"promt": "hi"})", rules()); }).message,
            "prompt: missing, expected a string; found \"promt\"");
  EXPECT_EQ(error_of([] { completion(R"("stop": 5)"); }).message,
            "stop: found 5, expected a string or a list of strings");
}

TEST(ApiRequest, ToolsKeepTheOrderOfTheirKeys) {
  const char* const tools = R"([{"type":"function","function":{"name":"z","a":1,"B":2}}])";
  EXPECT_EQ(chat(fmt::format(R"("tools": {}, "tool_choice": "auto")", tools)).chat.tools.dump(), tools);
}

TEST(ApiRequest, ValuesOutsideTheirRangeAreNamed) {
  for (const auto& [more, param] : std::vector<std::pair<const char*, const char*>>{
           {R"("n": 0)", "n"},
           {R"("n": 17)", "n"},
           {R"("n": 1000000000000)", "n"},
           {R"("n": 1.5)", "n"},
           {R"("n": "2")", "n"},
           {R"("max_tokens": 0)", "max_tokens"},
           {R"("max_tokens": -1)", "max_tokens"},
           {R"("max_tokens": 9223372036854775808)", "max_tokens"},
           {R"("temperature": -1)", "temperature"},
           {R"("temperature": "hot")", "temperature"},
           {R"("temperature": true)", "temperature"},
           {R"("top_p": 0)", "top_p"},
           {R"("top_p": 1.1)", "top_p"},
           {R"("top_k": -5)", "top_k"},
           {R"("min_p": 1.5)", "min_p"},
           {R"("seed": 18446744073709551616)", "seed"},
           {R"("seed": 9223372036854775808)", "seed"},
           {R"("seed": 0.5)", "seed"},
           {R"("stop": "")", "stop"},
           {R"("stop": ["a", 7])", "stop[1]"},
           {R"("stop_token_ids": [100])", "stop_token_ids[0]"},
           {R"("stop_token_ids": 5)", "stop_token_ids"},
           {R"("stream": 1)", "stream"},
           {R"("stream_options": {"include_usage": true})", "stream_options"},
           {R"("stream": true, "stream_options": {"include_usag": true})", "stream_options.include_usag"},
           {R"("stream": true, "stream_options": [])", "stream_options"}})
    expect_refused(ApiKind::completion, more, param);
  expect_refused(ApiKind::chat, R"("max_tokens": 5, "max_completion_tokens": 6)", "max_tokens");
}

TEST(ApiRequest, WhatTheEngineCannotDoIsRefusedAndWhatAsksForNothingIsNot) {
  struct Case {
    ApiKind kind;
    const char* name;
    const char* neutral;
    const char* asks;
  };
  const ApiKind kCompletion = ApiKind::completion, kChat = ApiKind::chat;
  for (const Case& one : std::vector<Case>{{kCompletion, "best_of", "1", "2"},
                                           {kCompletion, "echo", "false", "true"},
                                           {kCompletion, "suffix", "null", "\"x\""},
                                           {kChat, "tool_choice", "\"none\"", "\"required\""},
                                           {kChat, "modalities", "[\"text\"]", "[\"audio\"]"},
                                           {kChat, "audio", "null", "{\"voice\": \"x\"}"},
                                           {kChat, "echo", "false", "true"},
                                           {kChat, "metadata", "{\"run\": \"a\"}", "\"a\""},
                                           {kChat, "cache_salt", "null", "\"x\""},  // unknown, but it asks for nothing
                                           {kChat, "use_beam_search", "false", "true"}}) {
    const auto field = [&](const char* value) { return fmt::format(R"("{}": {})", one.name, value); };
    expect_refused(one.kind, field(one.asks), one.name);
    EXPECT_EQ(error_of([&] { one.kind == kChat ? chat(field(one.neutral)) : completion(field(one.neutral)); }).status,
              200)
        << field(one.neutral);
  }
  expect_refused(kCompletion, R"("colour": "red")", "colour");
  expect_refused(kCompletion, R"("max_completion_tokens": 5)", "max_completion_tokens");
  expect_refused(kChat, R"("prompt": "p")", "prompt");
  EXPECT_TRUE(
      error_of([] { completion(R"("truncate_prompt_tokens": 10)"); }).message.ends_with("leave it out, or send null"));
  EXPECT_NE(error_of([] { completion(R"("temprature": 1)"); }).message.find("temperature"), std::string::npos);
}

using Form = StructuredOutput::Form;

RequestRules rules_with_eos() {
  RequestRules with_eos = rules();
  with_eos.eos_token_ids = {1};
  return with_eos;
}

std::optional<StructuredOutput> form_of(const std::string& more) {
  return parse_generation_request(ApiKind::completion, R"({"prompt": "p", )" + more + "}", rules_with_eos()).output;
}

TEST(ApiRequest, FormsOfAnswersArrive) {
  struct Case {
    const char* field;
    Form form;
    const char* param;
    const char* schema;
    const char* text;
  };
  for (
      const Case& one : std::vector<Case>{
          {R"("response_format": {"type": "json_object"})", Form::json_object, "response_format", "null", ""},
          {R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "description": "d", "strict": true,
               "schema": {"type": "null"}}})",
           Form::json_schema, "response_format.json_schema.schema", R"({"type":"null"})", ""},
          {R"("structured_outputs": {"json": {"type": "null"}})", Form::json_schema, "structured_outputs.json",
           R"({"type":"null"})", ""},
          {R"("structured_outputs": {"json": "{\"b\": 1, \"a\": 2}"})", Form::json_schema, "structured_outputs.json",
           R"({"b":1,"a":2})", ""},
          {R"("structured_outputs": {"json_object": true, "regex": null})", Form::json_object,
           "structured_outputs.json_object", "null", ""},
          {R"("structured_outputs": {"regex": "a+"})", Form::regex, "structured_outputs.regex", "null", "a+"},
          {R"("structured_outputs": {"grammar": "root ::= \"a\"", "disable_fallback": false})", Form::grammar,
           "structured_outputs.grammar", "null", "root ::= \"a\""},
          {R"("guided_json": true)", Form::json_schema, "guided_json", "true", ""},
          {R"("guided_regex": "b")", Form::regex, "guided_regex", "null", "b"},
          {R"("guided_grammar": "c")", Form::grammar, "guided_grammar", "null", "c"}}) {
    const auto output = form_of(one.field);
    ASSERT_TRUE(output) << one.field;
    EXPECT_EQ(output->form, one.form) << one.field;
    EXPECT_EQ(output->param, one.param);
    EXPECT_EQ(output->schema.dump(), one.schema);
    EXPECT_EQ(output->text, one.text);
  }
  for (const char* field : {R"("guided_choice": ["x", ""])", R"("structured_outputs": {"choice": ["x", ""]})"})
    EXPECT_EQ(form_of(field)->choices, (std::vector<std::string>{"x", ""}));
  for (const char* field :
       {R"("response_format": {"type": "text"})", R"("response_format": null)", R"("guided_json": null)"})
    EXPECT_FALSE(form_of(field)) << field;
}

TEST(ApiRequest, FormsOfAnswersAreRefusedByField) {
  const auto refused = [](const std::string& more, const std::string& param) {
    const ApiError error = error_of([&] { form_of(more); });
    EXPECT_EQ(error.status, 400) << more;
    EXPECT_EQ(error.param, param) << more << ": " << error.message;
  };
  refused(R"("response_format": "json")", "response_format");
  refused(R"("response_format": {})", "response_format.type");
  refused(R"("response_format": {"type": "xml"})", "response_format.type");
  refused(R"("response_format": {"type": "json_object", "schema": {}})", "response_format.schema");
  refused(R"("response_format": {"type": "json_schema"})", "response_format.json_schema");
  refused(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n"}})",
          "response_format.json_schema.schema");
  refused(R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}, "strict": 1}})",
          "response_format.json_schema.strict");
  refused(R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}, "colour": 1}})",
          "response_format.json_schema.colour");
  refused(R"("structured_outputs": {})", "structured_outputs");
  refused(R"("structured_outputs": {"json_object": false})", "structured_outputs");
  refused(R"("structured_outputs": {"regex": 7})", "structured_outputs.regex");
  refused(R"("structured_outputs": {"choice": []})", "structured_outputs.choice");
  refused(R"("structured_outputs": {"choice": ["a", 7]})", "structured_outputs.choice[1]");
  refused(R"("structured_outputs": {"json": "{"})", "structured_outputs.json");
  refused(R"("structured_outputs": {"regex": "a", "structural_tag": "x"})", "structured_outputs.structural_tag");
  refused(R"("structured_outputs": {"regex": "a", "disable_any_whitespace": true})",
          "structured_outputs.disable_any_whitespace");
  refused(R"("structured_outputs": {"regex": "a", "json": {}})", "structured_outputs.regex");
  refused(R"("guided_regex": "a", "response_format": {"type": "json_object"})", "guided_regex");
  refused(R"("guided_regex": "a", "min_tokens": 1)", "min_tokens");
  refused(R"("guided_regex": "a", "bad_words": ["b"])", "bad_words");
  expect_refused(ApiKind::completion, R"("guided_regex": "a")", "stop_token_ids");  // without an eos token
  EXPECT_EQ(error_of([] { completion(R"("guided_regex": "a", "stop_token_ids": [3])"); }).status, 200);
}

TEST(ApiRequest, WhatEditsLogitsArrives) {
  const GenerationRequest request = completion(
      R"("repetition_penalty": 1.5, "presence_penalty": -2, "frequency_penalty": 0.5, "min_tokens": 3, "logprobs": 4,
         "logit_bias": {"7": -100, "0": 2.5}, "bad_words": ["no", "never"])");
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request.sampling.presence_penalty, -2.0f);
  EXPECT_EQ(request.sampling.frequency_penalty, 0.5f);
  EXPECT_EQ(request.sampling.min_tokens, 3);
  EXPECT_EQ(request.sampling.logprobs.num_top, 4);
  ASSERT_EQ(request.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(request.sampling.logit_bias[0].token, 7);
  EXPECT_EQ(request.sampling.logit_bias[0].bias, -100.0f);
  EXPECT_EQ(request.bad_words, (std::vector<std::string>{"no", "never"}));
  EXPECT_FALSE(completion("").sampling.edits_logits());
  EXPECT_FALSE(completion("").sampling.logprobs.any());
  EXPECT_EQ(chat(R"("logprobs": true)").sampling.logprobs.num_top, 0);
  EXPECT_EQ(chat(R"("logprobs": true, "top_logprobs": 20)").sampling.logprobs.num_top, 20);
  EXPECT_FALSE(chat(R"("logprobs": false, "top_logprobs": 0)").sampling.logprobs.any());
  for (const auto& [more, param] :
       std::vector<std::pair<const char*, const char*>>{{R"("logprobs": 21)", "logprobs"},
                                                        {R"("logprobs": true)", "logprobs"},
                                                        {R"("presence_penalty": 2.1)", "presence_penalty"},
                                                        {R"("frequency_penalty": -2.5)", "frequency_penalty"},
                                                        {R"("repetition_penalty": 0)", "repetition_penalty"},
                                                        {R"("logit_bias": {"-1": 1})", "logit_bias"},
                                                        {R"("logit_bias": {"100": 1})", "logit_bias"},
                                                        {R"("logit_bias": {"07": 1})", "logit_bias"},
                                                        {R"("logit_bias": {"7": 101})", "logit_bias"},
                                                        {R"("logit_bias": {"7": "x"})", "logit_bias"},
                                                        {R"("logit_bias": [])", "logit_bias"},
                                                        {R"("bad_words": "x")", "bad_words"},
                                                        {R"("bad_words": [""])", "bad_words"},
                                                        {R"("min_tokens": -1)", "min_tokens"}})
    expect_refused(ApiKind::completion, more, param);
  expect_refused(ApiKind::chat, R"("top_logprobs": 2)", "top_logprobs");
  expect_refused(ApiKind::chat, R"("logprobs": true, "top_logprobs": 21)", "top_logprobs");
}

TEST(ApiRequest, AnotherModelIsNotFound) {
  const ApiError error = error_of([] { completion(R"("model": "gpt-9")"); });
  EXPECT_EQ(error.status, 404);
  EXPECT_EQ(error.param, "model");
  EXPECT_EQ(error.code, "model_not_found");
}

TEST(ApiRequest, BodiesThatAreNoJsonObjectAreRefused) {
  for (const std::string body : {"", "[]", "7", "nonsense", R"({"prompt": "a", "prompt": "b"})", R"({"prompt": "a"} x)",
                                 R"({"prompt": "a", "temperature": NaN})", R"({"prompt": "a", "temperature": 1e400})",
                                 "{\"prompt\": \"\xff\"}", R"({"prompt": "\ud800"})"}) {
    const ApiError error = error_of([&] { parse_generation_request(ApiKind::completion, body, rules()); });
    EXPECT_EQ(error.status, 400) << body;
  }
}

TEST(ApiRequest, LimitsHoldAtTheLimit) {
  const ServeLimits limits;
  const auto stops = [](int64_t count, int64_t bytes) {
    std::string list;
    for (int64_t i = 0; i < count; ++i) list += (i ? ", \"" : "\"") + std::string(size_t(bytes), 'x') + "\"";
    return "\"stop\": [" + list + "]";
  };
  const auto status = [](const std::string& more) { return error_of([&] { completion(more); }).status; };
  EXPECT_EQ(status(stops(limits.max_stop_strings - 1, 1)), 200);
  EXPECT_EQ(status(stops(limits.max_stop_strings, limits.max_stop_bytes - 1)), 200);
  EXPECT_EQ(status(stops(limits.max_stop_strings, limits.max_stop_bytes)), 200);
  EXPECT_EQ(status(stops(limits.max_stop_strings + 1, 1)), 400);
  EXPECT_EQ(status(stops(1, limits.max_stop_bytes + 1)), 400);
  EXPECT_EQ(status(fmt::format("\"n\": {}", limits.max_choices)), 200);
  EXPECT_EQ(status(fmt::format("\"n\": {}", limits.max_choices + 1)), 400);
  const auto words = [](int64_t count) {
    std::string list;
    for (int64_t i = 0; i < count; ++i) list += i ? R"(, "x")" : R"("x")";
    return "\"bad_words\": [" + list + "]";
  };
  EXPECT_EQ(status(words(limits.max_bad_words)), 200);
  EXPECT_EQ(status(words(limits.max_bad_words + 1)), 400);
  const auto biases = [](int64_t count) {
    std::string object;
    for (int64_t i = 0; i < count; ++i) object += fmt::format("{}\"{}\": 1", i ? ", " : "", i);
    return error_of([&] {
             parse_generation_request(ApiKind::completion, R"({"prompt": "p", "logit_bias": {)" + object + "}}",
                                      {.limits = {}, .model_names = {}, .vocab_size = 5000});
           })
        .status;
  };
  EXPECT_EQ(biases(limits.max_logit_bias), 200);
  EXPECT_EQ(biases(limits.max_logit_bias + 1), 400);
  const auto nested = [](int64_t depth) {  // of the whole body
    return "\"metadata\": " + std::string(size_t(depth - 1), '[') + std::string(size_t(depth - 1), ']');
  };
  const auto message = [&](int64_t depth) { return error_of([&] { completion(nested(depth)); }).message; };
  EXPECT_EQ(message(limits.max_json_depth - 1).find("nested"), std::string::npos);
  EXPECT_EQ(message(limits.max_json_depth).find("nested"), std::string::npos);
  EXPECT_NE(message(limits.max_json_depth + 1).find("nested"), std::string::npos);
}

TEST(ApiRequest, TokenizeAndDetokenize) {
  EXPECT_EQ(
      std::get<std::string>(parse_tokenize_request(R"({"prompt": "a", "return_token_strs": true})", rules()).prompt),
      "a");
  EXPECT_TRUE(std::holds_alternative<ChatPrompt>(
      parse_tokenize_request(R"({"messages": [{"role": "user", "content": "a"}]})", rules()).prompt));
  EXPECT_EQ(parse_detokenize_request(R"({"tokens": [1, 99]})", rules()), (std::vector<int32_t>{1, 99}));
  EXPECT_EQ(error_of([] { parse_tokenize_request("{}", rules()); }).param, "prompt");
  EXPECT_EQ(error_of([] {
              parse_tokenize_request(R"({"prompt": "a", "messages": [{"role": "user", "content": "a"}]})", rules());
            }).param,
            "prompt");
  EXPECT_EQ(error_of([] { parse_detokenize_request(R"({"tokens": [100]})", rules()); }).param, "tokens[0]");
  EXPECT_EQ(error_of([] { parse_detokenize_request(R"({"tokens": "a"})", rules()); }).param, "tokens");
}

TEST(ApiError, IsOpenAisObject) {
  EXPECT_EQ(error_json({.status = 400, .message = "n: bad", .param = "n"}),
            R"({"error":{"message":"n: bad","type":"invalid_request_error","param":"n","code":null}})");
  EXPECT_EQ(error_json({.status = 503, .message = "later", .code = "busy"}),
            R"({"error":{"message":"later","type":"server_error","param":null,"code":"busy"}})");
}

}  // namespace
}  // namespace paceline
