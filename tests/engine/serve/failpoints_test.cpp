// What fails within the server costs at most the client or the request that it meets: others are told what the engine
// says, and nothing stays behind.

#include "engine/util/failpoints.h"

#include "served_rig.h"

namespace paceline {
namespace {

using test::comes_true;
using test::ServedRig;
using test::some_prompt;
using test::streamed;
using test::TestClient;

/// How many of the clients may be without their whole answer.
int most_hurt(Failpoint at, int clients) {
  switch (at) {
    case Failpoint::accept:
    case Failpoint::read:
    case Failpoint::write:
    case Failpoint::tokenize:
    case Failpoint::compile: return 1;
    case Failpoint::wake: return 0;
    case Failpoint::step: return clients;
  }
  return 0;
}

/// Clients at once, of whole answers, of streams, and one whose answer has a form that no other had; how many have not
/// had all that the engine says. What they have is part of it, or an error.
int num_hurt_of(const ServedRig& rig, int num_clients, int round) {
  constexpr int kTokens = 40;
  std::vector<TestClient> clients;
  for (int i = 0; i < num_clients; ++i) {
    clients.push_back(rig.client());
    clients.back().send(ServedRig::completion(some_prompt(4 + i, i), kTokens, i % 2 ? R"(, "stream": true)" : ""));
  }
  TestClient of_form = rig.client();
  of_form.send(ServedRig::request("POST", "/v1/completions",
                                  fmt::format(R"({{"prompt": [1, 2], "guided_regex": "[^a]{{0,{}}}",
                                  "max_tokens": 5}})",
                                              round)));
  const TestClient::Reply formed = of_form.read_reply();
  int num_hurt = formed.status == 0 || formed.body.find("could not be encoded") != std::string::npos ||
                 formed.body.find("has stopped") != std::string::npos;
  for (int i = 0; i < num_clients; ++i) {
    const TestClient::Reply reply = clients[size_t(i)].read_reply();
    const auto expected = rig.expected(some_prompt(4 + i, i), kTokens);
    if (reply.status != 200) {
      EXPECT_TRUE(reply.status == 0 || reply.body.find("\"error\"") != std::string::npos) << reply.body;
      ++num_hurt;
    } else if (i % 2) {
      const auto told = streamed(reply.body);
      EXPECT_TRUE(told.ids.size() <= expected.size() && std::equal(told.ids.begin(), told.ids.end(), expected.begin()));
      num_hurt += told.last != "[DONE]" || told.ids.size() < expected.size();
    } else if (const test::Json body = test::Json::parse(reply.body, nullptr, false); body.is_discarded()) {
      ++num_hurt;
    } else {
      EXPECT_EQ(body["choices"][0]["token_ids"], expected);
    }
  }
  return num_hurt;
}

class ServerFailpoints : public ::testing::TestWithParam<Failpoint> {};

TEST_P(ServerFailpoints, HurtOneClientAtMostAndLeaveNothing) {
  constexpr int kClients = 6;
  for (const int skipped : {0, 1, 2, 5}) {
    SCOPED_TRACE(skipped);
    OpenAiServerOptions served;
    served.http.failpoints = std::make_shared<Failpoints>();
    test::FakeRigOptions options = test::with_drafts();
    options.model.eos = {22};  // which a grammar must have for its end
    const ServedRig rig(options, served);
    served.http.failpoints->arm(GetParam(), skipped);
    int num_hurt = 0;
    for (int round = 0; round < 50 && served.http.failpoints->num_fired(GetParam()) == 0; ++round)
      num_hurt += num_hurt_of(rig, kClients, 1 + round);
    EXPECT_LE(num_hurt, most_hurt(GetParam(), kClients + 1));
    EXPECT_TRUE(comes_true([&] { return rig.server->num_open() == 0; }));
    EXPECT_EQ(served.http.failpoints->num_fired(GetParam()), 1);
    const bool has_failed = GetParam() == Failpoint::step;
    EXPECT_EQ(rig.ask("GET", "/health").status, has_failed ? 503 : 200);
    if (has_failed) continue;
    EXPECT_TRUE(comes_true([&] { return rig.metric("paceline_kv_cache_usage_ratio") == "0"; }));
    EXPECT_EQ(num_hurt_of(rig, kClients, 100), 0);
  }
}

std::string name_of(const ::testing::TestParamInfo<Failpoint>& info) {
  constexpr std::array kNames = {"accept", "read", "write", "wake", "tokenize", "compile", "step"};
  static_assert(kNames.size() == kFailpoints.size());
  return kNames[size_t(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, ServerFailpoints, ::testing::ValuesIn(kFailpoints), name_of);

}  // namespace
}  // namespace paceline
