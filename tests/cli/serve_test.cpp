// runexp serve as a user starts and stops it.

#include <csignal>

#include "engine/serve/limits.h"
#include "tests/cli/bad_input.h"
#include "tests/cli/runexp.h"
#include "tests/cli/serve_program.h"

namespace paceline::test {
namespace {

class ServeBadInput : public testing::TestWithParam<BadInput> {};

TEST_P(ServeBadInput, EndsInOneLine) { expect_refused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Serve, ServeBadInput,
    testing::ValuesIn(std::vector<BadInput>{
        {"nothing_named", {"serve"}, 2, {"name a model or an experiment file"}},
        {"two_models",
         {"serve", "builtin:target-7m", "--model", "builtin:draft-600k"},
         2,
         {"--model", "builtin:target-7m already"}},
        {"flag_that_the_engine_cannot",
         {"serve", "builtin:target-7m", "--quantization", "fp8"},
         2,
         {"--quantization fp8", "not supported"}},
        {"mistyped_flag",
         {"serve", "builtin:target-7m", "--tensor-paralel-size", "2"},
         2,
         {"did you mean \"--tensor-parallel-size\"?"}},
        {"method_of_tests",
         {"serve", "builtin:target-7m", "--speculative-config", R"({"method":"oracle","num_speculative_tokens":3})"},
         2,
         {"method oracle: not supported; expected one of ngram, draft"}},
        {"mistyped_option", {"serve", "builtin:target-7m", "--prot", "8"}, 2, {"--prot 8", "did you mean \"--port\"?"}},
        {"port_beyond", {"serve", "builtin:target-7m", "--port", "65536"}, 2, {"--port", "65536"}},
        {"key_on_the_command_line",
         {"serve", "builtin:target-7m", "--api-key", "x"},
         2,
         {"PACELINE_API_KEY", "--api-key-file"}},
        {"empty_key_file", {"serve", "builtin:target-7m", "--api-key-file", "{bad}"}, 2, {"{bad}: the file is empty"}},
        {"address_without_key",
         {"serve", "builtin:target-7m", "--host", "0.0.0.0"},
         2,
         {"--host 0.0.0.0", "PACELINE_API_KEY", "--insecure"}},
        {"address_of_another_machine",
         {"serve", "builtin:target-7m", "--host", "192.0.2.1", "--insecure"},
         2,
         {"192.0.2.1:8000", "assign"}},
        {"several_cells", {"serve", "{tiny}"}, 2, {"{tiny} has 2 cells", "--cell CELL"}},
        {"no_such_cell", {"serve", "{tiny}", "--cell", "tp9"}, 2, {"{tiny}: no cell \"tp9\"", "tp1_pp1_none_c1"}},
        {"flags_beside_an_experiment", {"serve", "{tiny}", "--dtype", "float32"}, 2, {"--dtype", "--set KEY=VALUE"}},
        {"heads_not_divisible",
         {"serve", "builtin:target-7m", "--tensor-parallel-size", "3"},
         2,
         {"num_attention_heads 8", "tp 3"}},
        {"model_missing", {"serve", "{dir}/none"}, 3, {"{dir}/none"}},
        {"greedy_rule",
         {"serve", "builtin:target-7m", "--set", "k=3", "--set", "speculation.proposer=ngram", "--set",
          "speculation.verifier.rule=greedy"},
         2,
         {"speculation.verifier.rule", "\"greedy\"", "auto, rejection, block or coupled"}},
        {"setting_of_requests",
         {"serve", "builtin:target-7m", "--set", "sampling.top_k=1"},
         2,
         {"--set sampling.top_k: each request says that itself", "sampling.seed"}},
        {"setting_of_requests_beside_an_experiment",
         {"serve", "{tiny}", "--cell", "tp1_pp1_none_c1", "--set", "sampling.top_k=1"},
         2,
         {"--set sampling.top_k: each request says that itself"}},
        {"setting_of_experiments",
         {"serve", "builtin:target-7m", "--set", "concurrency=4"},
         2,
         {"--set load.concurrency: a server does not look at it"}},
        {"proposer_of_experiments",
         {"serve", "builtin:target-7m", "--set", "k=3", "--set", "speculation.proposer=oracle"},
         2,
         {"oracle drafts for the requests of an experiment alone", "none, ngram, draft"}},
    }),
    name_of);

TEST(ServeCommand, PrintsEveryLimit) {
  const ProcessResult result = runexp({"serve", "--print-limits"});
  expect_success(result);
  const ServeLimits limits;
  for (const LimitRow& row : kLimitRows) {
    EXPECT_TRUE(holds(result.out, row.name)) << row.name;
    EXPECT_TRUE(holds(result.out, std::to_string(limits.*row.value))) << row.name;
  }
}

TEST(ServeCommand, ServesAModelWithFlagsOfVllm) {
  Served served({"builtin:target-7m", "--tensor-parallel-size", "2", "--speculative-config",
                 R"({"method": "ngram", "num_speculative_tokens": 5})", "--max-model-len", "256", "--served-model-name",
                 "mine", "ours"});
  EXPECT_TRUE(holds(served.ask("GET", "/v1/models"), "\"id\":\"mine\""));
  EXPECT_TRUE(holds(served.ask("GET", "/v1/models/ours"), "\"max_model_len\":256"));
  EXPECT_TRUE(holds(served.ask("GET", "/v1/models"), "\"max_model_len\":256"));
  const std::string answer = served.ask(
      "POST", "/v1/chat/completions",
      R"({"model": "mine", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 30, "temperature": 0})");
  EXPECT_TRUE(holds(answer, "HTTP/1.1 200 OK")) << answer;
  EXPECT_TRUE(holds(answer, "\"num_spec_tokens\":5")) << answer;
  const std::string tools = served.ask(
      "POST", "/v1/chat/completions",
      R"({"model": "mine", "messages": [{"role": "user", "content": "Say hello."}], "tools": [{"type": "function"}]})");
  EXPECT_TRUE(holds(tools, "HTTP/1.1 400") && holds(tools, "chat template does not read them")) << tools;
  served.process().send(SIGTERM);
  const ProcessResult result = served.process().finish();
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_TRUE(result.out.starts_with("http://127.0.0.1:")) << result.out;
  EXPECT_TRUE(holds(result.err, "/v1: tp2 pp1, ngram with 5 draft tokens")) << result.err;
}

TEST(ServeCommand, ServesACellOfAnExperiment) {
  const Workspace workspace;
  Served served({workspace.config().string(), "--cell", "tp1_pp1_ngram"});
  EXPECT_TRUE(holds(served.ask("GET", "/metrics"), "spec_decode_num_drafts_total"));
}

TEST(ServeCommand, TheKeyComesFromTheEnvironmentOrAFile) {
  Served served({"builtin:target-7m"}, {"PACELINE_API_KEY=k-1"});
  EXPECT_TRUE(holds(served.ask("GET", "/v1/models"), "401"));
  EXPECT_TRUE(holds(served.ask("GET", "/v1/models", "", "Authorization: Bearer k-1\r\n"), "200 OK"));
  const TempDir folder;
  write_file(folder / "key", "k-2\n");
  Served by_file({"builtin:target-7m", "--api-key-file", (folder / "key").string()});
  EXPECT_TRUE(holds(by_file.ask("GET", "/v1/models", "", "Authorization: Bearer k-2\r\n"), "200 OK"));
}

TEST(ServeCommand, ASecondSignalEndsItAtOnce) {
  Served served({"builtin:target-7m"});
  const int open = served.connected();
  Served::send(open, "POST", "/v1/completions",
               R"({"prompt": "The", "max_tokens": 1000, "ignore_eos": true, "n": 16, "stream": true})");
  char byte;
  EXPECT_EQ(::recv(open, &byte, 1, 0), 1);
  served.process().send(SIGTERM);
  EXPECT_TRUE(served.process().wait_for_stderr("again to stop now", 10 * time_factor()));
  served.process().send(SIGTERM);
  const ProcessResult result = served.process().finish();
  EXPECT_EQ(result.exit_code, 143) << described(result);
  ::close(open);
}

// A rank stops for good: the stream ends with an error event, and the program with 5.
TEST(ServeFaults, ALostRankIsToldToEveryClientAndEndsTheProgram) {
  if (time_factor() > 1) GTEST_SKIP() << "a sanitizer's run time must come first";
  const std::filesystem::path library = binary_dir() / "libstuck_rank.so";
  const Workspace workspace;
  const std::filesystem::path stop = workspace.folder() / "stop";
  Served served({workspace.config().string(), "--cell", "tp1_pp2_ngram", "--set", "engine.parallel.pp=2", "--set",
                 "engine.parallel.timeout_s=2", "--set", "engine.parallel.threads_per_rank=1"},
                {"LD_PRELOAD=" + library.string(), "PACELINE_STOP_RANK=" + stop.string()});
  const int open = served.connected();
  Served::send(open, "POST", "/v1/completions",
               R"({"prompt": "The", "max_tokens": 100, "ignore_eos": true, "n": 8, "stream": true})");
  char bytes[4096];
  std::string stream(bytes, size_t(std::max<ssize_t>(0, ::recv(open, bytes, sizeof bytes, 0))));
  write_file(stop, "");
  for (ssize_t count; !holds(stream, "[DONE]") && (count = ::recv(open, bytes, sizeof bytes, 0)) > 0;)
    stream.append(bytes, size_t(count));
  ::close(open);
  EXPECT_TRUE(holds(stream, "the engine has stopped"))
      << stream.substr(stream.size() - std::min<size_t>(stream.size(), 500));
  EXPECT_FALSE(holds(stream, "rank")) << "what is inside is the log's";
  const ProcessResult result = served.process().finish();
  EXPECT_EQ(result.exit_code, 5) << described(result);
  EXPECT_TRUE(holds(result.err, "has made no mark for 2 s")) << described(result);
}

// Stopped by a signal, or frozen with its container: all ranks alike, so that none is lost.
TEST(ServeFaults, AFrozenProcessGoesOn) {
  if (time_factor() > 1) GTEST_SKIP() << "a sanitizer's ranks may be silent for that long";
  Served served({"builtin:target-7m", "--set", "engine.parallel.tp=2", "--set", "engine.parallel.pp=2", "--set",
                 "engine.parallel.timeout_s=1", "--set", "engine.parallel.threads_per_rank=1"});
  const int open = served.connected();
  Served::send(open, "POST", "/v1/completions",
               R"({"prompt": "The", "max_tokens": 1000, "ignore_eos": true, "n": 16, "stream": true})");
  char bytes[65536];
  std::string stream;
  const auto read_some = [&] {
    const ssize_t count = ::recv(open, bytes, sizeof bytes, 0);
    if (count > 0) stream.append(bytes, size_t(count));
    return count > 0;
  };
  for (int pause = 0; pause < 4; ++pause) {
    const size_t before = stream.size();
    while (stream.size() < before + 20000 && read_some()) {
    }
    served.process().send(SIGSTOP);
    served.process().wait(2.5);
    served.process().send(SIGCONT);
  }
  while (!holds(stream, "[DONE]") && read_some()) {
  }
  ::close(open);
  EXPECT_TRUE(holds(stream, "[DONE]"));
  EXPECT_FALSE(holds(stream, "the engine has stopped"));
}

/// tests/cli/clients/install.sh puts it there.
const std::filesystem::path& clients_python() {
  static const std::filesystem::path python = binary_dir().parent_path() / "clients/bin/python";
  return python;
}

TEST(ServeClients, TheOpenaiPackage) {
  const std::filesystem::path& python = clients_python();
  if (!std::filesystem::exists(python)) GTEST_SKIP() << python << " is not there: tests/cli/clients/install.sh";
  for (const char* proposer : {"", R"({"method": "ngram", "num_speculative_tokens": 4})"}) {
    std::vector<std::string> args{"builtin:target-7m"};
    if (*proposer) args.insert(args.end(), {"--speculative-config", proposer});
    Served served(args);
    const ProcessResult result =
        run_process({python.string(), (kSource / "tests/cli/clients/openai_client.py").string(), served.url() + "/v1"},
                    {.folder = kSource, .environment = {}, .timeout_s = 60 * time_factor(), .streams = Streams::pipes});
    EXPECT_EQ(result.exit_code, 0) << described(result);
    EXPECT_EQ(result.out, "ok\n");
  }
}

/// 1,000 answers under 100 schemas, with drafts: a mask for each of their rows.
TEST(ServeClients, PythonsJsonschemaTakesEveryAnswer) {
  const std::filesystem::path& python = clients_python();
  if (!std::filesystem::exists(python) || run_process({python.string(), "-c", "import jsonschema"}, {}).exit_code != 0)
    GTEST_SKIP() << "no jsonschema for " << python << ": tests/cli/clients/install.sh";
  Served served({"builtin:target-7m", "--speculative-config", R"({"method": "ngram", "num_speculative_tokens": 4})"});
  const ProcessResult result =
      run_process({python.string(), (kSource / "tests/cli/clients/schema_client.py").string(), served.url()},
                  {.folder = kSource, .environment = {}, .timeout_s = 300 * time_factor(), .streams = Streams::pipes});
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_TRUE(result.out.starts_with("1000 valid, 0 cut")) << result.out;
}

TEST(ServeClients, Curl) {
  if (!std::filesystem::exists("/usr/bin/curl")) GTEST_SKIP() << "no curl";
  Served served({"builtin:target-7m"});
  const auto curl = [&](std::vector<std::string> args, const std::string& path) {
    args.insert(args.begin(), {"/usr/bin/curl", "-sS", "-H", "Content-Type: application/json"});
    args.push_back(served.url() + path);
    return run_process(
        args, {.folder = kSource, .environment = {}, .timeout_s = 30 * time_factor(), .streams = Streams::pipes});
  };
  const ProcessResult stream =
      curl({"-N", "-d", R"({"prompt": "The old bridge", "max_tokens": 5, "temperature": 0, "stream": true})"},
           "/v1/completions");
  EXPECT_EQ(stream.exit_code, 0) << described(stream);
  EXPECT_TRUE(stream.out.ends_with("data: [DONE]\n\n")) << stream.out;
  EXPECT_TRUE(holds(curl({"--http1.0"}, "/health").out, "{}"));
  EXPECT_TRUE(holds(curl({"-d", "{"}, "/v1/completions").out, "invalid JSON"));
  const auto in_form = [&](const std::string& schema) {
    return curl({"-d", R"({"prompt": "The", "max_tokens": 100, "seed": 1, "guided_json": )" + schema + "}"},
                "/v1/completions")
        .out;
  };
  const std::string fixed = in_form(R"({"const": [1, "a"]})");
  EXPECT_TRUE(holds(fixed, "\"finish_reason\":\"stop\"") && holds(fixed, R"(\"a\")")) << fixed;
  EXPECT_TRUE(holds(in_form(R"({"items": {"uniqueItems": true}})"), "\"param\":\"guided_json/items/uniqueItems\""));
  // A body that is sent only after "100 Continue".
  const TempDir folder;
  write_file(folder / "body", R"({"prompt": ")" + std::string(2 << 20, 'a') + R"(", "max_tokens": 1})");
  const ProcessResult large =
      curl({"-d", "@" + (folder / "body").string(), "-H", "Expect: 100-continue"}, "/v1/completions");
  EXPECT_TRUE(holds(large.out, "context_length_exceeded")) << large.out.substr(0, 300);
}

TEST(ServeCommand, APortThatIsInUseIsNamed) {
  Served served({"builtin:target-7m"});
  const std::string port = std::to_string([&] {
    sockaddr_in at = {};
    socklen_t size = sizeof at;
    const int socket = served.connected();
    ::getpeername(socket, reinterpret_cast<sockaddr*>(&at), &size);
    ::close(socket);
    return int(ntohs(at.sin_port));
  }());
  expect_failure(runexp({"serve", "builtin:target-7m", "--port", port}), 2, {"127.0.0.1:" + port, "in use"});
}

}  // namespace
}  // namespace paceline::test
