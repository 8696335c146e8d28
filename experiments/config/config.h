#pragma once
// One experiment, resolved: plain values with defaults, filled from a file by load.h and consumed by the runner.
// Every member that a file can set is one row of the table in schema.h, which holds its range, unit and help.

#include <any>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/config/dataset_format.h"
#include "kernels/backend.h"

namespace paceline {

struct DraftForm;
struct ProposerEntry;
struct ProposerStage;

/// Keeps the order of keys, so that printed configurations read like the files.
using ConfigJson = nlohmann::ordered_json;

enum class BatchingMode : uint8_t { continuous, static_turns };
enum class LoadMode : uint8_t { closed, offline, poisson, gamma, trace };
enum class OnError : uint8_t { proceed, stop };
enum class MeasureLevel : uint8_t { engine, http };

/// Spelling in files, indexed by the enumerator's value.
std::vector<std::string_view> names_of(Numerics);
std::vector<std::string_view> names_of(BatchingMode);
std::vector<std::string_view> names_of(LoadMode);
std::vector<std::string_view> names_of(OnError);
std::vector<std::string_view> names_of(MeasureLevel);

struct TargetConfig {
  std::string path = "builtin:target-7m";   // builtin:NAME, or a folder (absolute once loaded)
  std::string dtype = "auto";               // auto | float32 | bfloat16 | float16
  std::string weights = "auto";             // storage of packed weights
  std::string load_format = "safetensors";  // safetensors | dummy (random weights, needs config.json only)
  std::optional<std::string> inflate;       // NAME of configs/shapes, or a .json file (absolute once loaded)
  std::optional<std::string> pre;           // a name of engine/text/pre_tokenizer_table.h; none: by model_type
  std::filesystem::path directory;          // derived from path: where the checkpoint lies
  std::filesystem::path shape_file;         // derived from inflate; empty: the checkpoint's own shape
};

struct ParallelConfig {
  int tp = 1;
  int pp = 1;
  std::optional<int> threads_per_rank;  // none: see auto_threads_per_rank() in sweep.h
  std::optional<int> pp_microbatches;   // none: pp
  bool pad_vocab = true;
  double timeout_s = 60;  // longest silence of a rank that others wait for
};

struct KvCacheConfig {
  int block_size = 16;  // tokens
  double memory_fraction = 0.5;
  double swap_space_gib = 0;  // host memory of each rank
  bool prefix_caching = false;
  std::string dtype = "auto";
};

struct SchedulerConfig {
  int max_num_seqs = 64;
  int max_num_batched_tokens = 2048;
  std::optional<int> max_model_len;  // none: the model's own, cut to what the KV cache holds
  BatchingMode batching = BatchingMode::continuous;
  int static_batch_size = 20;  // requests of one padded turn
  bool run_ahead = false;
};

struct EngineConfig {
  std::string backend = "auto";  // auto | cpu | cuda
  std::vector<int64_t> devices;  // of the ranks; empty: 0, 1, …
  TargetConfig target;
  ParallelConfig parallel;
  KvCacheConfig kv_cache;
  SchedulerConfig scheduler;
  Numerics numerics = Numerics::strict;
  bool cuda_graphs = true;
};

/// The model that a proposer needs beside the target.
struct SecondModelConfig {
  std::string path;
  std::optional<int> tp = 1;  // none ("target"): the target's
  std::string dtype = "auto";
  bool self = false;  // the target drafts for itself and shares its packed weights; path, tp and dtype are void
  std::optional<std::string> inflate;
  std::optional<std::string> pre;
  std::filesystem::path directory;   // derived; the target's for a self-draft
  std::filesystem::path shape_file;  // derived; the target's for a self-draft
};

/// What speculation.PROPOSER.* says.
struct ProposerConfig {
  std::any options;                        // the struct of the proposer's entry
  std::optional<SecondModelConfig> model;  // where its entry asks for one
};

/// One for each entry of proposer_list(), in its order, with its defaults.
std::vector<ProposerConfig> default_proposer_configs();

struct SpeculationConfig {
  std::string proposer = "none";   // a name of proposer_list()
  int num_speculative_tokens = 5;  // 0 in a cell whose proposer is none
  std::vector<ProposerConfig> proposers = default_proposer_configs();
  std::string rule = "auto";  // a word of rule_words()

  /// Of `proposer`, and what its keys say. Throws Error(usage) for a name that is not on the list.
  const ProposerEntry& entry() const;
  const ProposerConfig& chosen() const { return of(proposer); }
  const ProposerConfig& of(std::string_view name) const;
  ProposerConfig& of(std::string_view name);
  /// False for none.
  bool drafts() const;
  /// Of the stages together.
  DraftForm form() const;
  /// `proposer`, or where it is made of others, these: those whose drafts are verified.
  std::vector<ProposerStage> stages() const;
  /// Whether the keys of `entry` count: it is `proposer`, or a stage.
  bool uses(const ProposerEntry& entry) const;
  /// The stage with a second model; null: none has one.
  const ProposerEntry* modelled() const;
  /// Of modelled(); null where there is none.
  const SecondModelConfig* second_model() const;
  /// Of modelled(), where it is a whole model; else null.
  const SecondModelConfig* draft_model() const;
  /// Of modelled(), where it is an EAGLE-3 head; else null.
  const SecondModelConfig* head() const;
  /// "speculation.draft.path" for "path". REQUIRES: second_model().
  std::string key_of_model(std::string_view name) const;
};

struct SamplingConfig {
  double temperature = 0;
  double top_p = 1;
  int top_k = 0;
  double min_p = 0;
  int64_t seed = 1;
  bool redraw = true;  // in each repetition
  int max_tokens = 96;
  bool ignore_eos = false;
  std::vector<int64_t> stop_token_ids;
  bool from_model = false;  // take what is not written from generation_config.json
};

struct WorkloadConfig {
  std::string dataset = "builtin:reading_qa";  // builtin:NAME, or a file (absolute once loaded)
  DatasetFormat format = DatasetFormat::automatic;
  bool skip_bad = false;
  std::vector<std::string> categories;  // empty: all
  std::optional<int64_t> max_prompt_chars;
  int requests = 64;
  int64_t order_seed = 7;
  bool chat_template = true;
  std::filesystem::path file;  // derived from dataset
};

struct LoadConfig {
  LoadMode mode = LoadMode::closed;
  int concurrency = 1;               // of a closed loop
  std::optional<double> rate_per_s;  // poisson, gamma: mean arrival rate, requests/s
  double burstiness = 1;             // gamma: shape of the gaps; their coefficient of variation is 1 / sqrt(burstiness)
  int64_t arrival_seed = 1;          // poisson, gamma
  std::optional<std::string> trace;  // trace: a file (absolute once loaded)
};

struct MeasureConfig {
  int warmup_requests = 1;
  int repetitions = 7;
  bool verify_lossless = true;
  MeasureLevel level = MeasureLevel::engine;
  int64_t block_seed = 1;  // order of the cells inside each repetition
  bool record_drafts = false;
};

/// The server of a cell with measure.level http. Neither endpoint nor command: `runexp serve` of this program, with the
/// cell's own configuration.
struct ServerConfig {
  std::optional<std::string> endpoint;     // "http://host:port", of one that runs
  std::optional<std::string> command;      // that starts one; words as a shell splits them; server_command.h
  std::optional<std::string> model;        // its name in requests; none: the first that the server lists
  std::optional<std::string> api_key_env;  // name of an environment variable
  bool stream = true;
  ConfigJson request = ConfigJson::object();  // further fields of each request; null takes one away
  std::optional<std::string> reset_path = "/reset_prefix_cache";
  double start_timeout_s = 600;        // until /health answers
  double stall_timeout_s = 60;         // longest silence within an answer
  std::optional<double> compare_text;  // share of requests whose text is the plain cell's, of those that are not ours
};

/// One axis: full key path and its values, already checked against the key.
struct SweepAxis {
  std::string path;
  std::vector<ConfigJson> values;
};

struct SweepConfig {
  std::vector<SweepAxis> axes;
  std::vector<std::vector<std::string>> zip;  // groups of full paths that advance together
  std::vector<std::string> constraints;       // expressions; a cell that breaks one is listed as skipped
  std::vector<ConfigJson> include;            // objects full path -> value, and "label"
  std::vector<ConfigJson> exclude;            // objects full path -> value or list of values
  ConfigJson baseline = ConfigJson::object({{"speculation.proposer", "none"}});  // full path -> value
  OnError on_error = OnError::proceed;
  int max_failures = 5;
  double cell_timeout_s = 600;

  /// The axis over the key of this full path; null where there is none.
  const SweepAxis* find_axis(std::string_view path) const;
  /// Whether some group of `zip` names the key.
  bool is_zipped(std::string_view path) const;
};

/// What report.x says for "none".
inline constexpr const char* kAutoChartX = "auto";

struct ReportConfig {
  std::optional<double> slo_ttft_ms;
  std::optional<double> slo_tpot_ms;
  double slo_attainment = 0.9;
  std::optional<std::string> x;  // none: the number of speculation.* with the most values
  std::vector<std::string> facet = {"tp", "pp"};
};

struct ExperimentConfig {
  std::string name;
  EngineConfig engine;
  SpeculationConfig speculation;
  SamplingConfig sampling;
  WorkloadConfig workload;
  LoadConfig load;
  MeasureConfig measure;
  ServerConfig server;
  SweepConfig sweep;
  ReportConfig report;
  std::filesystem::path builtin_root;  // derived: the configs/ folder behind builtin: names; empty when none was found

  /// Measured over HTTP.
  bool is_served() const { return measure.level == MeasureLevel::http; }
  /// By a server that is not ours: engine, speculation and model say what it is, and load nothing.
  bool is_foreign() const { return is_served() && (server.endpoint || server.command); }
};

/// Sets a key in nested JSON: engine.parallel.tp is "tp" in "parallel" in "engine".
void set_key(ConfigJson& root, std::string_view path, ConfigJson value);

/// The whole configuration as nested JSON in the order of the schema. Loading it again gives the same configuration.
ConfigJson config_to_json(const ExperimentConfig& config);

/// What decides the numbers of one cell: the configuration without name, sweep and report, and without keys that are
/// void in it (k for proposer none, options of other proposers, ...). Two cells with equal identities are the same
/// cell.
ConfigJson config_identity(const ExperimentConfig& config);

/// 16 hex digits: FNV-1a (64 bit) of the JSON printed without blanks. Stable across machines, builds and runs.
std::string config_hash(const ConfigJson& json);

/// Fills the derived members (folders and files behind builtin: names) after `path` or `dataset` changed.
void derive_paths(ExperimentConfig& config);

/// Settings that contradict each other. `key` is the path to change; `involved` are all paths of the contradiction.
struct ConfigConflict {
  std::string key;
  std::vector<std::string> involved;
  std::string message;
};
/// All of them; what a value says by itself was checked when it was read.
std::vector<ConfigConflict> find_conflicts(const ExperimentConfig& config);
/// The first, for those that need one reason.
std::optional<ConfigConflict> find_conflict(const ExperimentConfig& config);

}  // namespace paceline
