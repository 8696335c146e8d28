// What HTTP costs: the same requests through an engine stepped in this thread and through its server on loopback, by
// turns, on the same load.
//
//   serve_bench
//
// Served/streams: `ratio`, tokens per second served (streamed, that many clients at once) over those of the engine
// alone, the median over pairs of turns, and its 95 % interval, `low` to `high`; `first_ms`: how much later the first
// text of a prompt is there, median. First: the same where the engine is idle before each request, with the interval of
// the median. Health/streams: how long /health takes beside so many streams, `p50_ms` and `p99_ms`.
//
// PACELINE_BENCH_MODEL (builtin:target-7m), _TP, _THREADS (of all ranks), _REQUESTS (of a turn), _TOKENS,
// _TURNS (pairs; many short ones, as a machine's speed changes within seconds).

#include <algorithm>
#include <arpa/inet.h>
#include <cmath>
#include <map>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/ranges.h>

#include "engine/serve/openai_server.h"
#include "engine/util/machine.h"
#include "experiments/analysis/statistics/statistics.h"
#include "experiments/bench/bench.h"
#include "experiments/config/config.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/run/engine_load.h"
#include "experiments/workload/requests.h"
#include "kernels/cpu/ceilings.h"

namespace paceline {
namespace {

int number_setting(const char* name, int otherwise) {
  return std::max(1, std::atoi(bench_setting(name, std::to_string(otherwise)).c_str()));
}

/// The 95 % interval of the median, by order statistics: the ranks that a binomial of n halves keeps.
std::pair<double, double> interval_of_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = double(values.size());
  const auto outside = size_t(std::max(0.0, std::floor(n / 2 - 0.98 * std::sqrt(n))));
  return {values[outside], values[values.size() - 1 - outside]};
}

ExperimentConfig bench_config() {
  ExperimentConfig config;
  config.builtin_root = find_builtin_root(".");
  config.engine.target.path = bench_setting("MODEL", "builtin:target-7m");
  config.engine.parallel.tp = number_setting("TP", 1);
  config.engine.scheduler.max_num_seqs = 256;
  config.speculation.num_speculative_tokens = 0;
  derive_paths(config);
  return config;
}

/// What one turn took.
struct Turn {
  double seconds = 0;
  int64_t tokens = 0;
  std::vector<double> first_s;  // of each request, in the order of the prompts
  double rate() const { return double(tokens) / seconds; }
};

/// A load, its requests, and the two ways to run them.
class Bench {
 public:
  Bench()
      : config_(bench_config()),
        load_(config_, {.threads_per_rank = std::max(1, bench_threads() / config_.engine.parallel.tp)}) {
    config_.workload.requests = number_setting("REQUESTS", 16);
    max_tokens_ = number_setting("TOKENS", 96);
    for (const EncodedPrompt& prompt : encode_prompts(read_workload(config_.workload).requests, *load_.tokenizer(),
                                                      config_.engine.target.directory, ChatFormat::template_of_model))
      prompts_.push_back(prompt.tokens);
  }

  std::unique_ptr<Engine> make_engine() { return load_.make_engine(config_); }
  const std::vector<int32_t>& prompt(size_t index) const { return prompts_[index]; }
  SamplingParams params() const {
    SamplingParams params;
    params.max_tokens = max_tokens_;
    return params;
  }

  Turn in_process(int streams) {
    const auto engine = make_engine();
    Turn turn;
    turn.first_s.resize(prompts_.size());
    struct Sent {
      size_t index;
      Clock::time_point at;
      bool has_tokens = false;
    };
    std::map<SeqId, Sent> sent;
    size_t next = 0;
    const auto begin = Clock::now();
    while (next < prompts_.size() || !engine->idle()) {
      while (next < prompts_.size() && int(sent.size()) < streams) {
        const auto now = Clock::now();
        sent.emplace(engine->submit(prompts_[next], params()), Sent{next, now});
        ++next;
      }
      for (const Emitted& emitted : engine->step()) {
        turn.tokens += int64_t(emitted.token.size());
        Sent& request = sent.at(emitted.seq);
        if (!emitted.token.empty() && !std::exchange(request.has_tokens, true))
          turn.first_s[request.index] = seconds_since(request.at);
        if (emitted.finish != FinishReason::none) sent.erase(emitted.seq);
      }
    }
    turn.seconds = seconds_since(begin);
    return turn;
  }

  std::unique_ptr<OpenAiServer> serve() {
    OpenAiServerOptions options;
    options.http.port = 0;
    options.http.limits.max_connections = 1000;
    const ServedModel model{.names = {"bench"}, .tokenizer = load_.tokenizer(), .chat_template = std::nullopt};
    return std::make_unique<OpenAiServer>(options, model, [this] { return std::shared_ptr<Engine>(make_engine()); });
  }

  std::string request(size_t index) const {
    const std::string body = fmt::format(
        R"({{"prompt": [{}], "max_tokens": {}, "temperature": 0, "stream": true, "stream_options": {{"include_usage": true}}}})",
        fmt::join(prompts_[index % prompts_.size()], ","), max_tokens_);
    return fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        "{}\r\n\r\n{}",
        body.size(), body);
  }
  size_t num_requests() const { return prompts_.size(); }

 private:
  ExperimentConfig config_;
  EngineLoad load_;
  std::vector<std::vector<int32_t>> prompts_;
  int max_tokens_ = 0;
};

class Connection {
 public:
  explicit Connection(const OpenAiServer& server) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(uint16_t(std::stoi(server.address().substr(server.address().rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
      fail(ExitCode::device, "cannot connect");
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  Connection(Connection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Connection() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  void send(const std::string& bytes) {
    sent_ = Clock::now();  // the server may answer before send() returns
    if (::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) != ssize_t(bytes.size()))
      fail(ExitCode::device, "cannot send");
    text_.clear();
    body_ = text_.npos, is_whole_ = false;
    first_s_ = -1;
  }
  /// Reads what is there; true: the answer has ended.
  bool read() {
    char bytes[65536];
    const ssize_t count = ::recv(fd_, bytes, sizeof bytes, 0);
    if (count <= 0) fail(ExitCode::device, "the server ended the connection");
    if (first_s_ < 0) first_s_ = seconds_since(sent_);
    text_.append(bytes, size_t(count));
    if (body_ == text_.npos && (body_ = text_.find("\r\n\r\n")) != text_.npos)
      is_whole_ = text_.find("Content-Length: ") < body_;
    return is_whole_ || text_.ends_with("\r\n0\r\n\r\n");
  }
  double first_s() const { return first_s_; }
  double since_sent() const { return seconds_since(sent_); }
  int64_t completion_tokens() const {
    constexpr std::string_view kField = "\"completion_tokens\":";
    const size_t at = text_.rfind(kField);
    return at == text_.npos ? 0 : std::atoll(text_.c_str() + at + kField.size());
  }

 private:
  int fd_;
  std::string text_;
  size_t body_ = std::string::npos;  // where the header ends
  bool is_whole_ = false;            // not streamed: it comes at once
  Clock::time_point sent_;
  double first_s_ = -1;
};

Turn served(const Bench& bench, const OpenAiServer& server, int streams) {
  std::vector<Connection> connections;
  for (int i = 0; i < streams; ++i) connections.emplace_back(server);
  Turn turn;
  turn.first_s.resize(bench.num_requests());
  std::vector<size_t> asked(connections.size());  // of each: which request
  size_t next = 0, open = 0;
  const auto ask = [&](size_t i) {
    connections[i].send(bench.request(next));
    asked[i] = next++;
  };
  const auto begin = Clock::now();
  for (size_t i = 0; i < connections.size(); ++i)
    if (next < bench.num_requests()) ask(i), ++open;
  std::vector<pollfd> polled;
  for (const Connection& connection : connections)
    polled.push_back({.fd = connection.fd(), .events = POLLIN, .revents = 0});
  while (open > 0) {
    ::poll(polled.data(), polled.size(), -1);
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0 || !connections[i].read()) continue;
      turn.tokens += connections[i].completion_tokens();
      turn.first_s[asked[i]] = connections[i].first_s();
      if (next < bench.num_requests())
        ask(i);
      else
        --open;
    }
  }
  turn.seconds = seconds_since(begin);
  return turn;
}

/// In a thread that has used no time yet: clients on other machines wait for no core of this one.
template <class Work>
void as_client(const Work& work) {
  std::thread client([&] {
    ask_for_short_slices();
    work();
  });
  client.join();
}

void run_served(benchmark::State& state, Bench& bench) {
  const int streams = int(state.range(0));
  std::vector<double> ratios, later;
  bench.in_process(streams);
  for (auto _ : state) {
    const Turn alone = bench.in_process(streams);
    const auto server = bench.serve();
    Turn over_http;
    as_client([&] { over_http = served(bench, *server, streams); });
    if (alone.tokens != over_http.tokens) return state.SkipWithError("other tokens over HTTP");
    ratios.push_back(over_http.rate() / alone.rate());
    for (size_t i = 0; i < alone.first_s.size(); ++i) later.push_back(1e3 * (over_http.first_s[i] - alone.first_s[i]));
    state.SetIterationTime(over_http.seconds);
  }
  const auto [low, high] = interval_of_median(ratios);
  state.counters["ratio"] = ceilings::median(ratios);
  state.counters["low"] = low;
  state.counters["high"] = high;
  state.counters["first_ms"] = ceilings::median(later);
}

/// How long after it was asked a prompt's first token is there. The engine is idle before and after.
double first_alone_ms(const Bench& bench, Engine& engine, size_t index) {
  const auto asked = Clock::now();
  engine.submit(bench.prompt(index), bench.params());
  double first_ms = 0;
  while (!engine.idle())
    for (const Emitted& emitted : engine.step())
      if (first_ms == 0 && !emitted.token.empty()) first_ms = 1e3 * seconds_since(asked);
  return first_ms;
}
double first_served_ms(const Bench& bench, Connection& connection, size_t index) {
  connection.send(bench.request(index));
  while (!connection.read()) {
  }
  return 1e3 * connection.first_s();
}

/// Both ways prompt by prompt: a machine whose speed changes within seconds changes it for both.
void run_first(benchmark::State& state, Bench& bench) {
  std::vector<double> later;
  for (auto _ : state) {
    const auto begin = Clock::now();
    const auto engine = bench.make_engine();
    const auto server = bench.serve();
    Connection connection(*server);
    for (size_t i = 0; i < bench.num_requests(); ++i) {
      double alone_ms = 0, served_ms = 0;
      for (const bool is_served : {later.size() % 2 == 0, later.size() % 2 != 0}) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (is_served)
          as_client([&] { served_ms = first_served_ms(bench, connection, i); });
        else
          alone_ms = first_alone_ms(bench, *engine, i);
      }
      later.push_back(served_ms - alone_ms);
    }
    state.SetIterationTime(seconds_since(begin));
  }
  const auto [low, high] = interval_of_median(later);
  state.counters["first_ms"] = ceilings::median(later);
  state.counters["low"] = low;
  state.counters["high"] = high;
}

void run_health(benchmark::State& state, Bench& bench) {
  const int streams = int(state.range(0));
  const auto server = bench.serve();
  std::atomic<bool> stop{false};
  std::thread load([&] {
    std::vector<Connection> connections;
    std::vector<pollfd> polled;
    size_t next = 0;
    for (int i = 0; i < streams; ++i) {
      connections.emplace_back(*server);
      connections.back().send(bench.request(next++));
      polled.push_back({.fd = connections.back().fd(), .events = POLLIN, .revents = 0});
    }
    while (!stop) {
      ::poll(polled.data(), polled.size(), 100);
      for (size_t i = 0; i < polled.size(); ++i)
        if (polled[i].revents != 0 && connections[i].read()) connections[i].send(bench.request(next++));
    }
  });
  while (server->num_open() < streams) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Connection health(*server);
  std::vector<double> times;
  for (auto _ : state) {
    for (int i = 0; i < 1000; ++i) {
      health.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
      while (!health.read()) {
      }
      times.push_back(1e3 * health.since_sent());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    state.SetIterationTime(1);
  }
  stop = true;
  load.join();
  state.counters["p50_ms"] = ceilings::median(times);
  state.counters["p99_ms"] = quantile(times, 0.99).value_or(0.0);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  return paceline::bench_main("serve_bench", [&] {
    benchmark::Initialize(&argc, argv);
    paceline::Bench bench;
    for (const int streams : {1, 8})
      benchmark::RegisterBenchmark("Served", paceline::run_served, std::ref(bench))
          ->Arg(streams)
          ->UseManualTime()
          ->Iterations(paceline::number_setting("TURNS", 36))
          ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("First", paceline::run_first, std::ref(bench))
        ->UseManualTime()
        ->Iterations(paceline::number_setting("TURNS", 36))
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("Health", paceline::run_health, std::ref(bench))
        ->Arg(256)
        ->UseManualTime()
        ->Iterations(3);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  });
}
