#include "experiments/config/config.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/config/devices.h"
#include "experiments/config/keys/schema.h"
#include "experiments/config/server_command.h"
#include "experiments/config/server_url.h"
#include "kernels/fnv1a.h"
#include "speculative/proposer_entry.h"

namespace paceline {

namespace {

constexpr std::string_view kBuiltin = "builtin:";

std::filesystem::path model_directory(const ExperimentConfig& config, const std::string& path) {
  if (!path.starts_with(kBuiltin)) return path;
  if (config.builtin_root.empty()) return {};
  return config.builtin_root / "models" / path.substr(kBuiltin.size());
}

std::filesystem::path shape_file(const ExperimentConfig& config, const std::optional<std::string>& shape) {
  if (!shape) return {};
  return is_shape_name(*shape) ? config.builtin_root / "shapes" / (*shape + ".json") : std::filesystem::path(*shape);
}

std::string option_key(const ProposerEntry& entry, std::string_view option) {
  return fmt::format("speculation.{}.{}", entry.name, option);
}

/// Finds the contradictions of one configuration.
class ConflictFinder {
 public:
  explicit ConflictFinder(const ExperimentConfig& config) : config_(config) {}

  std::vector<ConfigConflict> find() {
    check_chart_axes();
    check_options();
    check_branching();
    check_rule();
    check_second_model();
    check_load();
    check_engine();
    check_server();
    return std::move(found_);
  }

 private:
  template <class... Args>
  void add(std::string key, std::vector<std::string> others, fmt::format_string<Args...> message, Args&&... args) {
    others.push_back(key);
    found_.push_back({std::move(key), std::move(others), fmt::format(message, std::forward<Args>(args)...)});
  }

  void check_chart_axes() {
    const auto check = [this](const char* key, const std::string& name) {
      if (find_key_or_alias(name)) return;
      add(key, {},
          "{} names \"{}\", which is no key: write one that the sweep varies, such as k, concurrency or "
          "speculation.ngram.max",
          key, name);
    };
    if (config_.report.x) check("report.x", *config_.report.x);
    for (const std::string& name : config_.report.facet) check("report.facet", name);
  }

  /// What each proposer at work says of its own options.
  void check_options() {
    const int k = speculation_.num_speculative_tokens;
    for (const auto& [entry, options] : all_) {
      const auto most = entry->most_tokens ? entry->most_tokens(*options) : std::nullopt;
      if (most && *most > k + 1)
        add(option_key(*entry, "acceptance_length"), {"speculation.num_speculative_tokens", "speculation.proposer"},
            "acceptance_length {} cannot be reached with num_speculative_tokens {}: at most {}", *most, k, k + 1);
      if (!entry->find_conflict) continue;
      const std::optional<OptionConflict> conflict = entry->find_conflict(*options);
      if (!conflict) continue;
      std::vector<std::string> involved = {"speculation.proposer"};
      for (const std::string_view option : conflict->involved) involved.push_back(option_key(*entry, option));
      add(option_key(*entry, conflict->option), involved, "{}", conflict->message);
    }
  }

  void check_branching() {
    for (const auto& [entry, options] : all_) {
      const DraftForm form = entry->form_of(*options);
      if (!form.branches()) continue;
      const std::string option = option_key(*entry, form.option);
      const auto refuse = [&, name = entry->name](const char* key, std::string_view fix) {
        add(key, {option, "speculation.proposer"}, "drafts of proposer {} branch: {}, or have chains by {}", name, fix,
            option);
      };
      if (speculation_.rule == "block") refuse("speculation.verifier.rule", "use rejection or coupled");
      if (config_.engine.scheduler.run_ahead) refuse("engine.scheduler.run_ahead", "use false");
    }
  }

  void check_rule() {
    if (config_.sampling.temperature <= 0) return;
    const std::vector<std::string> others = {"sampling.temperature", "speculation.proposer"};
    const bool knows_texts =
        std::any_of(all_.begin(), all_.end(), [](const auto& one) { return one.entry->knows_texts(); });
    if (knows_texts && speculation_.rule != "coupled")
      add("speculation.verifier.rule", others,
          "proposer {} knows the text that plain decoding gives: use the rule coupled, or sampling.temperature 0",
          speculation_.proposer);
    const bool knows_one_draw =
        knows_texts || std::ranges::any_of(all_, [](const auto& one) { return one.entry->replays; });
    if (knows_one_draw && config_.sampling.redraw && config_.measure.repetitions > 1)
      add("sampling.redraw", {"sampling.temperature", "speculation.proposer", "measure.repetitions"},
          "proposer {} knows one draw of each request, but every repetition draws anew: set sampling.redraw to false",
          speculation_.proposer);
    if (speculation_.drafts() && speculation_.rule == "greedy")
      add("speculation.verifier.rule", others,
          "the rule \"greedy\" needs sampling.temperature 0, found {}: use auto, rejection, block or coupled",
          config_.sampling.temperature);
  }

  /// The ranks of a second model are one, or those of the target.
  void check_second_model() {
    const SecondModelConfig* const model = speculation_.draft_model();
    const int target_tp = config_.engine.parallel.tp;
    if (!model || model->self || model->tp.value_or(target_tp) == target_tp || *model->tp == 1) return;
    const std::string key = speculation_.key_of_model("tp");
    add(key, {"engine.parallel.tp", speculation_.key_of_model("self"), "speculation.proposer"},
        "{} is {}, engine.parallel.tp {}: expected 1 or the target's; \"target\" follows it", key, *model->tp,
        target_tp);
  }

  /// An open loop that lacks what it needs, or cannot end in time.
  void check_load() {
    const LoadConfig& load = config_.load;
    if (load.mode == LoadMode::trace && !load.trace)
      add("load.mode", {"load.trace"}, "load.mode \"trace\" needs load.trace, a file of arrival times");
    if (load.mode != LoadMode::poisson && load.mode != LoadMode::gamma) return;
    if (!load.rate_per_s)
      return add("load.mode", {"load.rate_per_s"},
                 "load.mode \"{}\" needs load.rate_per_s, the mean number of requests a second",
                 names_of(load.mode)[size_t(load.mode)]);
    const double arrivals_s = config_.workload.requests / *load.rate_per_s;
    if (arrivals_s > config_.sweep.cell_timeout_s)
      add("load.rate_per_s", {"workload.requests", "load.mode", "sweep.cell_timeout_s"},
          "{} requests at {} a second arrive over {:.0f} s, sweep.cell_timeout_s is {}: fewer requests, a higher rate "
          "or a longer timeout",
          config_.workload.requests, *load.rate_per_s, arrivals_s, config_.sweep.cell_timeout_s);
  }

  void check_engine() {
    const EngineConfig& engine = config_.engine;
    const SchedulerConfig& scheduler = engine.scheduler;
    for (size_t i = 0; i < engine.devices.size(); ++i) {
      const auto here = engine.devices.begin() + ptrdiff_t(i);
      if (std::count(engine.devices.begin(), here + 1, *here) == 2)  // once for each device
        add("engine.devices", {}, "device {} is named twice in [{}]: a rank takes one alone, so name others", *here,
            fmt::join(engine.devices, ", "));
    }
    if (engine.numerics == Numerics::fast && !on_cuda(engine))
      add("engine.numerics", {"engine.backend"}, "the CPU backend has strict numerics only, at no cost: use strict");
    if (config_.sampling.from_model)
      add("sampling.from_model", {},
          "sampling values of the model's generation_config.json are never applied: write them under \"sampling\"");
    if (engine.kv_cache.block_size % 16 != 0)
      add("engine.kv_cache.block_size", {}, "block_size {} is no multiple of 16: use 16, 32, 48, ...",
          engine.kv_cache.block_size);
    if (scheduler.run_ahead && engine.parallel.pp > 1)
      add("engine.scheduler.run_ahead", {"engine.parallel.pp"},
          "run_ahead goes with one pipeline stage, found pp {}: the stages' micro-batches are in flight already",
          engine.parallel.pp);
    if (scheduler.run_ahead && engine.parallel.pp_microbatches.value_or(1) > 1)
      add("engine.scheduler.run_ahead", {"engine.parallel.pp_microbatches"},
          "run_ahead goes with one micro-batch, found pp_microbatches {}", *engine.parallel.pp_microbatches);
    if (scheduler.max_model_len && config_.sampling.max_tokens >= *scheduler.max_model_len)
      add("sampling.max_tokens", {"engine.scheduler.max_model_len"},
          "sampling.max_tokens {} leaves no room for a prompt in max_model_len {}", config_.sampling.max_tokens,
          *scheduler.max_model_len);
    if (scheduler.batching == BatchingMode::static_turns && scheduler.static_batch_size > scheduler.max_num_seqs)
      add("engine.scheduler.static_batch_size", {"engine.scheduler.max_num_seqs", "engine.scheduler.batching"},
          "static_batch_size {} is larger than max_num_seqs {}", scheduler.static_batch_size, scheduler.max_num_seqs);
  }

  void check_server() {
    if (!config_.is_served()) return;
    const ServerConfig& server = config_.server;
    const auto check = [&](const char* key, const auto& read) {
      try {
        read();
      } catch (const Error& error) {
        add(key, {"measure.level"}, "{}: {}", key, error.what());
      }
    };
    if (server.endpoint) check("server.endpoint", [&] { parse_server_url(*server.endpoint); });
    if (server.command) check("server.command", [&] { server_command(*server.command, {.port = 1}); });
    if (server.endpoint && server.command)
      add("server.command", {"server.endpoint", "measure.level"},
          "server.endpoint names a server that runs, server.command starts one: drop one of them");
    for (const ProposerStage& stage : speculation_.stages())
      if (!config_.is_foreign() && stage.entry->drafts() && !stage.entry->drafts_for_anyone())
        add("speculation.proposer", {"measure.level"},
            "proposer {} drafts for the requests of a run in this process alone: use measure.level \"engine\"",
            stage.entry->name);
    if (server.reset_path && !server.reset_path->starts_with('/'))
      add("server.reset_path", {"measure.level"},
          "server.reset_path is \"{}\": expected \"/reset_prefix_cache\" or null", *server.reset_path);
    if (server.compare_text && !config_.is_foreign())
      add("server.compare_text", {"server.endpoint", "server.command", "measure.level"},
          "server.compare_text is for servers that are not ours: our own is compared by tokens, so drop it");
    if (config_.measure.record_drafts)
      add("measure.record_drafts", {"measure.level"},
          "measure.record_drafts needs measure.level \"engine\": a server does not tell its drafts");
  }

  /// What drafts, and the proposer that is made of it.
  static std::vector<ProposerStage> all_proposers(const SpeculationConfig& speculation) {
    std::vector<ProposerStage> all = speculation.stages();
    if (speculation.entry().stages) all.push_back({&speculation.entry(), &speculation.chosen().options});
    return all;
  }

  const ExperimentConfig& config_;
  const SpeculationConfig& speculation_ = config_.speculation;
  const std::vector<ProposerStage> all_ = all_proposers(speculation_);
  std::vector<ConfigConflict> found_;
};

}  // namespace

std::vector<std::string_view> names_of(Numerics) { return {"strict", "fast"}; }
std::vector<std::string_view> names_of(BatchingMode) { return {"continuous", "static"}; }
std::vector<std::string_view> names_of(LoadMode) { return {"closed", "offline", "poisson", "gamma", "trace"}; }
std::vector<std::string_view> names_of(OnError) { return {"continue", "stop"}; }
std::vector<std::string_view> names_of(MeasureLevel) { return {"engine", "http"}; }

std::vector<ProposerConfig> default_proposer_configs() {
  std::vector<ProposerConfig> configs;
  for (const ProposerEntry& entry : proposer_list()) {
    ProposerConfig& config = configs.emplace_back(ProposerConfig{.options = entry.defaults, .model = {}});
    if (entry.has_second_model()) config.model.emplace().path = entry.second_model.default_path;
  }
  return configs;
}

const ProposerEntry& SpeculationConfig::entry() const { return proposer_entry(proposer); }

std::vector<ProposerStage> SpeculationConfig::stages() const {
  if (!entry().stages) return {{.entry = &entry(), .options = &chosen().options}};
  std::vector<ProposerStage> stages;
  for (const std::string_view name : entry().stages(chosen().options))
    if (const ProposerEntry* const stage = find_proposer(name); stage && stage->drafts() && !stage->stages)
      stages.push_back({.entry = stage, .options = &of(name).options});
  return stages;
}

bool SpeculationConfig::uses(const ProposerEntry& entry) const {
  if (entry.name == proposer) return true;
  const std::vector<ProposerStage> all = stages();
  return std::any_of(all.begin(), all.end(), [&](const ProposerStage& stage) { return stage.entry == &entry; });
}

const ProposerEntry* SpeculationConfig::modelled() const {
  for (const ProposerStage& stage : stages())
    if (stage.entry->has_second_model()) return stage.entry;
  return nullptr;
}

DraftForm SpeculationConfig::form() const {
  DraftForm all{.width = 1, .max_depth = -1};
  for (const ProposerStage& stage : stages()) {
    const DraftForm form = stage.entry->form_of(*stage.options);
    all.width = std::max(all.width, form.width);
    const bool is_deeper = form.max_depth == 0 || (all.max_depth != 0 && form.max_depth > all.max_depth);
    if (is_deeper) all.max_depth = form.max_depth;
  }
  return {.width = all.width, .max_depth = std::max(all.max_depth, 0)};
}

const ProposerConfig& SpeculationConfig::of(std::string_view name) const {
  return proposers.at(size_t(&proposer_entry(name) - proposer_list().data()));
}

ProposerConfig& SpeculationConfig::of(std::string_view name) {
  return proposers.at(size_t(&proposer_entry(name) - proposer_list().data()));
}

bool SpeculationConfig::drafts() const { return entry().drafts(); }

const SecondModelConfig* SpeculationConfig::second_model() const {
  const ProposerEntry* const stage = modelled();
  return stage ? &*of(stage->name).model : nullptr;
}

const SecondModelConfig* SpeculationConfig::draft_model() const {
  const ProposerEntry* const stage = modelled();
  return stage && stage->second_model.kind == SecondModelKind::draft_model ? second_model() : nullptr;
}

const SecondModelConfig* SpeculationConfig::head() const {
  const ProposerEntry* const stage = modelled();
  return stage && stage->second_model.kind == SecondModelKind::eagle3_head ? second_model() : nullptr;
}

std::string SpeculationConfig::key_of_model(std::string_view name) const { return option_key(*modelled(), name); }

const SweepAxis* SweepConfig::find_axis(std::string_view path) const {
  const auto found = std::find_if(axes.begin(), axes.end(), [&](const SweepAxis& axis) { return axis.path == path; });
  return found == axes.end() ? nullptr : &*found;
}

bool SweepConfig::is_zipped(std::string_view path) const {
  return std::any_of(zip.begin(), zip.end(), [&](const std::vector<std::string>& group) {
    return std::find(group.begin(), group.end(), path) != group.end();
  });
}

void set_key(ConfigJson& root, std::string_view path, ConfigJson value) {
  const size_t dot = path.find('.');
  ConfigJson& member = root[std::string(path.substr(0, dot))];
  if (dot == std::string_view::npos)
    member = std::move(value);
  else
    set_key(member, path.substr(dot + 1), std::move(value));
}

ConfigJson config_to_json(const ExperimentConfig& config) {
  ConfigJson root = ConfigJson::object();
  for (const KeySpec& key : config_keys())
    if (key.read) set_key(root, key.path, key.read(config));
  return root;
}

ConfigJson config_identity(const ExperimentConfig& config) {
  static const ExperimentConfig kDefaults;
  ConfigJson root = ConfigJson::object();
  for (const KeySpec& key : config_keys()) {
    if (!key.read || !key.in_identity || !key_applies(key, config)) continue;
    const ConfigJson value = key.read(config);
    if (!key.is_newer || value != key.read(kDefaults)) set_key(root, key.path, value);
    // A key that is no more: runs were recorded with it.
    if (key.path == "speculation.verifier.rule")
      root["speculation"]["forced_acceptance"]["acceptance_length"] = nullptr;
  }
  return root;
}

std::string config_hash(const ConfigJson& json) { return fnv1a64_hex(json.dump()); }

void derive_paths(ExperimentConfig& config) {
  config.engine.target.directory = model_directory(config, config.engine.target.path);
  config.engine.target.shape_file = shape_file(config, config.engine.target.inflate);
  for (ProposerConfig& proposer : config.speculation.proposers) {
    if (!proposer.model) continue;
    SecondModelConfig& model = *proposer.model;
    model.directory = model.self ? config.engine.target.directory : model_directory(config, model.path);
    model.shape_file = model.self ? config.engine.target.shape_file : shape_file(config, model.inflate);
  }
  WorkloadConfig& workload = config.workload;
  if (!workload.dataset.starts_with(kBuiltin)) {
    workload.file = workload.dataset;
  } else if (config.builtin_root.empty()) {
    workload.file.clear();
  } else {
    workload.file = config.builtin_root / "workloads" / (workload.dataset.substr(kBuiltin.size()) + ".jsonl");
  }
}

std::vector<ConfigConflict> find_conflicts(const ExperimentConfig& config) { return ConflictFinder(config).find(); }

std::optional<ConfigConflict> find_conflict(const ExperimentConfig& config) {
  const std::vector<ConfigConflict> found = find_conflicts(config);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

}  // namespace paceline
