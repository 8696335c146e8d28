// The whole server over a fake engine, by clients on sockets: what they are told is what the engine says, whoever
// leaves.

#include <future>
#include <random>
#include <regex>

#include "served_rig.h"

namespace paceline {
namespace {

using test::comes_true;
using test::FakeProposer;
using test::FakeRig;
using test::FakeRigOptions;
using test::greedy_params;
using test::Json;
using test::ServedRig;
using test::some_prompt;
using test::streamed;
using test::TestClient;
using test::with_drafts;

TEST(OpenAiServer, SaysWhatTheEngineSays) {
  const ServedRig rig(with_drafts());
  TestClient client = rig.client();
  for (int i = 0; i < 20; ++i) {
    const auto prompt = some_prompt(2 + i, i);
    const auto expected = rig.expected(prompt, 1 + 2 * i);
    const auto whole = client.ask(ServedRig::completion(prompt, 1 + 2 * i));
    EXPECT_EQ(whole.status, 200) << whole.body;
    EXPECT_EQ(Json::parse(whole.body)["choices"][0]["token_ids"], expected);
    EXPECT_EQ(Json::parse(whole.body)["usage"]["completion_tokens"], expected.size());
    const auto stream = streamed(client.ask(ServedRig::completion(prompt, 1 + 2 * i, R"(, "stream": true)")).body);
    EXPECT_EQ(stream.ids, expected);
    EXPECT_EQ(stream.last, "[DONE]");
  }
}

TEST(OpenAiServer, ChoicesAndListsOfPromptsAreNumbered) {
  const ServedRig rig(with_drafts());
  const auto first = some_prompt(5, 1), second = some_prompt(9, 2);
  const Json body = Json::parse(
      rig.ask("POST", "/v1/completions",
              fmt::format(R"({{"prompt": [[{}], [{}]], "n": 2, "max_tokens": 12, "temperature": 0, "ignore_eos": true,
                          "return_token_ids": true}})",
                          fmt::join(first, ","), fmt::join(second, ",")))
          .body);
  ASSERT_EQ(body["choices"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["token_ids"], rig.expected(i < 2 ? first : second, 12)) << i;
  }
}

TEST(OpenAiServer, ThePromptOfChoicesIsComputedOnce) {
  const ServedRig rig(with_drafts());  // without a prefix cache
  const auto prompt = some_prompt(21, 3);
  // A choice may have ended before the next one is handed over, on a busy machine.
  for (int i = 0; i < 50 && rig.metric("paceline_prefix_cache_hit_tokens_total") == "0"; ++i) {
    const Json body = Json::parse(rig.client().ask(ServedRig::completion(prompt, 60, R"(, "n": 4)")).body);
    for (const Json& choice : body["choices"]) EXPECT_EQ(choice["token_ids"], rig.expected(prompt, 60));
  }
  EXPECT_NE(rig.metric("paceline_prefix_cache_hit_tokens_total"), "0");
}

TEST(OpenAiServer, ThePageIsOneFileUnderAPolicyOfItsOwn) {
  const ServedRig rig(with_drafts());
  const auto page = rig.ask("GET", "/"), again = rig.ask("GET", "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.has("Content-Type: text/html; charset=utf-8"));
  EXPECT_TRUE(page.has("Cache-Control: no-store"));
  const std::string mark = "script-src 'nonce-";
  const auto nonce_of = [&](const TestClient::Reply& reply) {
    const size_t at = reply.head.find(mark) + mark.size();
    return reply.head.substr(at, reply.head.find('\'', at) - at);
  };
  EXPECT_EQ(nonce_of(page).size(), 32u);
  EXPECT_NE(nonce_of(page), nonce_of(again));
  EXPECT_NE(page.head.find("Content-Security-Policy: default-src 'none'; "), std::string::npos) << page.head;
  EXPECT_NE(page.body.find("<script nonce=\"" + nonce_of(page) + "\">"), std::string::npos);
  for (const char* unwanted : {"src=", "@import", "url(", "innerHTML", "https:"})
    EXPECT_EQ(page.body.find(unwanted), std::string::npos) << unwanted;
  EXPECT_EQ(rig.ask("POST", "/", "{}").status, 405);

  OpenAiServerOptions guarded;
  guarded.access.api_key = "k";
  const ServedRig locked(with_drafts(), guarded);
  EXPECT_EQ(locked.ask("GET", "/").status, 401);
  EXPECT_EQ(locked.ask("GET", "/", "", "Authorization: Bearer k\r\n").status, 200);
}

TEST(OpenAiServer, AcceptanceIsTold) {
  const ServedRig rig(with_drafts(3));
  const Json body = Json::parse(rig.client().ask(ServedRig::completion(some_prompt(5, 1), 30)).body);
  const Json& stats = body["metrics"]["speculative_decoding"];
  EXPECT_EQ(stats["num_spec_tokens"], 3);
  EXPECT_GT(stats["num_draft_tokens"], 0);
  EXPECT_EQ(std::to_string(stats["num_draft_tokens"].get<int>()),
            rig.metric("paceline_spec_decode_draft_tokens_total"));
  EXPECT_EQ(std::to_string(stats["num_accepted_draft_tokens"].get<int>()),
            rig.metric("vllm:spec_decode_num_accepted_tokens_total{engine=\"0\",model_name=\"fake\"}"));
}

TEST(OpenAiServer, EditsAndLogprobsReachTheEngine) {
  const ServedRig rig(with_drafts());
  const auto ids = [&](const std::string& more) {
    return Json::parse(rig.client().ask(ServedRig::completion(some_prompt(5, 1), 8, more)).body)["choices"][0];
  };
  EXPECT_EQ(ids(R"(, "logit_bias": {"5": 100})")["token_ids"], std::vector<int32_t>(8, 5));
  EXPECT_NE(ids(R"(, "logit_bias": {"5": 100}, "repetition_penalty": 100)")["token_ids"], std::vector<int32_t>(8, 5));
  EXPECT_EQ(ids(R"(, "logprobs": 3)")["logprobs"]["tokens"].size(), 8u);
  EXPECT_EQ(rig.client().ask(ServedRig::completion(some_prompt(5, 1), 8, R"(, "min_tokens": 9)")).status, 400);
}

/// Clients leave at random moments, queued, in their prompt or while they decode; others hear what they would alone,
/// and every block is free afterwards.
void expect_others_unchanged(const FakeRigOptions& options, int rounds) {
  const ServedRig rig(options);
  std::mt19937 random(11);
  for (int round = 0; round < rounds; ++round) {
    std::vector<TestClient> leaving;
    for (int i = 0; i < 6; ++i) {
      leaving.push_back(rig.client());
      leaving.back().send(ServedRig::completion(some_prompt(3 + int(random() % 20), int(random() % 50)), 60,
                                                random() % 2 ? R"(, "stream": true)" : ""));
    }
    std::vector<TestClient> staying;
    std::vector<std::vector<int32_t>> prompts;
    for (int i = 0; i < 3; ++i) {
      prompts.push_back(some_prompt(4 + int(random() % 15), 100 + int(random() % 50)));
      staying.push_back(rig.client());
      staying.back().send(ServedRig::completion(prompts.back(), 40, R"(, "stream": true)"));
    }
    for (TestClient& client : leaving) {
      if (random() % 2) client.read_some(int(random() % 3));
      if (random() % 4 == 0)
        client.reset();
      else
        client.close();
    }
    for (size_t i = 0; i < staying.size(); ++i)
      ASSERT_EQ(streamed(staying[i].read_reply().body).ids, rig.expected(prompts[i], 40)) << "round " << round;
  }
  EXPECT_TRUE(comes_true([&] { return rig.server->num_open() == 0; }));
  EXPECT_TRUE(comes_true([&] { return rig.metric("paceline_kv_cache_usage_ratio") == "0"; }));
  EXPECT_EQ(rig.metric("paceline_requests_running"), "0");
  EXPECT_NE(rig.metric("paceline_requests_ended_total{reason=\"cancelled\"}"), "0");
}

// The text thread looks into grammars, and lets some go, while the engine's thread asks them for masks.
TEST(OpenAiServer, ManyAnswersInFormsAtOnce) {
  FakeRigOptions options = with_drafts();
  options.model.vocab_size = test::small_tokenizer()->vocab_size();
  options.model.eos = {options.model.vocab_size - 1};
  OpenAiServerOptions served;
  served.http.limits.max_grammars = 2;
  const ServedRig rig(options, served);
  for (int round = 0; round < 3; ++round) {
    std::vector<TestClient> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(rig.client());
      clients.back().send(ServedRig::request(
          "POST", "/v1/completions",
          fmt::format(R"({{"prompt": [1, 2, {}], "n": 2, "max_tokens": 60, "guided_regex": "x[ab]{{2,{}}}"}})", 5 + i,
                      3 + i % 4)));
    }
    for (int i = 0; i < 8; ++i) {
      const auto reply = clients[size_t(i)].read_reply();
      ASSERT_EQ(reply.status, 200) << reply.body;
      const std::regex form(fmt::format("x[ab]{{2,{}}}", 3 + i % 4));
      const Json body = Json::parse(reply.body);
      for (const Json& choice : body["choices"]) {
        EXPECT_TRUE(std::regex_match(choice["text"].get<std::string>(), form)) << choice;
        EXPECT_EQ(choice["finish_reason"], "stop");
      }
    }
  }
}

TEST(OpenAiServer, AShortBodyDoesNotWaitForALongOne) {
  FakeRigOptions options = with_drafts();
  options.model.vocab_size = test::small_tokenizer()->vocab_size();
  options.model.eos = {options.model.vocab_size - 1};
  const ServedRig rig(options);
  const std::vector<int32_t> prompt = some_prompt(5, 1);
  std::string words;
  while (words.size() < size_t{7} << 20) words += fmt::format("word{} ", words.size());
  /// Whether the answer is there before that to a long body, which was there before.
  const auto is_first = [&](const std::string& more) {
    TestClient of_long = rig.client();
    of_long.send(ServedRig::request("POST", "/v1/completions", fmt::format(R"({{"prompt": "{}"}})", words)));
    EXPECT_TRUE(comes_true([&] { return rig.server->num_open() == 1; }));
    const auto reply = rig.client().ask(ServedRig::completion(prompt, 3, more));
    const bool was_first = !of_long.read_some(0);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(of_long.read_reply().status, 400) << "longer than the context";
    return was_first;
  };
  EXPECT_TRUE(is_first(""));
  EXPECT_FALSE(is_first(fmt::format(R"(, "user": "{}")", std::string(3000, 'u')))) << "no short body";
  EXPECT_FALSE(is_first(R"(, "guided_regex": "[ab]+")")) << "a form";
}

TEST(OpenAiServer, ClientsWhoLeaveChangeNothingForOthers) { expect_others_unchanged(with_drafts(), 40); }

TEST(OpenAiServer, ClientsWhoLeaveChangeNothingWherePagesAreScarceAndPrefixesShared) {
  FakeRigOptions options = with_drafts();
  options.model.num_blocks = 30;
  options.caching = PrefixCaching::on;
  expect_others_unchanged(options, 40);
}

TEST(OpenAiServer, AFullQueueIsSaidToBeFull) {
  OpenAiServerOptions served;
  served.http.limits.max_queue = 4;
  const ServedRig rig(with_drafts(), served);
  const auto at = [&](int count) {
    return rig.client().ask(ServedRig::completion(some_prompt(3, 1), 2, fmt::format(R"(, "n": {})", count)));
  };
  EXPECT_EQ(at(3).status, 200);
  EXPECT_EQ(at(4).status, 200);
  const auto beyond = at(5);
  EXPECT_EQ(beyond.status, 400) << beyond.body;
  EXPECT_NE(beyond.body.find("at most 4"), std::string::npos);
}

TEST(OpenAiServer, APromptOverTheContextIsToldBothNumbers) {
  const ServedRig rig(with_drafts());  // max_model_len 96
  const auto over = rig.client().ask(ServedRig::completion(some_prompt(96, 1), 1));
  EXPECT_EQ(over.status, 400);
  EXPECT_NE(over.body.find("context_length_exceeded"), std::string::npos) << over.body;
  EXPECT_NE(over.body.find("96"), std::string::npos) << over.body;
  const auto output = rig.client().ask(ServedRig::completion(some_prompt(90, 1), 7));
  EXPECT_EQ(Json::parse(output.body)["error"]["param"], "max_tokens") << output.body;
  EXPECT_EQ(rig.client().ask(ServedRig::completion(some_prompt(90, 1), 6)).status, 200);
}

TEST(OpenAiServer, RoutesMethodsAndModels) {
  const ServedRig rig(with_drafts());
  EXPECT_EQ(rig.ask("GET", "/health").status, 200);
  EXPECT_EQ(rig.ask("GET", "/version").body, R"({"version":"1.2.3"})");
  EXPECT_EQ(Json::parse(rig.ask("GET", "/v1/models").body)["data"][0]["id"], "fake");
  EXPECT_EQ(Json::parse(rig.ask("GET", "/v1/models/fake").body)["id"], "fake");
  EXPECT_EQ(Json::parse(rig.ask("GET", "/v1/models/f%61ke?x=1").body)["id"], "fake");
  EXPECT_EQ(rig.ask("DELETE", "/v1/models/fake").status, 405);
  const auto other = rig.ask("GET", "/v1/models/other");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(Json::parse(other.body)["error"]["code"], "model_not_found") << other.body;
  EXPECT_EQ(rig.ask("POST", "/reset_prefix_cache").status, 200);
  EXPECT_EQ(rig.ask("GET", "/v1/nothing").status, 404);
  const auto method = rig.ask("GET", "/v1/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_TRUE(method.has("Allow: POST")) << method.head;
  EXPECT_EQ(rig.ask("POST", "/v1/completions", R"({"prompt": "x", "model": "other"})").status, 404);
  EXPECT_EQ(rig.ask("POST", "/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}]})").status, 400);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", R"({"prompt": ""})").status, 400);
}

TEST(OpenAiServer, TextsAndIdsOfTheTokenizer) {
  const ServedRig rig(with_drafts());
  const auto ids = test::small_tokenizer()->encode("Hello world", {.add_special = true});
  const Json tokens = Json::parse(rig.ask("POST", "/tokenize", R"({"prompt": "Hello world"})").body);
  EXPECT_EQ(tokens["tokens"], ids);
  EXPECT_EQ(tokens["count"], ids.size());
  // Who renders a template himself writes its tokens.
  const std::string rendered = "<|user|>Hello<|end|>";
  const Json with_marks = Json::parse(rig.ask("POST", "/tokenize", Json{{"prompt", rendered}}.dump()).body);
  EXPECT_EQ(with_marks["tokens"],
            test::small_tokenizer()->encode(rendered, {.parse_special = true, .add_special = true}));
  EXPECT_NE(with_marks["tokens"], test::small_tokenizer()->encode(rendered, {.add_special = true}));
  EXPECT_EQ(tokens["max_model_len"], 96);
  const Json text = Json::parse(rig.ask("POST", "/detokenize", R"({"tokens": [1, 2]})").body);
  EXPECT_EQ(text["prompt"], test::small_tokenizer()->decode(std::vector<int32_t>{1, 2}));
}

TEST(OpenAiServer, TheKeyIsAskedForAndAPageOfAnotherSiteRefused) {
  OpenAiServerOptions served;
  served.access.api_key = "k1";
  const ServedRig rig(with_drafts(), served);
  EXPECT_EQ(rig.ask("GET", "/health").status, 200);
  EXPECT_EQ(rig.ask("GET", "/v1/models").status, 401);
  EXPECT_EQ(rig.ask("GET", "/v1/models", "", "Authorization: Bearer k1\r\n").status, 200);
  EXPECT_EQ(
      rig.ask("POST", "/reset_prefix_cache", "", "Authorization: Bearer k1\r\nOrigin: http://evil.example\r\n").status,
      403);
}

TEST(OpenAiServer, DrainingLetsOpenRequestsEnd) {
  const ServedRig rig(with_drafts());
  TestClient client = rig.client();
  const auto prompt = some_prompt(5, 3);
  client.send(ServedRig::completion(prompt, 80, R"(, "stream": true)"));
  client.read_some();
  rig.server->drain();
  EXPECT_EQ(streamed(client.read_reply().body).last, "[DONE]");
  EXPECT_TRUE(comes_true([&] { return rig.server->num_open() == 0; }));
  EXPECT_FALSE(rig.client().is_open() && rig.client().ask(ServedRig::completion(prompt, 1)).status == 200);
}

/// What an engine does before each step, as the test wants it.
class HookedProposer final : public Proposer {
 public:
  explicit HookedProposer(std::function<void()> hook) : hook_(std::move(hook)) {}
  std::string_view name() const override { return "hooked"; }
  void propose(std::span<const DraftRequest>, std::span<Proposal>) override { hook_(); }
  void end(const Sequence&) override {}
  void preempt(SeqId) override {}

 private:
  const std::function<void()> hook_;
};

FakeRigOptions with_hook(std::function<void()> hook) {
  FakeRigOptions options;
  options.draft_len = 1;
  options.make_proposer = [hook] { return std::make_unique<HookedProposer>(hook); };
  return options;
}

TEST(OpenAiServer, DrainingRefusesWhatIsNewAndEndOpenTellsTheRest) {
  std::promise<void> open;
  const auto opened = open.get_future().share();
  ServedRig rig(with_hook([opened] { opened.wait(); }));
  TestClient stream = rig.client(), whole = rig.client(), late = rig.client();
  stream.send(ServedRig::completion(some_prompt(5, 1), 80, R"(, "stream": true)"));
  EXPECT_NE(stream.read_up_to("\n\n").find("token_ids"), std::string::npos);  // the prompt's token comes before a draft
  whole.send(ServedRig::completion(some_prompt(5, 2), 80));
  EXPECT_EQ(late.ask(ServedRig::request("GET", "/health")).status, 200);
  EXPECT_TRUE(comes_true([&] { return rig.server->num_open() == 2; }));
  rig.server->drain();
  EXPECT_TRUE(comes_true([&] { return !rig.client().connect(rig.port); }));  // it listens no longer
  EXPECT_EQ(rig.server->num_open(), 2);
  rig.server->end_open("the server is stopping");
  const auto told = whole.read_reply();
  EXPECT_EQ(told.status, 503) << told.body;
  EXPECT_NE(told.body.find("the server is stopping"), std::string::npos);
  const std::string rest = stream.read_to_end();
  EXPECT_NE(rest.find("the server is stopping"), std::string::npos) << rest;
  EXPECT_NE(rest.find("[DONE]"), std::string::npos) << rest;
  EXPECT_TRUE(comes_true([&] { return rig.server->num_open() == 0; }));
  open.set_value();
}

TEST(OpenAiServer, TheEnginesFailureReachesEveryClient) {
  std::promise<void> fails;
  const auto failed = fails.get_future().share();
  ServedRig rig(with_hook([failed] {
    failed.wait();
    fail(ExitCode::comm, "rank 1 of /secret/path is gone");
  }));
  TestClient stream = rig.client(), whole = rig.client();
  stream.send(ServedRig::completion(some_prompt(5, 1), 80, R"(, "stream": true)"));
  stream.read_up_to("\n\n");
  whole.send(ServedRig::completion(some_prompt(5, 2), 80));
  EXPECT_TRUE(comes_true([&] { return rig.server->num_open() == 2; }));
  fails.set_value();
  const auto told = whole.read_reply();
  EXPECT_EQ(told.status, 500) << told.body;
  EXPECT_EQ(told.body.find("secret"), std::string::npos) << told.body;
  const std::string rest = stream.read_up_to("[DONE]");
  EXPECT_NE(rest.find("the engine has stopped"), std::string::npos) << rest;
  EXPECT_EQ(rig.ask("GET", "/health").status, 503);
  EXPECT_EQ(rig.client().ask(ServedRig::completion(some_prompt(5, 3), 3)).status, 500);
  ASSERT_TRUE(rig.server->failure().has_value());
  EXPECT_EQ(rig.server->failure()->code(), ExitCode::comm);
}

TEST(OpenAiServer, LogitsThatAreNoNumbersEndThatRequestAlone) {
  FakeRigOptions options = with_drafts();
  options.model.poison = 7;
  const ServedRig rig(options);
  const auto poisoned = rig.client().ask(ServedRig::completion({1, 7, 2}, 5));
  EXPECT_EQ(poisoned.status, 500);
  EXPECT_NE(poisoned.body.find("numerical_error"), std::string::npos) << poisoned.body;
}

}  // namespace
}  // namespace paceline
