// measure.level http from the command line: cells of servers become rows like others, each fault a failed cell with the
// request's name, and no server outlives its run.

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/config/server_command.h"
#include "tests/cli/runexp.h"
#include "tests/support/fake_server.h"

namespace paceline::test {
namespace {

using Json = nlohmann::json;

const std::string kFakeServer = (binary_dir() / "fake_server").string();

/// A folder with an experiment of four requests over HTTP, and what the test adds.
class ServedWorkspace {
 public:
  explicit ServedWorkspace(const Json& more, const Json& sweep = Json::object()) {
    const std::string configs = (kSource / "configs").string();
    Json config = {{"extends", {configs + "/base/defaults.json", configs + "/workloads/reading_qa.json"}},
                   {"name", "served"},
                   {"workload", {{"requests", 4}}},
                   {"sampling", {{"max_tokens", 8}}},
                   {"measure", {{"repetitions", 2}, {"warmup_requests", 1}, {"level", "http"}}},
                   {"sweep", sweep}};
    config.merge_patch(more);
    write_file(file(), config.dump(2));
  }
  std::filesystem::path file() const { return dir_ / "served.json"; }
  std::filesystem::path results() const { return dir_ / "results"; }
  std::filesystem::path pids() const { return dir_ / "pids"; }

  ProcessResult run(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = arguments();
    args.insert(args.end(), more.begin(), more.end());
    return runexp(args, {.environment = {"FAKE_SERVER_PID_FILE=" + pids().string()}, .timeout_s = 60});
  }
  std::vector<std::string> arguments() const { return {"run", file().string(), "--results", results().string()}; }

  Json summary() const { return Json::parse(read_file(results() / "latest" / "summary.json")); }
  /// cell.json of the cell at `index`.
  Json cell(int index) const {
    for (const auto& entry : std::filesystem::directory_iterator(results() / "latest" / "cells"))
      if (entry.path().filename().string().starts_with(fmt::format("{:03}_", index)))
        return Json::parse(read_file(entry.path() / "cell.json"));
    ADD_FAILURE() << "no cell " << index;
    return {};
  }
  std::vector<Json> requests(int index) const {
    std::vector<Json> out;
    for (const auto& entry : std::filesystem::directory_iterator(results() / "latest" / "cells")) {
      if (!entry.path().filename().string().starts_with(fmt::format("{:03}_", index))) continue;
      for (const std::string& line : lines_of(read_file(entry.path() / "requests.jsonl")))
        out.push_back(Json::parse(line));
    }
    return out;
  }
  /// Of servers that were started, in that order.
  std::vector<pid_t> server_pids() const {
    std::vector<pid_t> out;
    std::ifstream in(pids());
    for (pid_t pid = 0; in >> pid;) out.push_back(pid);
    return out;
  }

 private:
  TempDir dir_;
};

Json to_endpoint(const FakeServer& server) { return {{"server", {{"endpoint", server.url()}}}}; }

/// "T" of a process that is stopped; "" for none.
std::string state_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || text.size() < name_end + 3 ? "" : text.substr(name_end + 2, 1);
}

/// It has ended, or does so soon.
bool ends(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    const std::string state = state_of(pid);
    if (state.empty() || state == "Z") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(HttpLevel, MeasuresAServerThatRuns) {
  const FakeServer server;
  const ServedWorkspace work(to_endpoint(server));
  expect_success(work.run());
  const Json cell = work.cell(0);
  EXPECT_EQ(cell.at("status"), "done");
  EXPECT_EQ(cell.at("effective").at("server"), "fake/1");
  EXPECT_EQ(cell.at("effective").at("model"), "fake-model");
  ASSERT_EQ(cell.at("repetitions").size(), 2u);
  for (const Json& repetition : cell.at("repetitions")) {
    EXPECT_EQ(repetition.at("requests"), 4);
    EXPECT_EQ(repetition.at("output_tokens"), 32);
    EXPECT_EQ(repetition.at("client").at("prefix_cache"), "reset");
    EXPECT_EQ(repetition.at("client").at("acceptance_from"), "response");
    EXPECT_EQ(repetition.at("client").at("streamed"), true);
    EXPECT_GT(repetition.at("wall_s").get<double>(), 0);
    // 8 tokens: two steps, 3 drafts each, 2 of them accepted
    EXPECT_EQ(repetition.at("counters").at("drafts"), 8);
    EXPECT_EQ(repetition.at("counters").at("drafted"), 24);
    EXPECT_EQ(repetition.at("counters").at("accepted"), 16);
    EXPECT_EQ(repetition.at("counters").at("accepted_by_position"), Json({8, 8, 0}));
  }
  EXPECT_EQ(server.num_resets(), 2) << "before each repetition";
  EXPECT_EQ(server.bodies().size(), 1u + 2 * 4) << "warm-up and two repetitions";
  for (const Json& request : work.requests(0)) {
    EXPECT_EQ(request.at("output").size(), 8u);
    EXPECT_EQ(request.at("tokens_per_emission"), Json({2, 2, 2, 2}));
    EXPECT_EQ(request.at("itl_ms").size(), 3u);
    EXPECT_GT(request.at("ttft_ms").get<double>(), 0);
    EXPECT_GE(request.at("e2e_ms"), request.at("ttft_ms"));
    EXPECT_EQ(request.at("prompt_tokens"), 7);
    EXPECT_TRUE(request.contains("text"));
  }
  const Json row = work.summary().at("cells").at(0);
  EXPECT_DOUBLE_EQ(row.at("mean_acceptance_length").get<double>(), 3);
  EXPECT_TRUE(row.at("draft_coverage").is_null()) << "nobody states it";
}

TEST(HttpLevel, HasNoTimesOfTokensWhereAnswersComeWhole) {
  const FakeServer server({.with_ids = false});
  Json more = to_endpoint(server);
  more["server"]["stream"] = false;
  const ServedWorkspace work(more);
  const ProcessResult result = work.run();
  expect_success(result);
  for (const Json& request : work.requests(0)) {
    EXPECT_TRUE(request.at("ttft_ms").is_null());
    EXPECT_EQ(request.at("stated_tokens"), 8);
    EXPECT_EQ(request.at("output"), Json::array());
  }
  const Json row = work.summary().at("cells").at(0);
  EXPECT_TRUE(row.at("ttft_ms").at("p50").is_null());
  EXPECT_TRUE(row.at("tpot_ms").at("p50").is_null());
  EXPECT_EQ(row.at("output_tokens"), 64);
  EXPECT_TRUE(holds(read_file(work.results() / "latest" / "summary.md"), "took its answers whole"));
}

TEST(HttpLevel, SendsAsTheLoadSays) {
  for (const char* const load : {R"({"mode": "closed", "concurrency": 2})", R"({"mode": "offline"})",
                                 R"({"mode": "poisson", "rate_per_s": 200})"}) {
    const FakeServer server;
    Json more = to_endpoint(server);
    more["load"] = Json::parse(load);
    const ServedWorkspace work(more);
    expect_success(work.run());
    EXPECT_LE(server.most_at_once(), more["load"].value("concurrency", 4));
    const bool is_open = more["load"]["mode"] == "poisson";
    for (const Json& request : work.requests(0)) EXPECT_EQ(request.contains("arrival_ms"), is_open) << load;
  }
}

TEST(HttpLevel, NamesTheRequestThatFailedAndGivesNoNumber) {
  const std::pair<PlantedFault, const char*> cases[] = {{PlantedFault::stall, "stalled"},
                                                        {PlantedFault::reset, "connection_reset"},
                                                        {PlantedFault::half_event, "half_event"},
                                                        {PlantedFault::no_done, "no_done"},
                                                        {PlantedFault::wrong_usage, "contradicting_usage"},
                                                        {PlantedFault::status_429, "too_many_requests: 429"},
                                                        {PlantedFault::status_500, "server_error: 500"}};
  for (const auto& [fault, name] : cases) {
    SCOPED_TRACE(name);
    const FakeServer server({.fault = fault, .fault_from = 2});  // the second of the first repetition
    Json more = to_endpoint(server);
    more["server"]["stall_timeout_s"] = 0.2;
    const ServedWorkspace work(more);
    const ProcessResult result = work.run();
    EXPECT_EQ(result.exit_code, 1) << described(result);
    const Json cell = work.cell(0);
    EXPECT_EQ(cell.at("status"), "failed");
    EXPECT_EQ(cell.at("repetitions").size(), 0u);
    const std::string reason = cell.at("reason");
    EXPECT_TRUE(holds(reason, "3 of 4 requests")) << reason;
    EXPECT_TRUE(holds(reason, name)) << reason;
    EXPECT_TRUE(has_logged(work.results(), " request ")) << "each failed request in the cell's log";
  }
}

TEST(HttpLevel, ComparesTextsOfServersThatAreNotOurs) {
  const FakeServer plain({.with_ids = false, .drafts = StatedDrafts::none});
  const FakeServer same({.with_ids = false, .drafts = StatedDrafts::metrics});
  const FakeServer other({.with_ids = false, .drafts = StatedDrafts::none, .token_shift = 1});
  const Json sweep = {{"baseline", {{"speculation.proposer", "none"}, {"server.endpoint", plain.url()}}},
                      {"include",
                       {{{"label", "plain"}, {"server.endpoint", plain.url()}, {"speculation.proposer", "none"}},
                        {{"label", "same"}, {"server.endpoint", same.url()}, {"speculation.proposer", "ngram"}},
                        {{"label", "other"}, {"server.endpoint", other.url()}, {"speculation.proposer", "ngram"}}}}};
  const Json more = {{"speculation", {{"num_speculative_tokens", 3}}}};
  const ServedWorkspace work(more, sweep);
  const ProcessResult result = work.run();
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_TRUE(holds(result.out, "same texts")) << result.out;
  EXPECT_EQ(work.cell(0).at("certificate").at("status"), "baseline");
  const Json of_same = work.cell(1);
  EXPECT_EQ(of_same.at("certificate").at("status"), "pass") << of_same.at("certificate");
  EXPECT_EQ(of_same.at("repetitions").at(0).at("client").at("acceptance_from"), "metrics");
  EXPECT_EQ(of_same.at("repetitions").at(0).at("counters").at("accepted"), 16);
  EXPECT_EQ(work.cell(2).at("certificate").at("status"), "unverified");
  EXPECT_TRUE(holds(work.cell(2).at("certificate").at("detail"), "share 0.000"));
  EXPECT_TRUE(holds(read_file(work.results() / "latest" / "summary.md"), "states nothing of its drafts"));
  const ProcessResult judged = ServedWorkspace(more, sweep).run({"--set", "server.compare_text=0.5"});
  EXPECT_EQ(judged.exit_code, 7) << described(judged);
  EXPECT_TRUE(holds(judged.out, "NOT LOSSLESS")) << judged.out;
}

TEST(HttpLevel, OneCommandServesTheCellsOfAServerAndEachServerHasItsBaseline) {
  // "{k}" is how far its tokens are from those of others: 0 without drafts.
  const std::string mine = kFakeServer + " --port {port} --shift {k}";
  const std::string yours = kFakeServer + " --port {port} --shift 9 --of {proposer}";
  Json include = Json::array();
  for (const auto& [name, command] : {std::pair("mine", mine), std::pair("yours", yours)})
    for (const char* const proposer : {"none", "ngram"})
      include.push_back({{"label", fmt::format("{} {}", name, proposer)},
                         {"server.command", command},
                         {"speculation.proposer", proposer}});
  const ServedWorkspace work({{"speculation", {{"num_speculative_tokens", 3}}}},
                             {{"include", include}, {"baseline", {{"speculation.proposer", "none"}}}});
  const ProcessResult result = work.run();
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_EQ(work.server_pids().size(), 4u);
  std::map<std::string, Json> certificates;
  for (const int index : {0, 1, 2, 3})
    certificates[work.cell(index).at("axes").at("variant")] = work.cell(index)["certificate"];
  EXPECT_EQ(certificates["mine none"].at("status"), "baseline");
  EXPECT_EQ(certificates["yours none"].at("status"), "baseline");
  EXPECT_EQ(certificates["yours ngram"].at("status"), "pass") << certificates["yours ngram"];
  EXPECT_TRUE(holds(certificates["mine ngram"].at("detail"), "share 0.000")) << certificates["mine ngram"];
}

TEST(HttpLevel, ACommandTakesTheCellsSpeculation) {
  EXPECT_EQ(server_command("'a b' --port={port} \\{port} {proposer}:{k}",
                           {.port = 81, .proposer = "ngram", .num_speculative_tokens = 5}),
            (std::vector<std::string>{"a b", "--port=81", "{port}", "ngram:5"}));
  EXPECT_TRUE(names_speculation("a {k}") && names_speculation("{proposer}"));
  EXPECT_FALSE(names_speculation("a --port {port}"));
}

TEST(PeerServing, TheExperimentIsValidWithoutThePeers) {
  const ProcessResult result = runexp({"config", "validate", "configs/peer_serving.json", "--profile", "vllm"});
  expect_success(result);
  EXPECT_TRUE(holds(result.out, "7 cells")) << result.out;
}

/// experiments/peers/install.sh puts it there.
TEST(PeerServing, LlamaCppIsMeasuredBesideOurs) {
  for (const char* const file : {"venv/bin/python", "target/target-7m.gguf", "draft/draft-600k.gguf"}) {
    const std::filesystem::path path = binary_dir().parent_path() / "peers" / file;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: experiments/peers/install.sh";
  }
  const TempDir folder;
  const ProcessResult result = runexp({"run", "configs/peer_serving.json", "--profile", "quick", "--results",
                                       folder.path().string(), "--set", "workload.requests=2"},
                                      {.timeout_s = 300});
  EXPECT_EQ(result.exit_code, 0) << described(result);
  const Json summary = Json::parse(read_file(folder / "latest/summary.json"));
  ASSERT_EQ(summary.at("cells").size(), 6u);
  std::map<std::string, int> statuses;
  for (const Json& cell : summary.at("cells")) ++statuses[cell.at("certificate").at("status")];
  EXPECT_EQ(statuses["baseline"], 2) << "one of each server";
  EXPECT_GE(statuses["pass"], 2) << "ours, by tokens";
  EXPECT_EQ(statuses["pass"] + statuses["unverified"], 4) << "llama.cpp's arithmetic may depend on a step's rows";
}

TEST(HttpLevel, SaysWherePrefixesMayBeKnown) {
  const FakeServer server({.honours_reset = false});
  const ServedWorkspace work(to_endpoint(server));
  const ProcessResult result = work.run();
  expect_success(result);
  EXPECT_EQ(work.cell(0).at("repetitions").at(0).at("client").at("prefix_cache"),
            "/reset_prefix_cache answered 404 Not Found");
  EXPECT_TRUE(holds(result.out, "warm prefixes")) << result.out;
  EXPECT_TRUE(holds(read_file(work.results() / "latest" / "summary.md"), "may have known their prompts' prefixes"));
  Json off = to_endpoint(server);
  off["server"]["request"] = {{"cache_prompt", false}};
  const ServedWorkspace without(off);
  expect_success(without.run());
  EXPECT_EQ(without.cell(0).at("repetitions").at(0).at("client").at("prefix_cache"), "off");
  EXPECT_EQ(Json::parse(server.bodies().back()).at("cache_prompt"), false);
}

TEST(HttpLevel, StartsServersThatTakeTurnsAndEndsThem) {
  const Json sweep = {{"include",
                       {{{"label", "a"}, {"server.command", kFakeServer + " --port {port}"}},
                        {{"label", "b"}, {"server.command", "'" + kFakeServer + "' --port {port} --shift 1"}}}},
                      {"baseline", Json::object()}};
  const ServedWorkspace work(Json::object(), sweep);
  expect_success(work.run());
  for (const int index : {0, 1}) EXPECT_EQ(work.cell(index).at("repetitions").size(), 2u);
  std::vector<double> first_ends, second_ends;
  for (const int index : {0, 1}) {
    const Json repetitions = work.cell(index).at("repetitions");
    first_ends.push_back(repetitions.at(0).at("ended_at_s"));
    second_ends.push_back(repetitions.at(1).at("ended_at_s"));
  }
  EXPECT_LE(*std::max_element(first_ends.begin(), first_ends.end()),
            *std::min_element(second_ends.begin(), second_ends.end()))
      << "no server has its second turn before the other had its first";
  const std::vector<pid_t> pids = work.server_pids();
  ASSERT_EQ(pids.size(), 2u) << "each is started once";
  for (const pid_t pid : pids) EXPECT_TRUE(ends(pid));
  EXPECT_EQ(work.requests(0).size(), 8u);
}

TEST(HttpLevel, GivesOurOwnServersTokensAndCountersOfTheEngine) {
  const Json axes = {{"axes", {{"measure.level", {"engine", "http"}}, {"speculation.proposer", {"none", "ngram"}}}}};
  const ServedWorkspace work(Json{{"speculation", {{"num_speculative_tokens", 3}, {"verifier", {{"rule", "greedy"}}}}},
                                  {"engine", {{"kv_cache", {{"prefix_caching", true}}}}}},
                             axes);
  expect_success(work.run());
  for (const int index : {0, 1, 2, 3}) {
    const Json certificate = work.cell(index).at("certificate");
    EXPECT_EQ(certificate.at("status"), index == 0 ? "baseline" : "pass") << certificate;
    EXPECT_TRUE(holds(certificate.at("method"), "token-exact against tp1_pp1_none_c1_level-engine")) << certificate;
  }
  const Json of_engine = work.cell(1), of_server = work.cell(3);
  for (const size_t r : {0, 1}) {
    const Json &here = of_engine.at("repetitions").at(r), &there = of_server.at("repetitions").at(r);
    EXPECT_EQ(here.at("output_hash"), there.at("output_hash"));
    for (const char* const name : {"drafts", "drafted", "accepted", "accepted_by_position"})
      EXPECT_EQ(here.at("counters").at(name), there.at("counters").at(name)) << name;
    EXPECT_EQ(there.at("client").at("prefix_cache"), "reset");
    EXPECT_EQ(there.at("client").at("acceptance_from"), "response");
  }
  for (const auto& entry : std::filesystem::directory_iterator(work.results() / "latest" / "servers"))
    if (entry.path().extension() == ".json") expect_success(runexp({"config", "validate", entry.path().string()}));
}

// With sampling.redraw a repetition has noise of its own, the same in all cells and behind HTTP.
TEST(HttpLevel, DrawsAnewInEachRepetitionAsTheEngineDoes) {
  const Json axes = {{"axes", {{"measure.level", {"engine", "http"}}, {"speculation.proposer", {"none", "ngram"}}}}};
  const ServedWorkspace work(Json{{"speculation", {{"num_speculative_tokens", 3}, {"verifier", {{"rule", "coupled"}}}}},
                                  {"sampling", {{"temperature", 1.0}}}},
                             axes);
  expect_success(work.run());
  const auto hash = [&](int cell, size_t repetition) {
    return work.cell(cell).at("repetitions").at(repetition).at("output_hash");
  };
  EXPECT_NE(hash(0, 0), hash(0, 1));
  for (const int index : {1, 2, 3}) {
    for (const size_t r : {0, 1}) EXPECT_EQ(hash(index, r), hash(0, r)) << index << " " << r;
    EXPECT_EQ(work.cell(index).at("certificate").at("status"), "pass") << work.cell(index).at("certificate");
  }
}

TEST(HttpLevel, LeavesNoServerBehindHoweverItEnds) {
  for (const int signal : {SIGINT, SIGKILL}) {
    SCOPED_TRACE(signal);
    // One waits while the other stalls: the first is stopped, the second, the child of a shell, at work.
    const Json sweep = {{"include",
                         {{{"label", "waits"}, {"server.command", kFakeServer + " --port {port}"}},
                          {{"label", "stalls"},
                           {"server.command", fmt::format("sh -c '{} --port {{port}} --fault {} & wait'", kFakeServer,
                                                          int(PlantedFault::stall))}}}},
                        {"baseline", Json::object()}};
    const ServedWorkspace work(Json::object(), sweep);
    Process process(
        runexp_argv(work.arguments()),
        {.folder = kSource, .environment = {"FAKE_SERVER_PID_FILE=" + work.pids().string()}, .timeout_s = 60});
    for (int i = 0; i < 1000 && work.server_pids().size() < 2; ++i) process.wait(0.01);
    ASSERT_EQ(work.server_pids().size(), 2u);
    const std::vector<pid_t> pids = work.server_pids();
    for (int i = 0; i < 500 && state_of(pids[0]) != "T"; ++i) process.wait(0.01);
    EXPECT_EQ(state_of(pids[0]), "T") << "a server whose turn it is not is stopped";
    process.send(signal);
    if (signal == SIGINT) {
      EXPECT_TRUE(process.wait_for_stderr("interrupt again to stop now", 20));
      process.send(signal);
    }
    process.finish();
    for (const pid_t pid : pids) EXPECT_TRUE(ends(pid)) << pid;
  }
}

TEST(HttpLevel, SaysWhyAServerDidNotStart) {
  const auto reason_of = [](const std::string& command, double timeout_s) {
    const ServedWorkspace work(Json{{"server", {{"command", command}, {"start_timeout_s", timeout_s}}}});
    const ProcessResult result = work.run();
    EXPECT_EQ(result.exit_code, 1) << described(result);
    return work.cell(0).at("reason").get<std::string>();
  };
  const std::string died = reason_of(kFakeServer + " --dies --port {port}", 20);
  EXPECT_TRUE(holds(died, "exit code 3; its last lines: loading the model | no such model: fake-model")) << died;
  const std::string missing = reason_of("/no/such/program --port {port}", 20);
  EXPECT_TRUE(holds(missing, "/no/such/program: cannot be started")) << missing;
  const std::string silent = reason_of(kFakeServer + " --unhealthy --port {port}", 0.3);
  EXPECT_TRUE(holds(silent, "did not answer GET /health within 0.3 s")) << silent;
}

TEST(HttpLevel, ComplainsOfWhatCannotBe) {
  const auto complaint = [](const Json& server, const std::vector<std::string>& pieces) {
    const ServedWorkspace work(Json{{"server", server}});
    expect_failure(runexp({"config", "validate", work.file().string()}), 2, pieces);
  };
  complaint({{"endpoint", "https://api.openai.com/v1"}}, {"server.endpoint", "https is not spoken here"});
  complaint({{"endpoint", "http://h:99999"}}, {"not 1 to 65535"});
  complaint({{"command", "vllm serve m"}}, {"server.command", "{port}"});
  complaint({{"command", "'vllm --port {port}"}}, {"a quote ' does not end"});
  complaint({{"endpoint", "http://h:1"}, {"command", "x {port}"}}, {"drop one of them"});
  complaint({{"endpoint", "http://h:1"}, {"request", 5}}, {"\"server.request\" is 5", "an object of names and values"});
  complaint({{"compare_text", 0.5}}, {"our own is compared by tokens"});
  const ServedWorkspace of_oracle(Json{{"speculation", {{"proposer", "oracle"}, {"num_speculative_tokens", 3}}}});
  expect_failure(runexp({"config", "validate", of_oracle.file().string()}), 2,
                 {"proposer oracle drafts for the requests of a run in this process alone"});
  const ServedWorkspace in_process(Json{{"measure", {{"level", "engine"}}}, {"server", {{"stream", false}}}});
  expect_failure(runexp({"config", "validate", in_process.file().string()}), 2, {"only with measure.level http"});
}

TEST(HttpLevel, TakesTheKeyFromTheEnvironmentOnly) {
  const FakeServer server({.api_key = "top-secret"});
  Json more = to_endpoint(server);
  more["server"]["api_key_env"] = "FAKE_KEY";
  const ServedWorkspace work(more);
  const auto run = [&](const std::vector<std::string>& environment) {
    return runexp(work.arguments(), {.environment = environment, .timeout_s = 60});
  };
  const ProcessResult without = run({"FAKE_KEY"});
  EXPECT_EQ(without.exit_code, 1) << described(without);
  EXPECT_TRUE(holds(work.cell(0).at("reason"), "\"FAKE_KEY\" is not set")) << work.cell(0).at("reason");
  const ProcessResult with = run({"FAKE_KEY=top-secret"});
  expect_success(with);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(work.results()))
    EXPECT_FALSE(entry.is_regular_file() && holds(read_file(entry.path()), "top-secret")) << entry.path();
}

}  // namespace
}  // namespace paceline::test
