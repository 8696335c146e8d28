// When the first text came, and how tokens are counted, with a clock that the test holds.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/client/openai_client.h"

namespace paceline {
namespace {

constexpr const char* kHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

std::string event(const std::string& data) { return "data: " + data + "\n\n"; }

std::string delta(const std::string& text, const std::string& more = "") {
  return event(R"({"choices":[{"index":0,"delta":{"content":")" + text + R"("},"finish_reason":null)" + more + "}]}");
}

TEST(AnswerReader, TakesTheFirstTextNotHeadersAndNotTheRole) {
  AnswerReader reader(Delivery::streamed, true, 8);
  reader.feed(kHead, 1);
  reader.feed(event(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})"), 2);
  reader.feed(": keep-alive\n\n", 3);
  reader.feed(event(R"({"choices":[{"index":0,"delta":{"content":""},"token_ids":[5]}]})"), 4);  // half a character
  reader.feed(delta("é", R"(,"token_ids":[6])"), 5);
  reader.feed(delta("x", R"(,"token_ids":[7,8,9])"), 9);
  reader.feed(event(R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop","token_ids":[0]}]})"), 11);
  reader.feed(event(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":6}})"), 12);
  EXPECT_FALSE(reader.done());
  reader.feed(event("[DONE]"), 13);
  reader.end_of_connection(20);
  ASSERT_TRUE(reader.done());
  const ServedAnswer answer = reader.take();
  ASSERT_FALSE(answer.failure) << failure_text(*answer.failure);
  EXPECT_EQ(answer.first_text_ms, 5);
  EXPECT_EQ(answer.last_ms, 11) << "the last token, not usage";
  ASSERT_EQ(answer.events.size(), 4u);
  const int64_t tokens[] = {1, 1, 3, 1};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(answer.events[i].tokens, tokens[i]);
  EXPECT_EQ(answer.text, "éx");
}

TEST(AnswerReader, CountsAWholeAnswerThatEndsAtOnce) {
  AnswerReader reader(Delivery::streamed, false, 8);
  reader.feed(kHead, 1);
  reader.feed(event(R"({"choices":[{"index":0,"text":"","finish_reason":"stop","token_ids":[2]}]})"), 7);
  reader.feed(event("[DONE]"), 8);
  reader.end_of_connection(9);
  const ServedAnswer answer = reader.take();
  ASSERT_FALSE(answer.failure) << failure_text(*answer.failure);
  EXPECT_EQ(answer.first_text_ms, 7) << "no text: where it ended";
  EXPECT_EQ(answer.num_tokens(), 1);
}

TEST(AnswerReader, WantsTextAndUsageToAgree) {
  const auto failure_of = [](const std::string& events, int max_tokens = 8) {
    AnswerReader reader(Delivery::streamed, true, max_tokens);
    reader.feed(kHead + events + event("[DONE]"), 1);
    reader.end_of_connection(2);
    const ServedAnswer answer = reader.take();
    return answer.failure ? failure_text(*answer.failure) : std::string();
  };
  const auto usage = [](int tokens) {
    return event(fmt::format(R"({{"choices":[],"usage":{{"completion_tokens":{}}}}})", tokens));
  };
  const std::string end = event(R"({"choices":[{"index":0,"delta":{},"finish_reason":"length"}]})");
  EXPECT_EQ(failure_of(delta("a") + delta("b") + end + usage(2)), "");
  EXPECT_EQ(failure_of(delta("a") + delta("b") + end + usage(5)), "");  // several tokens an event
  EXPECT_EQ(failure_of(delta("a") + delta("b") + end + usage(1)),
            "contradicting_usage: 1 tokens, and 2 events with text");
  EXPECT_EQ(failure_of(delta("a") + end + usage(0)), "contradicting_usage: no token, and 1 bytes of text");
  EXPECT_EQ(failure_of(delta("a") + end + usage(9)), "contradicting_usage: 9 tokens, 8 were asked for at most");
  EXPECT_EQ(failure_of(usage(3) + delta("a") + end + usage(2)), "contradicting_usage: usage fell from 3 to 2 tokens");
  EXPECT_EQ(failure_of(delta("a") + end), "no_usage: neither usage nor token_ids: its tokens cannot be counted");
  EXPECT_EQ(failure_of(delta("a", R"(,"token_ids":[1,2])") + end + usage(3)),
            "contradicting_usage: usage says 3 tokens, 2 ids came");
  EXPECT_EQ(failure_of(delta("a", R"(,"token_ids":[-1])") + end), "bad_answer: \"token_ids\" holds -1");
  EXPECT_EQ(failure_of(delta("a") + event(R"({"choices":[{"delta":{},"finish_reason":"content_filter"}]})") + usage(1)),
            "bad_answer: finish_reason is \"content_filter\"");
}

TEST(AnswerReader, WantsStatisticsThatAddUp) {
  const auto failure_of = [](const std::string& statistics) {
    AnswerReader reader(Delivery::whole, false, 8);
    const std::string body = R"({"choices":[{"text":"a","finish_reason":"stop"}],"usage":{"completion_tokens":3},)" +
                             std::string(R"("metrics":{"speculative_decoding":)") + statistics + "}}";
    reader.feed(fmt::format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                            body.size(), body),
                1);
    const ServedAnswer answer = reader.take();
    return answer.failure ? failure_text(*answer.failure) : std::string();
  };
  EXPECT_EQ(failure_of(R"({"acceptance_histogram":[39,1,0,3],"num_spec_steps":43,"num_accepted_draft_tokens":10,)"
                       R"("num_draft_tokens":129,"num_spec_tokens":3})"),
            "");
  EXPECT_EQ(failure_of(R"({"acceptance_histogram":[39,1,0,3],"num_spec_steps":42,"num_accepted_draft_tokens":10,)"
                       R"("num_draft_tokens":129})"),
            "contradicting_usage: acceptance_histogram has 43 steps that accepted 10, the counts say 42 and 10");
  EXPECT_EQ(failure_of(R"({"num_spec_steps":1,"num_accepted_draft_tokens":4,"num_draft_tokens":3})"),
            "contradicting_usage: 4 drafts accepted of 3");
}

}  // namespace
}  // namespace paceline
