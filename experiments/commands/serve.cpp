// runexp serve: one cell behind OpenAI's HTTP API

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <spdlog/spdlog.h>

#include "engine/serve/openai_server.h"
#include "engine/util/counted.h"
#include "engine/util/printable.h"
#include "engine/util/suggest.h"
#include "engine/util/user_file.h"
#include "experiments/commands/builtin_names.h"
#include "experiments/commands/command_line.h"
#include "experiments/commands/commands.h"
#include "experiments/config/keys/schema.h"
#include "experiments/config/vllm_flags.h"
#include "experiments/results/build_info.h"
#include "experiments/run/engine_load.h"
#include "experiments/run/plan/sweep.h"
#include "kernels/cpu/cores.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

constexpr const char* kKeyVariable = "PACELINE_API_KEY";
constexpr const char* kSeedKey = "sampling.seed";

struct ServeCommand {
  std::vector<std::string> words;  // the model or the experiment, and vLLM's flags
  ConfigOverrides overrides;
  std::optional<std::string> cell;  // of an experiment, as find_cell() takes it
  std::string host = "127.0.0.1";
  int port = 8000;
  std::vector<std::string> names;       // --served-model-name
  std::optional<std::string> key_file;  // --api-key-file
  std::string speculation = "summary";  // SpeculationReport
  std::vector<std::string> options;     // all names of ours: "--host"
  bool insecure = false;
  bool print_limits = false;
};

/// What is served, and the name that the user gave it.
struct ServedCell {
  ExperimentConfig config;
  std::string name;
  std::optional<uint64_t> seed;  // of requests without one of their own
};

bool is_experiment_file(const std::string& word) {
  const std::string suffix = std::filesystem::path(word).extension().string();
  return suffix == ".json" || suffix == ".jsonc" || suffix == ".yaml" || suffix == ".yml";
}

/// Each value of a nested object as `--set` takes it.
void add_settings(const ConfigJson& object, const std::string& path, std::vector<std::string>& set) {
  for (const auto& [key, value] : object.items()) {
    const std::string full = path.empty() ? key : path + "." + key;
    if (value.is_object())
      add_settings(value, full, set);
    else
      set.push_back(fmt::format("{}={}", full, value.dump()));
  }
}

/// What a request says itself is refused; beside a model also what an experiment says: a server would not look at it.
void check_reaches_server(const std::string& setting, bool is_experiment) {
  const KeySpec* const key = key_of_setting(setting);
  if (!key) return;  // load_config() says so
  const std::string section = key->path.substr(0, key->path.find('.'));
  if (section == "engine" || section == "speculation" || key->path == kSeedKey) return;
  if (is_experiment && section != "sampling") return;
  fail(ExitCode::usage, "serve: --set {}: {}; expected a key of engine or speculation, or {}", user_text(key->path),
       section == "sampling" ? "each request says that itself" : "a server does not look at it", kSeedKey);
}

/// Of requests without one of their own, where the user sets it.
std::optional<uint64_t> seed_of(const std::vector<std::string>& settings, const ExperimentConfig& config) {
  const bool is_set = std::any_of(settings.begin(), settings.end(), [](const std::string& setting) {
    const KeySpec* const key = key_of_setting(setting);
    return key && key->path == kSeedKey;
  });
  return is_set ? std::optional(uint64_t(config.sampling.seed)) : std::nullopt;
}

/// name: as the user wrote it.
void check_model_is_there(const ExperimentConfig& config, const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::exists(config.engine.target.directory, ignored)) return;
  fail(
      ExitCode::model_file,
      "serve: there is no model \"{}\"{}: nothing is downloaded; expected builtin:NAME, a folder with config.json and "
      "*.safetensors, a .gguf file, the name of a folder in $PACELINE_MODELS (`runexp models` lists what is there), or "
      "an experiment file",
      user_text(name), did_you_mean_model(config, name));
}

/// Of drafts and heads that flags name: load_config() would call them values of --set.
void check_second_model_names(const ConfigJson& imported) {
  const auto speculation = imported.find("speculation");
  if (speculation == imported.end()) return;
  for (const ConfigJson& proposer : *speculation)
    if (proposer.is_object() && proposer.contains("path"))
      check_model_name(default_config(), "serve: the model that drafts", proposer["path"].get<std::string>());
}

/// `words`: the model and vLLM's flags.
ServedCell cell_of_flags(const ServeCommand& command) {
  const bool names_model = !command.words.empty() && !command.words.front().starts_with("-");
  for (const std::string& word : command.words)
    if (names_model && (word == "--model" || word.starts_with("--model=")))
      fail(ExitCode::usage, "serve: --model: the model is {} already; expected one model",
           user_text(command.words.front()));
  const char* const of_experiments = command.cell                         ? "--cell"
                                     : !command.overrides.profile.empty() ? "--profile"
                                                                          : nullptr;
  if (of_experiments)
    fail(ExitCode::usage, "serve: {}: goes with an experiment file, which is not named", of_experiments);
  if (names_model) check_model_name(default_config(), "serve", command.words.front());
  std::vector<std::string> words{"vllm", "serve"};
  words.insert(words.end(), command.words.begin(), command.words.end());
  const ImportedFlags imported = import_vllm_flags(words);
  for (const auto& [flag, hint] : imported.unsupported) {
    const std::string name = flag.substr(0, flag.find(' '));
    if (name == "--api-key")
      fail(ExitCode::usage, "--api-key: others can read a command line; expected the key in {} or --api-key-file FILE",
           kKeyVariable);
    const std::vector<std::string> methods = vllm_flag_methods();
    if (name == "method")
      fail(ExitCode::usage, "serve: {}: not supported{}; expected one of {}, or --set speculation.proposer",
           user_text(flag), hint, fmt::join(methods, ", "));
    const std::vector<std::string> known = vllm_flag_names();
    const bool is_value = std::find(known.begin(), known.end(), name) != known.end();
    const std::string own = is_value || name.find('.') != std::string::npos ? "" : did_you_mean(name, command.options);
    fail(ExitCode::usage, "serve: {}: {}{}; see runexp serve --help", user_text(flag),
         is_value ? "this value is not supported" : "not supported", hint.empty() ? own : hint);
  }
  check_second_model_names(imported.config);
  ConfigOverrides overrides = command.overrides;
  overrides.set = {"sampling.max_tokens=1"};  // requests say that themselves: it fits any context
  add_settings(imported.config, "", overrides.set);
  for (const std::string& setting : command.overrides.set) {
    check_reaches_server(setting, false);
    overrides.set.push_back(setting);
  }
  const ExperimentConfig config = default_config(overrides);
  const std::string name = names_model ? command.words.front() : config.engine.target.path;
  check_model_is_there(config, name);
  for (const std::string& note : imported.notes) spdlog::info("{}", note);
  return {config, name, seed_of(overrides.set, config)};
}

ServedCell cell_of_experiment(const ServeCommand& command) {
  const std::string& file = command.words.front();
  if (command.words.size() > 1)
    fail(ExitCode::usage, "serve: {}: a server's flags go with a model; change an experiment with --set KEY=VALUE",
         user_text(command.words[1]));
  for (const std::string& setting : command.overrides.set) check_reaches_server(setting, true);
  ConfigOverrides overrides = command.overrides;
  overrides.takes_one_cell = true;
  const LoadedConfig loaded = load_config(file, overrides);
  const std::vector<Cell> cells = expand(loaded, machine_context(loaded.config.engine));
  if (!command.cell && cells.size() != 1)
    fail(ExitCode::usage, "serve: {} has {}; choose one with --cell CELL (runexp config expand {} lists them)", file,
         counted(cells.size(), "cell"), file);
  std::vector<CellName> names;
  for (const Cell& cell : cells) names.push_back({cell.id, cell.config_hash});
  const Cell& cell = cells[command.cell ? find_cell(names, *command.cell, "serve: " + file) : 0];
  if (cell.skip_reason) fail(ExitCode::usage, "serve: {}: {}", cell.id, *cell.skip_reason);
  ServedCell served{cell.config, cell.config.engine.target.path, seed_of(command.overrides.set, cell.config)};
  // of an experiment that samples nothing; its server's requests may, and those that do not are judged alike
  if (served.config.speculation.rule == "greedy") served.config.speculation.rule = "auto";
  return served;
}

/// The key that clients must send; empty: none. Not from the command line, which other users can read.
std::string api_key(const ServeCommand& command) {
  std::string key;
  if (command.key_file) {
    constexpr size_t kMostBytes = 4096;
    key = read_user_file(*command.key_file, {.max_bytes = kMostBytes, .takes_pipes = true});
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
    if (key.empty()) fail(ExitCode::usage, "--api-key-file {}: the file is empty; expected a key", *command.key_file);
  } else if (const char* const variable = std::getenv(kKeyVariable)) {
    key = variable;
  }
  if (key.find_first_of(" \t\r\n") != std::string::npos)
    fail(ExitCode::usage, "{}: the key holds blanks; expected one word",
         command.key_file ? "--api-key-file" : kKeyVariable);
  return key;
}

void print_limits() {
  const ServeLimits limits;
  fmt::print("{:<20} {:>10} {:<10} beyond it\n", "limit", "value", "unit");
  for (const LimitRow& row : kLimitRows)
    fmt::print("{:<20} {:>10} {:<10} {}\n", row.name, limits.*row.value, row.unit, row.beyond);
}

std::optional<ChatTemplate> chat_template_of(const std::filesystem::path& model) {
  if (!ChatTemplate::exists(model)) return std::nullopt;
  return ChatTemplate::load(model);
}

/// What only requests of an experiment can have is refused.
void check_served(const SpeculationConfig& speculation) {
  if (!speculation.drafts()) return;
  if (speculation.rule == "greedy")
    fail(
        ExitCode::usage,
        "speculation.verifier.rule: found \"greedy\", which samples nothing; requests bring temperatures of their own: "
        "use auto, rejection, block or coupled (a request of temperature 0 is greedy under each)");
  for (const ProposerStage& stage : speculation.stages())
    if (!stage.entry->drafts_for_anyone())
      fail(ExitCode::usage, "speculation.proposer: {} drafts for the requests of an experiment alone; expected {}",
           stage.entry->name, proposer_names_text(ProposerNames::for_anyone));
}

int threads_per_rank(const ParallelConfig& parallel) {
  return parallel.threads_per_rank.value_or(std::max(1, usable_cores() / (parallel.tp * parallel.pp)));
}

void warn_of_too_many_threads(const EngineConfig& engine) {
  const int threads = engine.parallel.tp * engine.parallel.pp * threads_per_rank(engine.parallel);
  if (!on_cuda(engine) && threads > usable_cores())
    spdlog::warn("oversubscribed: {} threads of {} ranks on {} cores wait for each other", threads,
                 engine.parallel.tp * engine.parallel.pp, usable_cores());
}

/// Makes the load and its engine; the pointer owns both.
EngineLoop::MakeEngine engine_maker(const ExperimentConfig& config) {
  return [config] {
    struct Served {
      ExperimentConfig config;
      EngineLoad load;
      std::unique_ptr<Engine> engine;
      Served(const ExperimentConfig& of, const LoadLimits& limits) : config(of), load(config, limits) {}
    };
    const auto served = std::make_shared<Served>(
        config, LoadLimits{.threads_per_rank = threads_per_rank(config.engine.parallel),
                           .max_draft_len = config.speculation.drafts() ? config.speculation.num_speculative_tokens : 0,
                           .takes_any_sampling = true});
    served->engine = served->load.make_engine(served->config);
    return std::shared_ptr<Engine>(served, served->engine.get());
  };
}

/// "tp2 pp1, ngram with 5 draft tokens"
std::string setup_text(const ExperimentConfig& config) {
  const ParallelConfig& parallel = config.engine.parallel;
  const SpeculationConfig& speculation = config.speculation;
  return fmt::format("tp{} pp{}, {}", parallel.tp, parallel.pp,
                     speculation.drafts() ? fmt::format("{} with {}", speculation.proposer,
                                                        counted(speculation.num_speculative_tokens, "draft token"))
                                          : "no speculation");
}

/// Until the user asks it to stop or the engine fails.
ExitCode serve_until_stopped(OpenAiServer& server, const ServeLimits& limits) {
  using namespace std::chrono_literals;
  std::optional<Clock::time_point> end;  // of draining
  const auto begin_to_drain = [&](double seconds) {
    server.drain();
    end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  constexpr double kSecondsForLastWords = 2;  // to clients of an engine that failed, or past the drain's end
  bool was_ended = false;
  while (true) {
    std::this_thread::sleep_for(20ms);
    const std::optional<Error> failure = server.failure();
    if (num_interrupts() > 1) {  // at once, whatever a step waits for
      std::fflush(nullptr);
      std::_Exit(int(interrupt_exit_code()));
    }
    if (!end && failure) begin_to_drain(kSecondsForLastWords);
    if (!end && num_interrupts() == 1) {
      begin_to_drain(double(limits.drain_timeout_s));
      spdlog::info("stopping: {} open; again to stop now", counted(server.num_open(), "request"));
    }
    if (!end) continue;
    const bool is_over = Clock::now() >= *end;
    if ((server.num_open() == 0 && server.num_connections() == 0) || (is_over && was_ended)) {
      if (failure) throw *failure;
      return ExitCode::ok;
    }
    if (!is_over) continue;
    server.end_open("the server is stopping");
    was_ended = true;
    begin_to_drain(kSecondsForLastWords);
  }
}

ExitCode serve_command(const ServeCommand& command) {
  if (std::find(command.names.begin(), command.names.end(), "") != command.names.end())
    fail(ExitCode::usage, "--served-model-name: found nothing, expected names for clients");
  if (command.print_limits) {
    print_limits();
    return ExitCode::ok;
  }
  if (command.words.empty())
    fail(ExitCode::usage, "serve: name a model or an experiment file{}; see runexp serve --help",
         command.names.size() > 1 ? " before --served-model-name, which takes all words behind it" : "");
  const std::string key = api_key(command);
  const bool loopback = is_loopback(command.host);
  if (!loopback && key.empty() && !command.insecure)
    fail(ExitCode::usage,
         "--host {}: others can reach it and there is no key; set {} or --api-key-file FILE, or say --insecure",
         command.host, kKeyVariable);
  ServedCell served = is_experiment_file(command.words.front()) ? cell_of_experiment(command) : cell_of_flags(command);
  ExperimentConfig& config = served.config;
  derive_paths(config);
  check_served(config.speculation);
  const std::filesystem::path whole = std::filesystem::absolute(config.engine.target.directory).lexically_normal();
  const std::string folder = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  ServedModel model{.names = command.names,
                    .tokenizer = load_tokenizer(config.engine.target),
                    .chat_template = chat_template_of(config.engine.target.directory)};
  if (model.names.empty()) model.names = {folder};
  if (command.names.empty() && served.name != folder) model.names.push_back(served.name);
  const OpenAiServerOptions options{.http = {.host = command.host, .port = command.port},
                                    .access = {.api_key = key, .loopback = loopback},
                                    .speculation = command.speculation == "off"       ? SpeculationReport::off
                                                   : command.speculation == "summary" ? SpeculationReport::summary
                                                                                      : SpeculationReport::detailed,
                                    .seed = served.seed,
                                    .version = kProgramVersion};
  install_interrupt_handler();
  OpenAiServer server(options, model, engine_maker(config));
  warn_of_too_many_threads(config.engine);
  fmt::print("http://{}\n", server.address());
  std::fflush(stdout);
  spdlog::info("serving {} at http://{}/v1{}: {}", model.names.front(), server.address(),
               key.empty() ? "" : ", with a key", setup_text(config));
  return serve_until_stopped(server, options.http.limits);
}

/// "FLAGS: …" in lines for a terminal.
std::string flags_text() {
  constexpr size_t kColumns = 110;
  std::string text, line = "FLAGS, as in vLLM and SGLang:";
  for (const std::string& name : vllm_flag_names()) {
    if (line.size() + name.size() > kColumns) {
      text += line + "\n";
      line = " ";
    }
    line += " " + name;
  }
  return text + line + "\n";
}

}  // namespace

void add_serve_command(const Command& program) {
  const auto serve = std::make_shared<ServeCommand>();
  const Command command = program.below("serve", "serve one model over OpenAI's HTTP API");
  command.others(&serve->words, "MODEL|EXPERIMENT [FLAGS...]")
      .option("--host", &serve->host, "address to listen on", {.shown = true})
      .option("--port", &serve->port, "0: any that is free", {.shown = true, .least = 0, .most = 65535})
      .option("--served-model-name", &serve->names, "the model's names for clients (default: its folder's)",
              {.type = "NAME"})
      .option("--api-key-file", &serve->key_file,
              fmt::format("clients must send the key in this file (or in {})", kKeyVariable), {.type = "FILE"})
      .option("--insecure", &serve->insecure, "listen on addresses other than loopback without a key")
      .option("--per-request-spec-decode-metrics", &serve->speculation, "acceptance in each answer",
              {.shown = true, .words = {"off", "summary", "detailed"}})
      .option("--cell", &serve->cell, std::string(kCellHelp) + "; needed if there are several", {.type = "CELL"})
      .option("--set", &serve->overrides.set, "override one value, e.g. --set speculation.ngram.max=5",
              {.repeated = true, .type = "KEY=VALUE"})
      .option("--profile", &serve->overrides.profile, "apply profiles.NAME of the experiment file", {.type = "NAME"})
      .option("--print-limits", &serve->print_limits, "print every limit of the server, and what happens beyond it")
      .footer(
          "MODEL: builtin:NAME, a folder or a .gguf file. EXPERIMENT: a configuration file, which takes no FLAGS.\n" +
          flags_text() +
          "One Ctrl-C lets open requests end; a second stops at once.\n\n"
          "Examples:\n"
          "  runexp serve builtin:target-7m --port 8000\n"
          "  runexp serve builtin:target-7m --tensor-parallel-size 2 --speculative-config '{\"method\": \"ngram\", "
          "\"num_speculative_tokens\": 5}'\n"
          "  runexp serve configs/ngram_tp2.json --cell tp2_pp1_ngram_k5_c1");
  for (const OptionFacts& option : command.options())
    serve->options.insert(serve->options.end(), option.names.begin(), option.names.end());
  command.calls([serve] { return serve_command(*serve); });
}

}  // namespace paceline
