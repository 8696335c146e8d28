#include "experiments/run/host/served_host.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "engine/util/clock.h"
#include "engine/util/json_io.h"
#include "experiments/client/http_call.h"
#include "experiments/config/devices.h"
#include "experiments/config/keys/schema.h"
#include "experiments/config/server_command.h"
#include "experiments/results/files/files.h"
#include "experiments/run/host/engine_host.h"
#include "kernels/cpu/cores.h"
#include "speculative/verify_rule.h"

namespace paceline {
namespace {

constexpr double kCallTimeout_s = 30;

/// Our own server takes its key from PACELINE_API_KEY where that is set, and so do we.
std::string api_key_of(const ExperimentConfig& config) {
  const ServerConfig& server = config.server;
  if (!server.api_key_env) {
    const char* const key = config.is_foreign() ? nullptr : std::getenv("PACELINE_API_KEY");
    return key ? key : "";
  }
  const char* const key = std::getenv(server.api_key_env->c_str());
  if (!key || *key == '\0')
    fail(ExitCode::usage, "server.api_key_env: the environment variable {} is not set; export it with the server's key",
         json_literal(*server.api_key_env));
  const std::string_view text = key;
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (!is_plain)
    fail(ExitCode::usage, "server.api_key_env: the value of {} holds a blank or a character beyond ASCII",
         json_literal(*server.api_key_env));
  return key;
}

/// The first model that the server lists.
std::string first_model(const ServerUrl& url, const std::string& api_key) {
  const HttpCallResult answer = http_call(url, "GET", "/v1/models", kCallTimeout_s, api_key);
  if (answer.is_ok()) {
    const nlohmann::json json = nlohmann::json::parse(answer.body, nullptr, false);
    const auto data = json.is_object() ? json.find("data") : json.end();
    if (json.is_object() && data != json.end() && data->is_array() && !data->empty() && data->front().is_object()) {
      if (std::string id = text_of(data->front(), "id"); !id.empty()) return id;
    }
  }
  fail(ExitCode::device, "{}/v1/models {}, and names no model: write it as server.model_name", url.text(),
       result_text(answer));
}

std::string version_of(const ServerUrl& url, const std::string& api_key) {
  const HttpCallResult answer = http_call(url, "GET", "/version", kCallTimeout_s, api_key);
  const nlohmann::json json = answer.is_ok() ? nlohmann::json::parse(answer.body, nullptr, false) : nlohmann::json();
  return json.is_object() ? text_of(json, "version") : "";
}

ServerCommandValues command_values(const ExperimentConfig& config, int port) {
  const SpeculationConfig& speculation = config.speculation;
  return {.port = port,
          .proposer = speculation.proposer,
          .num_speculative_tokens = speculation.drafts() ? speculation.num_speculative_tokens : 0};
}

bool turns_prefixes_off(const ExperimentConfig& config) {
  const auto cache = config.server.request.find("cache_prompt");  // llama.cpp's
  if (cache != config.server.request.end() && *cache == ConfigJson(false)) return true;
  return !config.is_foreign() && !config.engine.kv_cache.prefix_caching;
}

}  // namespace

ConfigJson served_config(const ExperimentConfig& cell, int auto_threads_per_rank) {
  ExperimentConfig config = cell;
  if (!config.engine.parallel.threads_per_rank) config.engine.parallel.threads_per_rank = auto_threads_per_rank;
  ConfigJson out = ConfigJson::object();
  for (const KeySpec& key : config_keys()) {
    const bool is_wanted =
        is_below(key.path, "engine") || is_below(key.path, "speculation") || is_below(key.path, "sampling");
    if (is_wanted && key.read && key_applies(key, config)) set_key(out, key.path, key.read(config));
  }
  return out;
}

ServedHost::ServedHost(SweepUnderWay& sweep, std::vector<size_t> planned)
    : sweep_(sweep), planned_(std::move(planned)) {}

std::vector<std::string> ServedHost::own_command(const Cell& cell) {
  const std::filesystem::path file = sweep_.folder->path() / "servers" / (cell.load_key + ".json");
  std::filesystem::create_directories(file.parent_path());
  write_file_atomic(file, served_config(cell.config, sweep_.run.info.auto_threads_per_rank).dump(2) + "\n");
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "serve", file.string(), "--port", "0"};
}

ServedHost::Server ServedHost::start(const Cell& cell) {
  const ServerConfig& config = cell.config.server;
  const std::string api_key = api_key_of(cell.config);
  const StopNow stop_now = [this] { return sweep_.stop_now(); };
  Server server;
  const auto begin = Clock::now();
  const std::filesystem::path log = sweep_.folder->path() / "servers" / (cell.load_key + ".log");
  if (config.endpoint) {
    server.url = parse_server_url(*config.endpoint);
  } else {
    std::filesystem::create_directories(log.parent_path());
    const int port = config.command ? free_port() : 0;
    server.process = std::make_unique<ServerProcess>(
        config.command ? server_command(*config.command, command_values(cell.config, port)) : own_command(cell), log);
    server.url = config.command ? ServerUrl{.host = "127.0.0.1", .port = port}
                                : server.process->await_address(config.start_timeout_s, stop_now);
    server.process->await_health(server.url, config.start_timeout_s, stop_now);
  }
  const HttpCallResult health = http_call(server.url, "GET", "/health", kCallTimeout_s, api_key);
  if (health.failure) fail(ExitCode::device, "{}/health: {}", server.url.text(), result_text(health));
  server.name = health.server;
  server.version = version_of(server.url, api_key);
  server.model = config.model ? *config.model : first_model(server.url, api_key);
  server.start_s = seconds_between(begin, Clock::now());
  ready_s_ += server.process ? server.start_s : 0;
  sweep_.log->line("server", fmt::format("{} {} {}, model {}, ready in {:.3f} s{}", server.url.text(), server.name,
                                         server.version, json_literal(server.model), server.start_s,
                                         server.process ? "; all it says: " + log.string() : ""));
  return server;
}

ServedHost::Server& ServedHost::turn_of(size_t index) {
  const Cell& cell = sweep_.cells[index];
  for (auto& [key, server] : servers_)
    if (server.process && key != cell.load_key) server.process->pause();
  auto found = servers_.find(cell.load_key);
  if (found != servers_.end() && found->second.process) {
    if (const auto end = found->second.process->how_it_ended())
      fail(ExitCode::device, "the server has ended: {}", *end);
    found->second.process->go_on();
  }
  if (found == servers_.end()) found = servers_.emplace(cell.load_key, start(cell)).first;
  return found->second;
}

ServedPass ServedHost::pass_for(const Cell& cell, const Server& server) {
  ServedPass pass{.url = server.url,
                  .model = server.model,
                  .api_key = api_key_of(cell.config),
                  .stop_now = [this] { return sweep_.stop_now(); },
                  .on_failure = [this](const std::string& line) { sweep_.log->line("request", line); }};
  if (server.process) pass.server_cpu_s = [process = server.process.get()] { return process->cpu_seconds(); };
  return pass;
}

std::string ServedHost::forget_prefixes(const ExperimentConfig& config, const Server& server) {
  if (turns_prefixes_off(config)) return "off";
  if (!config.server.reset_path) return "server.reset_path is null, so nothing was reset";
  const HttpCallResult answer =
      http_call(server.url, "POST", *config.server.reset_path, kCallTimeout_s, api_key_of(config));
  return answer.is_ok() ? "reset" : fmt::format("{} {}", *config.server.reset_path, result_text(answer));
}

void ServedHost::warm_up(size_t index, const Visit&) {
  const Cell& cell = sweep_.cells[index];
  const ExperimentConfig& config = cell.config;
  CellResult& result = sweep_.run.cells[index];
  const Server& server = turn_of(index);
  const auto begin = Clock::now();
  const size_t count = std::min(sweep_.prompts.size(), size_t(std::max(0, config.measure.warmup_requests)));
  ExperimentConfig at_once = config;  // without arrivals an open loop warms up with all of these at once
  if (config.load.mode != LoadMode::closed) at_once.load.mode = LoadMode::offline;
  served_repetition(at_once, std::span(sweep_.prompts).first(count), pass_for(cell, server), "");
  ready_s_ += seconds_between(begin, Clock::now());
  result.effective = {{"level", "http"},
                      {"server", server.name},
                      {"server_version", server.version},
                      {"model", server.model},
                      {"delivery", config.server.stream ? "streamed" : "whole"}};
  result.load_s = server.start_s;
  if (config.is_foreign()) {
    result.effective["endpoint"] = config.server.endpoint ? server.url.text() : *config.server.command;
    return;
  }
  // What it was started with: it runs this program.
  const EngineConfig& engine = config.engine;
  const int threads = engine.parallel.threads_per_rank.value_or(sweep_.run.info.auto_threads_per_rank);
  result.effective["backend"] = on_cuda(engine) ? "cuda" : "cpu";
  result.effective["devices"] = rank_devices(engine);
  result.effective["tp"] = engine.parallel.tp;
  result.effective["pp"] = engine.parallel.pp;
  result.effective["threads_per_rank"] = threads;
  result.effective["numerics"] = names_of(engine.numerics)[size_t(engine.numerics)];
  result.effective["proposer"] = config.speculation.proposer;
  result.effective["num_speculative_tokens"] =
      config.speculation.drafts() ? config.speculation.num_speculative_tokens : 0;
  result.effective["rule"] = rule_word(verify_rule(config, /*takes_any_sampling=*/false));
  result.effective["prefix_caching"] = engine.kv_cache.prefix_caching;
  result.oversubscribed =
      !on_cuda(engine) && int64_t{threads} * engine.parallel.tp * engine.parallel.pp > usable_cores();
}

RepetitionResult ServedHost::run(size_t index, int repetition) {
  const Cell& cell = sweep_.cells[index];
  const Server& server = turn_of(index);
  ServedPass pass = pass_for(cell, server);
  pass.repetition = repetition;
  pass.arrivals = sweep_.arrivals.arrivals(cell.config.load, int64_t(sweep_.prompts.size()), repetition);
  pass.on_progress = [this](const ProgressUpdate& now) { sweep_.progress.update(now); };
  const std::string prefix_cache = forget_prefixes(cell.config, server);
  return served_repetition(cell.config, sweep_.prompts, pass, prefix_cache);
}

/// A server that failed a request is started anew for the cells that share it.
Damage ServedHost::damage_of(size_t index, ExitCode code) {
  if (code != ExitCode::usage) servers_.erase(sweep_.cells[index].load_key);
  return Damage::none;
}

void ServedHost::check_flips(size_t index) {
  fail(ExitCode::internal, "{}: a server gives no logits", sweep_.run.cells[index].id);
}

std::shared_ptr<const Tokenizer> ServedHost::tokenizer() {
  const ExperimentConfig& config = sweep_.cells[planned_.front()].config;
  if (!tokenizer_ && !config.is_foreign()) tokenizer_ = load_tokenizer(config.engine.target);
  return tokenizer_;
}

std::unique_ptr<CellHost> make_host(SweepUnderWay& sweep, const std::vector<size_t>& planned) {
  if (sweep.cells[planned.front()].config.is_served()) return std::make_unique<ServedHost>(sweep, planned);
  return std::make_unique<EngineHost>(sweep, planned);
}

}  // namespace paceline
