// A server near its capacity: it refuses and breaks off nothing, and its memory stays.

#include <cmath>
#include <random>

#include <fmt/format.h>

#include "engine/util/machine.h"
#include "experiments/client/load_driver.h"
#include "experiments/workload/arrivals.h"
#include "tests/cli/serve_program.h"

namespace paceline::test {
namespace {

constexpr int kTokens = 32;
constexpr size_t kMostGrowthBytes = size_t{32} << 20;
constexpr double kLoad = 0.8;  // of the capacity

/// What clients send: texts of 1 to 120 words, every third behind one of four openings; greedy, sampled, with a bias,
/// with a stop string, with a form of eight; streamed.
class Clients {
 public:
  explicit Clients(const ServerUrl& url) : url_(url) {}

  DrivenRequest next() {
    const int number = num_++;
    std::string text = number % 3 == 0 ? opening(number / 3 % 4) : "";
    for (int words = 1 + int(random_() % 120); words > 0; --words) text += word() + " ";
    SamplingParams params;
    params.max_tokens = kTokens;
    params.ignore_eos = true;
    nlohmann::json further = nlohmann::json::object();
    switch (number % 5) {
      case 1:
        params.sampler.temperature = 0.8f;
        params.sampler.seed = uint64_t(number);
        break;
      case 2: further["logit_bias"] = {{"17", 5}, {std::to_string(random_() % 1000), -100}}; break;
      case 3: further["stop"] = {"a text that never comes"}; break;
      case 4: further["guided_regex"] = fmt::format("[a-z ]{{{}}}", 200 + random_() % 8); break;
    }
    const OpenAiRequest request =
        make_request({.text = text}, params, {.model = "target-7m", .as_chat = false, .further = further});
    return {.bytes = request_bytes(url_, request, ""), .max_tokens = kTokens};
  }

 private:
  std::string word() {
    std::string letters;
    for (size_t count = 2 + random_() % 7; count > 0; --count) letters += char('a' + random_() % 26);
    return letters;
  }
  std::string opening(int which) {
    std::mt19937 random(uint32_t(which) + 1);
    std::string text;
    for (int i = 0; i < 200; ++i) text += char(i % 6 == 5 ? ' ' : 'a' + random() % 26);
    return text;
  }

  ServerUrl url_;
  std::mt19937 random_{7};
  int num_ = 0;
};

void expect_all_answered(const DriveResult& result) {
  int failed = 0;
  for (const DrivenAnswer& each : result.answers) {
    if (each.is_over && !each.answer.failure && each.answer.num_tokens() == kTokens) continue;
    if (++failed <= 3)
      ADD_FAILURE() << (each.answer.failure ? failure_text(*each.answer.failure) : each.answer.text) << ", "
                    << each.answer.num_tokens() << " tokens";
  }
  EXPECT_EQ(failed, 0) << "of " << result.answers.size();
}

TEST(ServeOpenLoop, NearItsCapacityRefusesNothingAndItsMemoryStays) {
  const double run_s = long_samples() ? 600 : 5, warm_s = run_s / 10;
  const int asked_for_capacity = long_samples() ? 1000 : 100;
  Served served({"builtin:target-7m", "--enable-prefix-caching", "--max-num-seqs", "32", "--speculative-config",
                 R"({"method": "ngram", "num_speculative_tokens": 4})"});
  const ServerUrl url = parse_server_url(served.url());
  Clients clients(url);

  std::vector<DrivenRequest> requests;
  for (int i = 0; i < asked_for_capacity; ++i) requests.push_back(clients.next());
  const DriveResult closed = drive(requests, {.url = url, .concurrency = 32});
  expect_all_answered(closed);
  const double capacity_per_s = asked_for_capacity / closed.wall_s;

  const double rate_per_s = kLoad * capacity_per_s;
  requests.clear();
  for (const Arrival& arrival : draw_arrivals({.rate_per_s = rate_per_s}, int64_t(std::ceil(rate_per_s * run_s)), 0)) {
    requests.push_back(clients.next());
    requests.back().send_at_s = arrival.t_s;
  }
  size_t when_warm = 0, most = 0;
  const int pid = int(served.process().pid());
  const DriveResult open = drive(requests, {.url = url,
                                            .order = SendOrder::open,
                                            .timeout_s = 2 * run_s + 60,
                                            .on_progress = [&](std::span<const DrivenAnswer>, double now_ms) {
                                              const size_t bytes = process_memory(pid).resident_bytes;
                                              if (now_ms < 1000 * warm_s) when_warm = bytes;
                                              most = std::max(most, bytes);
                                            }});
  expect_all_answered(open);
  ASSERT_GT(when_warm, 0u);
  if (long_samples()) {  // not all KV pages are touched within seconds
    EXPECT_LE(most, when_warm + kMostGrowthBytes);
  }

  served.process().send(SIGTERM);
  const ProcessResult result = served.process().finish();
  EXPECT_EQ(result.exit_code, 0) << described(result);
  if (testing::Test::HasFailure()) return;
  record_long_sample("served_open_loop", {{"what", "runexp serve target-7m, n-grams of 4, prefix cache, 32 at once"},
                                          {"capacity_per_s", capacity_per_s},
                                          {"rate_per_s", rate_per_s},
                                          {"seconds", open.wall_s},
                                          {"requests", open.answers.size()},
                                          {"failed", 0},
                                          {"rss_mib_after_a_tenth", double(when_warm) / double(1 << 20)},
                                          {"rss_mib_at_most", double(most) / double(1 << 20)}});
}

}  // namespace
}  // namespace paceline::test
