// Requests to a server with planted faults: each fault is a failed request with its name, whatever else goes on.

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/client/http_call.h"
#include "experiments/client/load_driver.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_server.h"

namespace paceline {
namespace {

using test::FakeServer;
using test::PlantedFault;
using test::StatedDrafts;

constexpr int kTokens = 8;

struct Traffic {
  int requests = 3;
  Delivery delivery = Delivery::streamed;
  bool as_chat = true;
  size_t concurrency = 1;
  std::vector<double> arrivals_s = {};  // empty: closed
  std::string api_key = {};
  nlohmann::json further = {};
};

std::vector<DrivenRequest> requests_of(const ServerUrl& url, const Traffic& traffic) {
  std::vector<DrivenRequest> requests;
  for (int i = 0; i < traffic.requests; ++i) {
    const Prompt prompt{.id = fmt::format("p{}", i), .messages = {{"user", fmt::format("question {}", i)}}};
    SamplingParams params;
    params.max_tokens = kTokens;
    const OpenAiRequest request = make_request(
        prompt, params,
        {.model = "fake-model", .delivery = traffic.delivery, .as_chat = traffic.as_chat, .further = traffic.further});
    requests.push_back({.bytes = request_bytes(url, request, traffic.api_key),
                        .as_chat = traffic.as_chat,
                        .max_tokens = kTokens,
                        .send_at_s = traffic.arrivals_s.empty() ? 0 : traffic.arrivals_s[size_t(i)]});
  }
  return requests;
}

DriveResult drive_to(const std::string& address, const Traffic& traffic, double stall_timeout_s = 20) {
  const ServerUrl url = parse_server_url(address);
  const std::vector<DrivenRequest> requests = requests_of(url, traffic);
  return drive(requests, {.url = url,
                          .delivery = traffic.delivery,
                          .order = traffic.arrivals_s.empty() ? SendOrder::closed : SendOrder::open,
                          .concurrency = traffic.concurrency,
                          .stall_timeout_s = stall_timeout_s,
                          .timeout_s = 60});
}

TEST(LoadDriver, ReadsTextIdsUsageAndStatistics) {
  for (const Delivery delivery : {Delivery::streamed, Delivery::whole}) {
    for (const bool as_chat : {true, false}) {
      FakeServer server;
      const DriveResult result = drive_to(server.url(), {.delivery = delivery, .as_chat = as_chat});
      ASSERT_EQ(result.answers.size(), 3u);
      for (const DrivenAnswer& one : result.answers) {
        const ServedAnswer& answer = one.answer;
        ASSERT_FALSE(answer.failure) << failure_text(*answer.failure);
        EXPECT_EQ(answer.num_tokens(), kTokens);
        ASSERT_EQ(answer.token_ids.size(), size_t(kTokens));
        std::string text;
        for (const int32_t id : answer.token_ids) text += fmt::format(" w{}", id);
        EXPECT_EQ(answer.text, text);
        EXPECT_EQ(answer.completion_tokens, kTokens);
        EXPECT_EQ(answer.prompt_tokens, 7);
        EXPECT_EQ(answer.finish_reason, "length");
        ASSERT_TRUE(answer.speculation);
        EXPECT_EQ(answer.speculation->steps, kTokens / 3);
        EXPECT_EQ(answer.speculation->drafted, kTokens / 3 * 3);
        EXPECT_EQ(answer.speculation->accepted, kTokens / 3 * 2);
        EXPECT_EQ(answer.events.size(), delivery == Delivery::streamed ? size_t(kTokens / 2) : 1u);
        for (const AnswerEvent& event : answer.events)
          EXPECT_EQ(event.tokens, delivery == Delivery::streamed ? 2 : kTokens);
        EXPECT_EQ(answer.first_text_ms.has_value(), delivery == Delivery::streamed);
        EXPECT_GE(answer.last_ms, answer.first_text_ms.value_or(0));
        EXPECT_GE(answer.last_ms, one.sent_ms);
      }
      EXPECT_EQ(server.num_connections(), 1) << "a closed loop of one keeps its connection";
      EXPECT_EQ(result.send_late_ms.size(), 3u);
    }
  }
}

TEST(LoadDriver, AKeptConnectionThatHasEndedCostsNoRequest) {
  for (const Delivery delivery : {Delivery::streamed, Delivery::whole}) {
    for (const bool is_behind_answer : {true, false}) {
      FakeServer server({.ends_connections = is_behind_answer, .ends_when_asked_again = !is_behind_answer});
      const DriveResult result = drive_to(server.url(), {.requests = 20, .delivery = delivery});
      for (const DrivenAnswer& one : result.answers) {
        ASSERT_FALSE(one.answer.failure) << failure_text(*one.answer.failure);
        EXPECT_EQ(one.answer.num_tokens(), kTokens);
      }
      EXPECT_EQ(server.bodies().size(), 20u) << "none is answered twice";
      if (!is_behind_answer) {
        EXPECT_EQ(result.sent_again, 19);
      }
    }
  }
  // Ended before a byte on a new connection: the server's fault.
  FakeServer resets({.fault = PlantedFault::reset});
  for (const DrivenAnswer& one : drive_to(resets.url(), {.requests = 3}).answers)
    EXPECT_TRUE(one.answer.failure.has_value());
}

TEST(LoadDriver, KeepsSoManyInFlightAndNoMore) {
  FakeServer server;
  const DriveResult result = drive_to(server.url(), {.requests = 12, .concurrency = 3});
  for (const DrivenAnswer& one : result.answers) EXPECT_FALSE(one.answer.failure);
  EXPECT_EQ(result.sent_again, 0);
  EXPECT_LE(server.most_at_once(), 3);
  EXPECT_LE(server.num_connections(), 3);
  // A place's next request begins when the answer before it was whole.
  std::vector<double> begins, ends = {0, 0, 0};
  for (const DrivenAnswer& one : result.answers) {
    begins.push_back(one.intended_ms);
    ends.push_back(one.answer.last_ms);
  }
  for (const double begin : begins) {
    const bool is_an_end = std::any_of(ends.begin(), ends.end(), [&](double end) { return begin >= end; });
    EXPECT_TRUE(is_an_end);
  }
  EXPECT_EQ(std::count(begins.begin(), begins.end(), 0.0), 3);
}

TEST(LoadDriver, CountsFromTheIntendedTimeInAnOpenLoop) {
  FakeServer server;
  const DriveResult result = drive_to(server.url(), {.requests = 4, .arrivals_s = {0, 0.01, 0.01, 0.05}});
  const double wanted[] = {0, 10, 10, 50};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(result.answers[i].intended_ms, wanted[i]);
    EXPECT_GE(result.answers[i].sent_ms, wanted[i]);
    EXPECT_FALSE(result.answers[i].answer.failure);
  }
  EXPECT_GT(result.idle_s, 0);
  EXPECT_LE(result.idle_s, result.wall_s);
}

TEST(LoadDriver, SendsAllAtOnceWithoutCallingThatLate) {
  FakeServer server;
  const DriveResult result = drive_to(server.url(), {.requests = 9, .concurrency = 0});
  for (const DrivenAnswer& one : result.answers) {
    EXPECT_FALSE(one.answer.failure);
    EXPECT_EQ(one.intended_ms, 0);
  }
  EXPECT_TRUE(result.send_late_ms.empty());
  EXPECT_EQ(server.num_connections(), 9);
}

struct FaultCase {
  PlantedFault planted;
  RequestFault streamed, whole;
};

TEST(LoadDriver, NamesEachPlantedFault) {
  using P = PlantedFault;
  using F = RequestFault;
  const FaultCase cases[] = {
      {P::stall, F::stalled, F::stalled},
      {P::reset, F::connection_reset, F::connection_reset},
      {P::ended_early, F::connection_reset, F::connection_reset},
      {P::half_event, F::half_event, F::bad_answer},  // a whole answer has no events
      {P::no_done, F::no_done, F::bad_answer},
      {P::wrong_usage, F::contradicting_usage, F::contradicting_usage},
      {P::too_many_tokens, F::contradicting_usage, F::contradicting_usage},
      {P::status_429, F::too_many_requests, F::too_many_requests},
      {P::status_500, F::server_error, F::server_error},
      {P::not_json, F::not_json, F::not_json},
      {P::wrong_type, F::wrong_content_type, F::wrong_content_type},
      {P::no_finish, F::no_finish_reason, F::no_finish_reason},
      {P::error_event, F::bad_answer, F::bad_answer},
      {P::no_usage, F::no_usage, F::no_usage},
  };
  for (const FaultCase& one : cases) {
    for (const Delivery delivery : {Delivery::streamed, Delivery::whole}) {
      if (delivery == Delivery::whole && (one.planted == P::half_event || one.planted == P::no_done)) continue;
      const RequestFault wanted = delivery == Delivery::streamed ? one.streamed : one.whole;
      SCOPED_TRACE(fmt::format("{} {}", name_of(wanted), delivery == Delivery::streamed ? "streamed" : "whole"));
      FakeServer server({.fault = one.planted, .fault_from = 1});
      const Traffic traffic{.requests = 3, .delivery = delivery};
      const DriveResult result =  // whoever does not stall may be slow on a busy machine
          one.planted == P::stall ? drive_to(server.url(), traffic, 1) : drive_to(server.url(), traffic);
      EXPECT_FALSE(result.answers[0].answer.failure);
      for (const size_t i : {1, 2}) {
        ASSERT_TRUE(result.answers[i].answer.failure);
        EXPECT_EQ(result.answers[i].answer.failure->fault, wanted) << failure_text(*result.answers[i].answer.failure);
      }
    }
  }
}

TEST(LoadDriver, FindsWrongUsageWithoutIds) {
  FakeServer server({.fault = PlantedFault::too_many_tokens, .with_ids = false});
  const DriveResult result = drive_to(server.url(), {.requests = 1});
  ASSERT_TRUE(result.answers[0].answer.failure);
  EXPECT_EQ(failure_text(*result.answers[0].answer.failure),
            "contradicting_usage: 10 tokens, 8 were asked for at most");
}

TEST(LoadDriver, NamesAServerThatIsNotThere) {
  std::string address;
  {
    FakeServer server;
    address = server.url();
  }
  const DriveResult result = drive_to(address, {.requests = 2});
  for (const DrivenAnswer& one : result.answers) {
    ASSERT_TRUE(one.answer.failure);
    EXPECT_EQ(one.answer.failure->fault, RequestFault::connection_refused);
  }
  test::expect_error(ExitCode::device, {"no such host"}, [] { drive_to("http://no-such-host.invalid:1", {}); });
}

TEST(LoadDriver, CountsTokensByUsageWhereThereAreNoIds) {
  for (const bool continuous : {true, false}) {
    FakeServer server({.with_ids = false, .continuous_usage = continuous});
    const DriveResult result = drive_to(server.url(), {.requests = 1});
    const ServedAnswer& answer = result.answers[0].answer;
    ASSERT_FALSE(answer.failure) << failure_text(*answer.failure);
    EXPECT_TRUE(answer.token_ids.empty());
    EXPECT_EQ(answer.num_tokens(), kTokens);
    ASSERT_EQ(answer.events.size(), size_t(kTokens / 2));
    for (const AnswerEvent& event : answer.events)
      EXPECT_EQ(event.tokens, continuous ? std::optional<int64_t>(2) : std::nullopt) << "never one a chunk";
  }
}

TEST(LoadDriver, TakesAcceptanceFromWhatIsStatedAlone) {
  {
    FakeServer server({.drafts = StatedDrafts::timings});
    const ServedAnswer answer = drive_to(server.url(), {.requests = 1}).answers[0].answer;
    EXPECT_EQ(answer.speculation_source, SpeculationSource::timings);
    ASSERT_TRUE(answer.speculation);
    EXPECT_EQ(answer.speculation->drafted, 6);
    EXPECT_EQ(answer.speculation->steps, 0) << "llama.cpp does not tell them";
  }
  FakeServer silent({.drafts = StatedDrafts::none});
  EXPECT_FALSE(drive_to(silent.url(), {.requests = 1}).answers[0].answer.speculation);
}

TEST(LoadDriver, SendsTheKeyAndFurtherFields) {
  FakeServer server({.api_key = "secret"});
  const Traffic refused{.requests = 1, .api_key = "wrong"};
  const DriveResult without = drive_to(server.url(), refused);
  ASSERT_TRUE(without.answers[0].answer.failure);
  EXPECT_EQ(failure_text(*without.answers[0].answer.failure), "request_refused: 401 Unauthorized: no key");
  const DriveResult with = drive_to(
      server.url(), {.requests = 1, .api_key = "secret", .further = {{"cache_prompt", false}, {"seed", nullptr}}});
  EXPECT_FALSE(with.answers[0].answer.failure);
  const nlohmann::json body = nlohmann::json::parse(server.bodies().at(0));
  EXPECT_EQ(body.at("cache_prompt"), false);
  EXPECT_FALSE(body.contains("seed"));
  EXPECT_EQ(body.at("max_tokens"), kTokens);
}

TEST(HttpCall, AnswersOrSaysWhyNot) {
  FakeServer server({.healthy_after = 1});
  const ServerUrl url = parse_server_url(server.url());
  EXPECT_EQ(result_text(http_call(url, "GET", "/health", 5)), "answered 503 Service Unavailable");
  EXPECT_TRUE(http_call(url, "GET", "/health", 5).is_ok());
  EXPECT_TRUE(http_call(url, "POST", "/reset_prefix_cache", 5).is_ok());
  EXPECT_EQ(server.num_resets(), 1);
  EXPECT_NE(http_call(url, "GET", "/v1/models", 5).body.find("fake-model"), std::string::npos);
}

}  // namespace
}  // namespace paceline
