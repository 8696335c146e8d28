// From tokens to what a client is sent, by an exchange that keeps it.

#include "engine/serve/answer.h"

#include <limits>

#include <gtest/gtest.h>

#include "small_tokenizer.h"

namespace paceline {
namespace {

using test::small_tokenizer;

using Json = nlohmann::ordered_json;

class KeptExchange : public HttpExchange {
 public:
  void reply(HttpReply reply) override {
    status = reply.status;
    body = reply.body;
    ended = true;
  }
  void begin(HttpReply head) override { pieces.push_back(head.body); }
  void send(std::string piece) override { pieces.push_back(std::move(piece)); }
  void end() override { ended = true; }
  void abort() override { ended = true; }
  bool is_writing() const override { return writing; }
  bool is_closed() const override { return false; }

  /// The data of all events.
  std::vector<std::string> events() const {
    std::vector<std::string> data;
    std::string all;
    for (const std::string& piece : pieces) all += piece;
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find("\n\n", at);
      EXPECT_EQ(all.substr(at, 6), "data: ");
      data.push_back(all.substr(at + 6, end - at - 6));
      at = end + 2;
    }
    return data;
  }

  int status = 0;
  std::string body;
  std::vector<std::string> pieces;
  bool ended = false, writing = false;
};

struct Rig {
  std::shared_ptr<KeptExchange> exchange = std::make_shared<KeptExchange>();
  std::unique_ptr<Answer> answer;

  explicit Rig(GenerationRequest request, int draft_len = 0, SpeculationReport report = SpeculationReport::summary) {
    const AnswerStyle style{.model = "m", .num_speculative_tokens = draft_len, .speculation = report};
    answer = std::make_unique<Answer>("id-1", std::move(request), std::vector<std::vector<int32_t>>{{1, 2, 3}}, style,
                                      small_tokenizer(), exchange);
  }
  Answer::After take(const std::string& text, FinishReason finish = FinishReason::none, int choice = 0) {
    return answer->take(choice, {.token = small_tokenizer()->encode(text), .finish = finish});
  }
  std::vector<Json> events() const {
    std::vector<Json> parsed;
    for (const std::string& data : exchange->events())
      if (data != "[DONE]") parsed.push_back(Json::parse(data));
    return parsed;
  }
};

GenerationRequest streamed(ApiKind kind = ApiKind::chat) {
  GenerationRequest request;
  request.kind = kind;
  request.stream = true;
  return request;
}

TEST(Answer, AStreamOfAChat) {
  Rig rig(streamed());
  rig.take("One");
  rig.answer->flush();
  rig.take(" two", FinishReason::length);
  rig.answer->flush();
  const auto events = rig.events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["id"], "id-1");
  EXPECT_EQ(events[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(events[0]["model"], "m");
  EXPECT_EQ(events[0]["choices"].dump(),
            R"([{"index":0,"delta":{"role":"assistant","content":"One"},"logprobs":null,"finish_reason":null}])");
  EXPECT_EQ(events[1]["choices"].dump(),
            R"([{"index":0,"delta":{"content":" two"},"logprobs":null,"finish_reason":"length"}])");
  EXPECT_FALSE(events[1].contains("usage"));
  EXPECT_EQ(rig.exchange->events().back(), "[DONE]");
  EXPECT_TRUE(rig.exchange->ended && rig.answer->ended());
}

TEST(Answer, WhatComesWhileAWriteIsOnItsWayIsOneEvent) {
  Rig rig(streamed(ApiKind::completion));
  rig.take("a");
  rig.answer->flush();
  rig.exchange->writing = true;
  for (const char* text : {" b", " c", " d"}) {
    rig.take(text);
    rig.answer->flush();
  }
  EXPECT_EQ(rig.exchange->pieces.size(), 1u);
  rig.exchange->writing = false;
  rig.answer->flush();
  ASSERT_EQ(rig.events().size(), 2u);
  EXPECT_EQ(rig.events()[1]["choices"][0]["text"], " b c d");
}

TEST(Answer, UsageAndIdsWhereAskedFor) {
  GenerationRequest request = streamed(ApiKind::completion);
  request.include_usage = request.continuous_usage = request.return_token_ids = true;
  Rig rig(request);
  const auto ids = small_tokenizer()->encode("One two");
  rig.take("One two");
  rig.answer->flush();
  rig.take("!", FinishReason::length);
  rig.answer->flush();
  const auto events = rig.events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["choices"][0]["token_ids"], ids);
  EXPECT_EQ(events[0]["choices"][0]["prompt_token_ids"], (std::vector<int>{1, 2, 3}));
  EXPECT_FALSE(events[1]["choices"][0].contains("prompt_token_ids"));
  EXPECT_EQ(events[0]["usage"]["completion_tokens"], ids.size());
  EXPECT_TRUE(events[2]["choices"].empty());
  EXPECT_EQ(events[2]["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(events[2]["usage"]["completion_tokens"], ids.size() + 1);
  EXPECT_EQ(events[2]["usage"]["total_tokens"], ids.size() + 4);
}

TEST(Answer, UsageOfAnEventIsItsChoices) {
  GenerationRequest request = streamed(ApiKind::completion);
  request.continuous_usage = true;
  request.num_choices = 2;
  Rig rig(request);
  rig.take("One two", FinishReason::none, 0);
  rig.take("!", FinishReason::none, 1);
  rig.answer->flush();
  const auto events = rig.events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["usage"]["completion_tokens"], small_tokenizer()->encode("One two").size());
  EXPECT_EQ(events[1]["usage"]["completion_tokens"], 1);
  EXPECT_EQ(events[1]["usage"]["prompt_tokens"], 3);
}

/// The flags of events in a row, as "text|" for the target's own tokens and "text*" for drafts that were kept.
std::string shown_flags(const std::vector<Json>& events) {
  std::string shown;
  for (const Json& event : events)
    for (const Json& flag : event["choices"][0]["draft_flags"])
      shown += flag["text"].get<std::string>() + (flag["kept_draft"].get<bool>() ? "*" : "|");
  return shown;
}

TEST(Answer, DraftFlagsSayWhichTokensAreKeptDrafts) {
  const auto ids = small_tokenizer()->encode("One two three");
  ASSERT_EQ(ids.size(), 3u);
  for (const ApiKind kind : {ApiKind::chat, ApiKind::completion}) {
    GenerationRequest request = streamed(kind);
    request.return_draft_flags = true;
    Rig rig(request, 4);
    rig.answer->take(0, {.token = ids, .num_drafted = 4, .num_accepted = 2});
    rig.answer->flush();
    rig.answer->take(0, {.token = ids, .num_drafted = 4, .num_accepted = 0, .finish = FinishReason::length});
    rig.answer->flush();
    ASSERT_EQ(rig.events().size(), 2u);
    EXPECT_EQ(shown_flags({rig.events()[0]}), "One* two* three|");
    EXPECT_EQ(shown_flags({rig.events()[1]}), "One| two| three|");
  }
  Rig silent(streamed(), 4);
  silent.answer->take(0, {.token = ids, .num_drafted = 4, .num_accepted = 2});
  silent.answer->flush();
  EXPECT_FALSE(silent.events()[0]["choices"][0].contains("draft_flags"));
}

TEST(Answer, TextsOfDraftFlagsAreTheAnswer) {
  // "é" and "ツ" are several tokens; "two" may be the beginning of a stop string until the end.
  const auto ids = small_tokenizer()->encode("One é ツ two");
  for (const bool is_stream : {true, false}) {
    GenerationRequest request = streamed(ApiKind::completion);
    request.stream = is_stream;
    request.return_draft_flags = true;
    request.stop = {"two three"};
    Rig rig(request, 4);
    std::string text, flagged;
    size_t num_flags = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      rig.answer->take(0, {.token = {ids[i]},
                           .num_drafted = 1,
                           .num_accepted = 1,
                           .finish = i + 1 < ids.size() ? FinishReason::none : FinishReason::length});
      rig.answer->flush();
    }
    for (const Json& event : is_stream ? rig.events() : std::vector<Json>{Json::parse(rig.exchange->body)}) {
      text += event["choices"][0]["text"];
      for (const Json& flag : event["choices"][0]["draft_flags"]) {
        flagged += flag["text"];
        ++num_flags;
      }
    }
    EXPECT_EQ(text, "One é ツ two");
    EXPECT_EQ(flagged, text);
    EXPECT_EQ(num_flags, ids.size());
  }
}

TEST(Answer, AWholeBodyOfTwoChoices) {
  GenerationRequest request;
  request.num_choices = 2;
  request.return_token_ids = true;
  Rig rig(request);
  rig.take("first", FinishReason::length, 1);
  rig.answer->flush();
  EXPECT_FALSE(rig.exchange->ended);
  rig.take("second", FinishReason::length, 0);
  rig.answer->flush();
  const Json body = Json::parse(rig.exchange->body);
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["choices"][0]["text"], "second");
  EXPECT_EQ(body["choices"][1]["text"], "first");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3);
}

TEST(Answer, AStopStringEndsAChoiceInsideOneStep) {
  GenerationRequest request = streamed(ApiKind::completion);
  request.stop = {" two"};
  request.include_usage = true;
  Rig rig(request);
  EXPECT_EQ(rig.take("One two three"), Answer::After::ended);
  rig.answer->flush();
  const auto events = rig.events();
  EXPECT_EQ(events[0]["choices"][0]["text"], "One");
  EXPECT_EQ(events[0]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], small_tokenizer()->encode("One two").size());
}

TEST(Answer, TheTokenThatStoppedItIsNotShown) {
  const auto ids = small_tokenizer()->encode("One two");
  for (const bool include : {false, true}) {
    GenerationRequest request;
    request.include_stop = include;
    Rig rig(request);
    rig.answer->take(0, {.token = ids, .finish = FinishReason::stop});
    rig.answer->flush();
    const std::string expected = small_tokenizer()->decode(std::span(ids).first(ids.size() - (include ? 0 : 1)));
    EXPECT_EQ(Json::parse(rig.exchange->body)["choices"][0]["text"], expected);
    EXPECT_EQ(Json::parse(rig.exchange->body)["usage"]["completion_tokens"], ids.size());
  }
}

TEST(Answer, AcceptanceIsCountedByStep) {
  GenerationRequest request = streamed(ApiKind::completion);
  request.include_usage = true;
  Rig rig(request, 3, SpeculationReport::detailed);
  const auto ids = small_tokenizer()->encode("a b c d e f g h");
  rig.answer->take(0, {.token = {ids[0]}});  // of the prompt
  rig.answer->take(0, {.token = {ids[0], ids[1], ids[2]}, .num_drafted = 3, .depth = 3, .num_accepted = 2});
  rig.answer->take(
      0, {.token = {ids[0]}, .num_drafted = 2, .depth = 2, .num_accepted = 0, .finish = FinishReason::length});
  rig.answer->flush();
  EXPECT_EQ(
      rig.events().back()["metrics"]["speculative_decoding"].dump(),
      R"({"mean_acceptance_length":2.0,"draft_acceptance_rate":0.4,"acceptance_histogram":[1,0,1,0],"num_spec_steps":2,)"
      R"("num_accepted_draft_tokens":2,"num_draft_tokens":5,"num_spec_tokens":3,"per_step_accepted":[2,0]})");
}

GenerationRequest with_two_logprobs(ApiKind kind) {
  GenerationRequest request = streamed(kind);
  request.sampling.logprobs.num_top = 2;
  return request;
}

/// Of a completion that had `emitted`.
Json legacy_logprobs(const Emitted& emitted) {
  Rig rig(with_two_logprobs(ApiKind::completion));
  rig.answer->take(0, emitted);
  rig.answer->flush();
  return rig.events()[0]["choices"][0]["logprobs"];
}

TEST(Answer, PartsOfACharacterHaveNamesOfTheirOwn) {
  const auto ids = small_tokenizer()->encode("a\xF0\x9F\x98\x80");
  ASSERT_GE(ids.size(), 3u);
  Emitted emitted{.token = ids, .finish = FinishReason::length};
  for (size_t i = 0; i < ids.size(); ++i)
    emitted.logprobs.push_back({.logprob = -0.5f, .top = {{ids[i], -0.5f}, {ids[ids.size() - 1 - i], -1.0f}}});
  const Json logprobs = legacy_logprobs(emitted);
  EXPECT_EQ(logprobs["tokens"].back(), "bytes:\\x80") << logprobs;
  EXPECT_EQ(logprobs["top_logprobs"].back().size(), 2u);
  EXPECT_EQ(logprobs["text_offset"].back(), 1) << "the character that it ends";
}

TEST(Answer, LogprobsInBothForms) {
  const auto ids = small_tokenizer()->encode("One two");
  Emitted emitted{.token = ids, .finish = FinishReason::length};
  for (size_t i = 0; i < ids.size(); ++i)
    emitted.logprobs.push_back(
        {.logprob = -0.5f, .top = {{ids[0], -0.25f}, {ids[i], -std::numeric_limits<float>::infinity()}}});
  const Json legacy = legacy_logprobs(emitted);
  EXPECT_EQ(legacy["tokens"].size(), ids.size());
  EXPECT_EQ(legacy["token_logprobs"][0], -0.5);
  EXPECT_EQ(legacy["text_offset"][1], legacy["tokens"][0].get<std::string>().size());
  EXPECT_EQ(legacy["top_logprobs"][1][legacy["tokens"][0].get<std::string>()], -0.25);
  GenerationRequest request = with_two_logprobs(ApiKind::chat);
  request.stream = false;
  Rig chat(request);
  chat.answer->take(0, emitted);
  chat.answer->flush();
  const Json content = Json::parse(chat.exchange->body)["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), ids.size());
  EXPECT_EQ(content[0]["logprob"], -0.5);
  EXPECT_EQ(content[1]["top_logprobs"][1]["logprob"], -9999.0);
  EXPECT_EQ(content[0]["bytes"].size(), small_tokenizer()->token_bytes(ids[0]).size());
}

TEST(Answer, AnErrorIsAStatusBeforeTheFirstEventAndAnEventBehindIt) {
  Rig early(streamed());
  early.answer->fail({.status = 503, .message = "stopping"});
  EXPECT_EQ(early.exchange->status, 503);
  Rig late(streamed());
  late.take("One");
  late.answer->flush();
  late.answer->fail({.status = 500, .message = "broken"});
  EXPECT_EQ(late.events().back()["error"]["message"], "broken");
  EXPECT_EQ(late.exchange->events().back(), "[DONE]");
  EXPECT_TRUE(late.exchange->ended);
}

}  // namespace
}  // namespace paceline
