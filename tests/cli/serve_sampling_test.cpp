// Requests of a server bring temperatures of their own: drafts must not change what is drawn, whatever the experiment
// that it serves says of sampling.

#include <map>
#include <set>

#include "tests/cli/serve_program.h"

namespace paceline::test {
namespace {

using Json = nlohmann::json;

std::string speculating(const char* method, int k) {
  Json config = {{"method", method}, {"num_speculative_tokens", k}};
  if (method == std::string("draft_model")) config["model"] = "builtin:draft-600k";
  if (method == std::string("eagle3")) config["model"] = "builtin:eagle3-target-7m";
  return config.dump();
}

/// Texts of `n` answers to one request.
std::vector<std::string> texts(Served& server, Json body) {
  body["ignore_eos"] = true;
  const std::string answer = server.ask("POST", "/v1/completions", body.dump());
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK")) << answer;
  const Json parsed = Json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  std::vector<std::string> found;
  for (const Json& choice : parsed.at("choices")) found.push_back(choice.at("text"));
  return found;
}

const char* const kOftenSaid = "The cat sat on the mat. The cat sat on the mat. The cat sat";

TEST(ServeSampling, CoupledDraftsGiveThePlainServersTexts) {
  Served plain({"builtin:target-7m"});
  for (const char* const method : {"ngram", "draft_model", "eagle3", "suffix"}) {
    Served drafting({"builtin:target-7m", "--speculative-config", speculating(method, 4), "--set",
                     "speculation.verifier.rule=coupled"});
    for (const double temperature : {0.0, 0.7, 1.5}) {
      const Json body = {
          {"prompt", kOftenSaid}, {"max_tokens", 24}, {"temperature", temperature}, {"seed", 7}, {"n", 8}};
      EXPECT_EQ(texts(drafting, body), texts(plain, body)) << method << " at temperature " << temperature;
    }
  }
}

TEST(ServeSampling, ASeedMakesRequestsWithoutOneComeAgain) {
  const auto answers = [](const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"builtin:target-7m"};
    args.insert(args.end(), flags.begin(), flags.end());
    Served server(args);
    std::vector<std::string> all;
    for (int i = 0; i < 2; ++i) {
      const auto some = texts(server, {{"prompt", "Say hello."}, {"max_tokens", 12}, {"n", 2}});
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  };
  const auto five = answers({"--seed", "5"});
  EXPECT_EQ(answers({"--set", "sampling.seed=5"}), five);
  EXPECT_NE(answers({"--seed", "6"}), five);
  EXPECT_NE(answers({}), answers({}));
  EXPECT_EQ(std::set(five.begin(), five.end()).size(), 4u);
}

TEST(ServeSampling, DraftsLeaveTheLawOfWhatIsDrawn) {
  Served plain({"builtin:target-7m"});
  const auto likeliest_second = [](Served& server) {  // of 128 answers those whose second token is the argmax
    int count = 0;
    for (int seed = 0; seed < 8; ++seed) {
      const Json body = {
          {"prompt", "Say hello."}, {"max_tokens", 1}, {"temperature", 2}, {"seed", 100 * seed}, {"n", 16}};
      Json longer = body;
      longer["max_tokens"] = 5;  // nobody drafts for the last one
      const auto first = texts(server, body), both = texts(server, longer);
      std::map<std::string, std::string> greedy;
      for (size_t i = 0; i < first.size(); ++i) {
        if (!greedy.contains(first[i]))
          greedy[first[i]] =
              texts(server, {{"prompt", "Say hello." + first[i]}, {"max_tokens", 1}, {"temperature", 0}}).front();
        count += both[i].starts_with(first[i] + greedy[first[i]]);
      }
    }
    return count;
  };
  const int of_plain = likeliest_second(plain);
  Served drafting({"builtin:target-7m", "--speculative-config", speculating("draft_model", 2)});
  // some 5 % of 128 answers: 4.5 standard deviations of a difference
  EXPECT_NEAR(likeliest_second(drafting), of_plain, 16);
  EXPECT_LT(of_plain, 16);
}

}  // namespace
}  // namespace paceline::test
