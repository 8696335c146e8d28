// The table of keys. One row a key: path, member, limits, help.

#include <limits>
#include <type_traits>

#include "engine/text/pre_tokenizer_table.h"
#include "experiments/config/keys/schema.h"
#include "speculative/proposer_entry.h"
#include "speculative/verify_rule.h"

namespace paceline {

namespace {

template <class T>
struct Optional : std::false_type {
  using Value = T;
};
template <class T>
struct Optional<std::optional<T>> : std::true_type {
  using Value = T;
};

struct Limits {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
  bool above_min = false;
  std::string unit = {};
  std::vector<std::pair<std::string, std::string>> choices = {};
  std::string absent = {};
  bool is_newer = false;
  std::string hint = {};
  KeyScope scope = KeyScope::always;
  std::optional<KeyEffect> effect = {};  // else that of its section
  bool is_path = false;
  bool is_shape = false;
};

KeyEffect effect_of_section(std::string_view path) {
  for (const std::string_view section : {"engine.target.", "sampling.", "workload."})
    if (path.starts_with(section)) return KeyEffect::text;
  for (const std::string_view section : {"measure.", "sweep.", "report."})
    if (path.starts_with(section)) return KeyEffect::times;
  return KeyEffect::steps;
}

template <class Value>
KeyType type_of() {
  if constexpr (std::is_same_v<Value, bool>)
    return KeyType::boolean;
  else if constexpr (std::is_integral_v<Value>)
    return KeyType::integer;
  else if constexpr (std::is_floating_point_v<Value>)
    return KeyType::number;
  else if constexpr (std::is_enum_v<Value>)
    return KeyType::choice;
  else if constexpr (std::is_same_v<Value, std::vector<int64_t>>)
    return KeyType::integer_list;
  else if constexpr (std::is_same_v<Value, std::vector<std::string>>)
    return KeyType::text_list;
  else
    return KeyType::text;
}

template <class Value>
Value from_json(const ConfigJson& json) {
  if constexpr (std::is_enum_v<Value>) {
    const std::vector<std::string_view> names = names_of(Value{});
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == json.get_ref<const std::string&>()) return static_cast<Value>(i);
    }
    PACELINE_CHECK(false, "no enumerator is called {}", json.dump());
  } else {
    return json.get<Value>();
  }
}

template <class Value>
ConfigJson to_json_value(const Value& value) {
  if constexpr (std::is_enum_v<Value>)
    return std::string(names_of(Value{})[static_cast<size_t>(value)]);
  else
    return value;
}

/// A row for the member that `member(config)` refers to; the member's type gives the key's type.
template <class Member>
KeySpec key(std::string path, Member member, Limits limits, std::string help) {
  using Field = std::remove_cvref_t<decltype(member(std::declval<ExperimentConfig&>()))>;
  using Value = typename Optional<Field>::Value;
  constexpr bool kOptional = Optional<Field>::value;
  KeySpec row;
  row.type = type_of<Value>();
  if constexpr (std::is_enum_v<Value>) {
    for (std::string_view name : names_of(Value{})) row.choices.emplace_back(name, name);
  }
  if (!limits.choices.empty()) {
    row.choices = std::move(limits.choices);
    row.type = KeyType::choice;
  }
  if (limits.is_path) row.type = KeyType::path;
  if (limits.is_shape) row.type = KeyType::shape;
  row.min = limits.min;
  row.max = limits.max;
  if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) {
    row.min = std::max(row.min, static_cast<double>(std::numeric_limits<Value>::min()));
    row.max = std::min(row.max, static_cast<double>(std::numeric_limits<Value>::max()));
  }
  row.above_min = limits.above_min;
  row.unit = std::move(limits.unit);
  row.absent = kOptional && limits.absent.empty() ? "null" : std::move(limits.absent);
  row.is_newer = limits.is_newer;
  row.hint = std::move(limits.hint);
  row.scope = limits.scope;
  row.help = std::move(help);
  row.reload = path.starts_with("engine.") || path == "workload.chat_template";  // a load has its prompts encoded
  row.in_identity = !path.starts_with("sweep.") && !path.starts_with("report.");
  row.effect = limits.effect.value_or(effect_of_section(path));
  row.path = std::move(path);
  row.assign = [member, absent = row.absent](ExperimentConfig& config, const ConfigJson& json) {
    if constexpr (kOptional) {
      if (json.is_null() || (json.is_string() && json.get_ref<const std::string&>() == absent)) {
        member(config).reset();
        return;
      }
    }
    member(config) = from_json<Value>(json);
  };
  row.read = [member, absent = row.absent](const ExperimentConfig& config) -> ConfigJson {
    if constexpr (kOptional) {
      if (!member(config)) return absent == "null" ? ConfigJson(nullptr) : ConfigJson(absent);
      return to_json_value(*member(config));
    } else {
      return to_json_value(member(config));
    }
  };
  return row;
}

/// A row without a plain member.
KeySpec special(std::string path, KeyType type, std::string help,
                std::function<void(ExperimentConfig&, const ConfigJson&)> assign = nullptr,
                std::function<ConfigJson(const ExperimentConfig&)> read = nullptr) {
  KeySpec row;
  row.path = std::move(path);
  row.type = type;
  row.help = std::move(help);
  row.assign = std::move(assign);
  row.read = std::move(read);
  return row;
}

#define MEMBER(expression) \
  [](auto& config) -> auto& { return config.expression; }

std::vector<std::pair<std::string, std::string>> words(std::initializer_list<const char*> names) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const char* name : names) pairs.emplace_back(name, name);
  return pairs;
}

const std::vector<std::pair<std::string, std::string>>& dtypes() {
  static const std::vector<std::pair<std::string, std::string>> kDtypes = {
      {"auto", "auto"},    {"float32", "float32"}, {"bfloat16", "bfloat16"}, {"float16", "float16"},
      {"fp32", "float32"}, {"bf16", "bfloat16"},   {"fp16", "float16"},
  };
  return kDtypes;
}

/// A row that the loader handles itself; `form` says what it takes.
KeySpec outside(std::string path, std::string form, std::string help) {
  KeySpec row = special(std::move(path), KeyType::outside, std::move(help));
  row.form = std::move(form);
  return row;
}

/// Names of engine/text/pre_tokenizer_table.h.
std::vector<std::pair<std::string, std::string>> pre_tokenizers() {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const NamedPreTokenizer& row : pre_tokenizer_table()) pairs.emplace_back(row.name, row.name);
  return pairs;
}

void add_head(std::vector<KeySpec>& rows) {
  rows.push_back(outside("$schema", "a string", "JSON Schema of this format, for editors; not read."));
  rows.push_back(outside("schema_version", "1", "Version of this format."));
  rows.push_back(outside("extends", "a file name or a list of them",
                         "Files to start from, relative to this one; later ones win, this file last."));
  rows.push_back(outside("name", "a string of letters, digits, '_', '-' and '.'",
                         "Name of the experiment in results; by default the file's name."));
  rows.back().read = [](const ExperimentConfig& config) -> ConfigJson { return config.name; };
  rows.push_back(
      outside("vars", "an object of name: string, number or boolean", "Values to write as ${name} in strings."));
}

void add_engine(std::vector<KeySpec>& rows) {
  rows.push_back(
      key("engine.backend", MEMBER(engine.backend),
          {.choices = words({"auto", "cpu", "cuda"}), .effect = KeyEffect::times},  // bits depend on the kind in effect
          "Device kind; auto takes GPUs where the build and the machine have them."));
  rows.push_back(key("engine.devices", MEMBER(engine.devices), {.min = 0, .effect = KeyEffect::times},
                     "Numbers of the CUDA devices of the ranks; by default 0, 1, and so on."));
  rows.push_back(key("engine.target.path", MEMBER(engine.target.path), {.is_path = true},
                     "Checkpoint folder or .gguf file of the target model, or builtin:NAME."));
  rows.push_back(
      key("engine.target.dtype", MEMBER(engine.target.dtype), {.choices = dtypes()},
          "Type of the weights in memory; auto keeps the checkpoint's, and widens a .gguf file to bfloat16."));
  rows.push_back(key("engine.target.weights", MEMBER(engine.target.weights), {.choices = words({"auto"})},
                     "Storage of packed weights; auto keeps dtype."));
  rows.push_back(key("engine.target.load_format", MEMBER(engine.target.load_format),
                     {.choices = words({"safetensors", "dummy"})},
                     "dummy: random weights, for a config.json or a shape (inflate) without a checkpoint."));
  rows.push_back(key("engine.target.inflate", MEMBER(engine.target.inflate), {.is_shape = true},
                     "Grow the checkpoint into this shape (configs/shapes) without changing what it computes."));
  rows.push_back(key("engine.target.pre", MEMBER(engine.target.pre),
                     {.choices = pre_tokenizers(), .absent = "auto", .is_newer = true},
                     "How text is cut before its pieces are encoded, where the tokenizer's file does not say it; auto "
                     "goes by the family."));
  rows.push_back(key("engine.parallel.tp", MEMBER(engine.parallel.tp), {.min = 1, .max = 64, .unit = "ranks"},
                     "Tensor-parallel size: every layer is split over this many ranks."));
  rows.push_back(key("engine.parallel.pp", MEMBER(engine.parallel.pp), {.min = 1, .max = 64, .unit = "stages"},
                     "Pipeline-parallel size: the layers are split into this many stages."));
  rows.push_back(key("engine.parallel.threads_per_rank", MEMBER(engine.parallel.threads_per_rank),
                     {.min = 1, .max = 1024, .unit = "threads", .absent = "auto", .effect = KeyEffect::times},
                     "Threads of one CPU rank; auto divides the cores by the largest tp*pp of the sweep that fits."));
  rows.push_back(key("engine.parallel.pp_microbatches", MEMBER(engine.parallel.pp_microbatches),
                     {.min = 1, .max = 256, .absent = "auto"}, "Batches kept in flight; auto means pp."));
  rows.push_back(key("engine.parallel.pad_vocab", MEMBER(engine.parallel.pad_vocab), {},
                     "Pad a vocabulary that tp does not divide; false makes that an error."));
  rows.push_back(key("engine.parallel.timeout_s", MEMBER(engine.parallel.timeout_s),
                     {.min = 0, .max = 86400, .above_min = true, .unit = "s", .effect = KeyEffect::times},
                     "Longest silence of a rank that others wait for; each job and layer breaks it."));
  rows.push_back(key("engine.kv_cache.block_size", MEMBER(engine.kv_cache.block_size),
                     {.min = 16, .max = 1024, .unit = "tokens"}, "Tokens of one KV page, a multiple of 16."));
  rows.push_back(key("engine.kv_cache.memory_fraction", MEMBER(engine.kv_cache.memory_fraction),
                     {.min = 0, .max = 1, .above_min = true},
                     "Share of the memory left beside weights and workspace that the KV cache may take."));
  rows.push_back(key("engine.kv_cache.swap_space_gib", MEMBER(engine.kv_cache.swap_space_gib),
                     {.min = 0, .max = 65536, .unit = "GiB"},
                     "Host memory of each rank for the KV of preempted sequences; without room it is computed again."));
  rows.push_back(key("engine.kv_cache.prefix_caching", MEMBER(engine.kv_cache.prefix_caching), {},
                     "Reuse the pages of equal prompt prefixes; off in benchmarks unless asked for."));
  rows.push_back(key("engine.kv_cache.dtype", MEMBER(engine.kv_cache.dtype),
                     {.choices = dtypes(), .effect = KeyEffect::text},
                     "Type of keys and values in the cache; auto is the target's type."));
  rows.push_back(key("engine.scheduler.max_num_seqs", MEMBER(engine.scheduler.max_num_seqs),
                     {.min = 1, .max = 65536, .unit = "sequences"}, "Sequences that run at the same time."));
  rows.push_back(key("engine.scheduler.max_num_batched_tokens", MEMBER(engine.scheduler.max_num_batched_tokens),
                     {.min = 1, .max = 1 << 20, .unit = "tokens"}, "Rows of one step; longer prompts are chunked."));
  rows.push_back(key("engine.scheduler.max_model_len", MEMBER(engine.scheduler.max_model_len),
                     {.min = 2, .max = 1 << 24, .unit = "tokens", .absent = "auto", .effect = KeyEffect::text},
                     "Longest prompt plus output; auto takes the model's, cut to what the KV cache holds."));
  rows.push_back(key("engine.scheduler.batching", MEMBER(engine.scheduler.batching), {},
                     "continuous admits requests at every step; static runs padded turns of static_batch_size."));
  rows.push_back(key("engine.scheduler.static_batch_size", MEMBER(engine.scheduler.static_batch_size),
                     {.min = 1, .max = 65536, .unit = "requests", .scope = KeyScope::static_batching},
                     "Requests of one turn of static batching."));
  rows.push_back(key("engine.scheduler.run_ahead", MEMBER(engine.scheduler.run_ahead), {},
                     "Launch step n+1 before step n is collected: for devices that run beside the host."));
  rows.push_back(
      key("engine.numerics", MEMBER(engine.numerics), {.effect = KeyEffect::text},
          "strict: a row's bits do not depend on batch, threads or ranks; fast (GPUs): from 65 rows on cuBLASLt "
          "multiplies, weights are held twice, and certificates allow flips within noise."));
  rows.push_back(key("engine.cuda_graphs", MEMBER(engine.cuda_graphs), {.effect = KeyEffect::times},
                     "On GPUs: launch passes of up to 64 rows as CUDA graphs, which changes their speed only."));
}

KeyType type_of_option(const ProposerOption& option, const OptionValue& value) {
  if (!option.words.empty()) return KeyType::choice;
  if (std::holds_alternative<bool>(value)) return KeyType::boolean;
  if (std::holds_alternative<int64_t>(value)) return KeyType::integer;
  if (std::holds_alternative<double>(value)) return KeyType::number;
  return option.is_path ? KeyType::path : KeyType::text;
}

OptionValue option_value(KeyType type, const ConfigJson& json) {
  switch (type) {
    case KeyType::boolean: return json.get<bool>();
    case KeyType::integer: return json.get<int64_t>();
    case KeyType::number: return json.get<double>();
    default: return json.get<std::string>();
  }
}

/// A row of what every key of a proposer has: it decides numbers where that proposer drafts.
KeySpec proposer_key(const ProposerEntry& entry, KeySpec row) {
  row.proposer = &entry;
  row.in_identity = true;
  row.effect = KeyEffect::steps;
  return row;
}

/// Options of the proposer at `index` of the list.
void add_options(const ProposerEntry& entry, size_t index, std::vector<KeySpec>& rows) {
  for (const ProposerOption& option : entry.options) {
    const KeyType type = type_of_option(option, option.get(entry.defaults));
    KeySpec row = special(
        fmt::format("speculation.{}.{}", entry.name, option.name), type, std::string(option.help),
        [index, type, &option](ExperimentConfig& config, const ConfigJson& json) {
          std::any& options = config.speculation.proposers[index].options;
          option.set(options, json.is_null() ? OptionValue(std::string()) : option_value(type, json));
        },
        [index, &option](const ExperimentConfig& config) {
          const OptionValue set = option.get(config.speculation.proposers[index].options);
          if (option.is_path && std::get<std::string>(set).empty()) return ConfigJson(nullptr);
          return std::visit([](const auto& value) { return ConfigJson(value); }, set);
        });
    if (option.is_path) row.absent = "null";
    row.scope = KeyScope::proposer;
    row.is_newer = option.is_newer;
    row.unit = std::string(option.range.unit);
    row.min = option.range.min;
    row.max = option.range.max;
    row.above_min = option.range.above_min;
    if (type == KeyType::integer) {  // the members are ints
      row.min = std::max(row.min, double(std::numeric_limits<int>::min()));
      row.max = std::min(row.max, double(std::numeric_limits<int>::max()));
    }
    for (const std::string_view word : option.words) row.choices.emplace_back(word, word);
    rows.push_back(proposer_key(entry, std::move(row)));
  }
}

/// Which model the proposer at `index` of the list runs beside the target.
void add_second_model(const ProposerEntry& entry, size_t index, std::vector<KeySpec>& rows) {
  if (!entry.has_second_model()) return;
  const auto add = [&](const char* name, auto member, Limits limits, const char* help) {
    const auto of_config = [ index, member ](auto& config) -> auto& {
      return (*config.speculation.proposers[index].model).*member;
    };
    KeySpec row = proposer_key(
        entry, key(fmt::format("speculation.{}.{}", entry.name, name), of_config, std::move(limits), help));
    row.names_second_model = true;
    rows.push_back(std::move(row));
  };
  if (entry.second_model.kind == SecondModelKind::eagle3_head) {
    add("path", &SecondModelConfig::path, {.scope = KeyScope::proposer, .is_path = true},
        "Folder of the EAGLE-3 head, which was trained for this very target.");
    add("dtype", &SecondModelConfig::dtype, {.choices = dtypes(), .scope = KeyScope::proposer},
        "Type of the head's weights in memory.");
    return;
  }
  add("path", &SecondModelConfig::path, {.scope = KeyScope::second_model, .is_path = true},
      "Checkpoint folder of the draft model.");
  add("tp", &SecondModelConfig::tp,
      {.min = 1, .max = 64, .unit = "ranks", .absent = "target", .scope = KeyScope::second_model},
      "Tensor-parallel size of the draft model: 1, or the target's.");
  add("dtype", &SecondModelConfig::dtype, {.choices = dtypes(), .scope = KeyScope::second_model},
      "Type of the draft's weights in memory.");
  add("inflate", &SecondModelConfig::inflate, {.scope = KeyScope::second_model, .is_shape = true},
      "Grow the draft's checkpoint into this shape (configs/shapes).");
  add("pre", &SecondModelConfig::pre,
      {.choices = pre_tokenizers(), .absent = "auto", .is_newer = true, .scope = KeyScope::second_model},
      "How the draft's text is cut, as engine.target.pre says it.");
  add("self", &SecondModelConfig::self, {.scope = KeyScope::proposer},
      "The target drafts for itself: a check of the machinery that must accept every draft.");
}

/// "nobody, lookup in the sequence's own text, or a small model".
std::string who_drafts() {
  std::string text;
  const std::vector<ProposerEntry>& list = proposer_list();
  for (size_t i = 0; i < list.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == list.size() ? ", or " : ", ", list[i].help);
  return text;
}

/// For a proposer that is not on the list: `"ngram" is lookup in the sequence's own text, "draft" a small model`.
std::string proposers_there_are() {
  std::string text;
  for (const ProposerEntry& entry : proposer_list()) {
    if (entry.drafts())
      text += fmt::format("{}\"{}\" {}{}", text.empty() ? "" : ", ", entry.name, text.empty() ? "is " : "", entry.help);
  }
  return text;
}

void add_speculation(std::vector<KeySpec>& rows) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string& name : proposer_names(ProposerNames::all)) names.emplace_back(name, name);
  rows.push_back(key("speculation.proposer", MEMBER(speculation.proposer),
                     {.choices = names, .hint = "; others do not exist here yet: " + proposers_there_are()},
                     fmt::format("Who drafts: {}.", who_drafts())));
  rows.push_back(key("speculation.num_speculative_tokens", MEMBER(speculation.num_speculative_tokens),
                     {.min = 1,
                      .max = 64,
                      .unit = "tokens",
                      .hint = "; to draft nothing, take the proposer \"none\"",
                      .scope = KeyScope::speculation},
                     "Tokens drafted in one step (k); void for proposer none."));
  for (size_t i = 0; i < proposer_list().size(); ++i) {
    add_options(proposer_list()[i], i, rows);
    add_second_model(proposer_list()[i], i, rows);
  }
  std::vector<std::pair<std::string, std::string>> rules;
  for (const std::string_view word : rule_words()) rules.emplace_back(word, word);
  rows.push_back(key("speculation.verifier.rule", MEMBER(speculation.rule),
                     {.choices = rules, .scope = KeyScope::speculation},
                     "How drafts are judged; auto is greedy at temperature 0, else rejection."));
}

void add_requests(std::vector<KeySpec>& rows) {
  rows.push_back(key("sampling.temperature", MEMBER(sampling.temperature), {.min = 0, .max = 100},
                     "Divides the logits before sampling; 0 takes the most likely token."));
  rows.push_back(key("sampling.top_p", MEMBER(sampling.top_p), {.min = 0, .max = 1, .above_min = true},
                     "Smallest set of tokens that holds this probability; 1 is off."));
  rows.push_back(key("sampling.top_k", MEMBER(sampling.top_k), {.min = 0, .unit = "tokens"},
                     "Only the most likely tokens; 0 is off."));
  rows.push_back(key("sampling.min_p", MEMBER(sampling.min_p), {.min = 0, .max = 1},
                     "Only tokens at least this likely relative to the likeliest; 0 is off."));
  rows.push_back(key("sampling.seed", MEMBER(sampling.seed), {.min = 0}, "Seed of every request's own noise."));
  rows.push_back(key("sampling.max_tokens", MEMBER(sampling.max_tokens), {.min = 1, .max = 1 << 24, .unit = "tokens"},
                     "Longest output of a request."));
  rows.push_back(key("sampling.ignore_eos", MEMBER(sampling.ignore_eos), {}, "Go on after the end-of-text token."));
  rows.push_back(key("sampling.stop_token_ids", MEMBER(sampling.stop_token_ids), {.min = 0, .max = (1 << 24) - 1},
                     "More tokens that end a request."));
  rows.push_back(key("sampling.from_model", MEMBER(sampling.from_model), {},
                     "Start from the model's generation_config.json; never done silently."));
  rows.push_back(key("workload.dataset", MEMBER(workload.dataset), {.is_path = true},
                     "builtin:NAME, or a file of prompts (configs/workloads/README.md)."));
  rows.push_back(
      key("workload.format", MEMBER(workload.format), {}, "Form of the file; auto tells it from the content."));
  rows.push_back(key("workload.skip_bad", MEMBER(workload.skip_bad), {},
                     "Leave out records that cannot be read, and count them; false makes the first one an error."));
  rows.push_back(key("workload.categories", MEMBER(workload.categories), {},
                     "Take prompts of these categories only; by default all."));
  rows.push_back(key("workload.max_prompt_chars", MEMBER(workload.max_prompt_chars), {.min = 1, .unit = "bytes"},
                     "Leave out longer prompts, for models with a short context; the template's text is not counted."));
  rows.push_back(key("workload.requests", MEMBER(workload.requests), {.min = 1, .max = 1e7, .unit = "requests"},
                     "Requests of one repetition; a smaller data set is gone through again."));
  rows.push_back(key("workload.order_seed", MEMBER(workload.order_seed), {.min = 0}, "Seed of the order of prompts."));
  rows.push_back(key("workload.chat_template", MEMBER(workload.chat_template), {}, "Apply the model's chat template."));
  rows.push_back(key("load.mode", MEMBER(load.mode), {},
                     "closed keeps `concurrency` requests in flight; offline submits all of them at once; poisson, "
                     "gamma and trace send each at its own time, whatever the engine does (open loop)."));
  rows.push_back(key("load.concurrency", MEMBER(load.concurrency),
                     {.min = 1, .max = 65536, .unit = "requests", .scope = KeyScope::closed_loop},
                     "Requests in flight of a closed loop."));
  rows.push_back(
      key("load.rate_per_s", MEMBER(load.rate_per_s),
          {.min = 0, .max = 1e6, .above_min = true, .unit = "requests/s", .scope = KeyScope::random_arrivals},
          "Mean arrival rate of poisson and gamma."));
  rows.push_back(key("load.burstiness", MEMBER(load.burstiness),
                     {.min = 0.01, .max = 1e4, .scope = KeyScope::gamma_arrivals},
                     "Shape of gamma's gaps: 1 is poisson, below 1 requests come in bursts, above 1 more evenly; the "
                     "coefficient of variation is 1/sqrt(burstiness)."));
  rows.push_back(
      key("load.arrival_seed", MEMBER(load.arrival_seed), {.min = 0, .scope = KeyScope::random_arrivals},
          "Seed of the arrival times; with the repetition's number it decides them, the same in all cells."));
  rows.push_back(key("load.trace", MEMBER(load.trace),
                     {.scope = KeyScope::trace_arrivals, .effect = KeyEffect::text, .is_path = true},
                     "JSON Lines file of arrival times: {\"t_s\", \"output_tokens\"?} (configs/workloads/README.md)."));
  rows.push_back(key("measure.warmup_requests", MEMBER(measure.warmup_requests),
                     {.min = 0, .max = 1e6, .unit = "requests", .effect = KeyEffect::steps},
                     "Requests run before the first repetition and not counted."));
  rows.push_back(key("measure.repetitions", MEMBER(measure.repetitions), {.min = 1, .max = 10000},
                     "Times each cell is measured; 3 can show a large gain, a close call needs 7 or more."));
  rows.push_back(key("measure.verify_lossless", MEMBER(measure.verify_lossless), {},
                     "Compare every output with the baseline cell's."));
  rows.push_back(key("measure.level", MEMBER(measure.level), {}, "Where the clock stands: engine is in this process."));
  rows.push_back(key("measure.block_seed", MEMBER(measure.block_seed), {.min = 0},
                     "Seed of the order in which the cells of one load take turns."));
  rows.push_back(key("measure.record_drafts", MEMBER(measure.record_drafts), {.is_newer = true},
                     "After warming up, a pass over all requests that is not measured, whose drafts go to the cell's "
                     "drafts.jsonl, for proposer replay."));
}

template <class Value>
KeySpec sweep_list(std::string path, KeyType type, std::vector<Value> SweepConfig::*member, std::string help) {
  return special(
      std::move(path), type, std::move(help),
      [member](ExperimentConfig& config, const ConfigJson& json) {
        config.sweep.*member = json.get<std::vector<Value>>();
      },
      [member](const ExperimentConfig& config) {
        ConfigJson list = ConfigJson::array();
        for (const Value& value : config.sweep.*member) list.push_back(value);
        return list;
      });
}

void add_sweep(std::vector<KeySpec>& rows) {
  rows.push_back(special(
      "sweep.axes", KeyType::axes,
      "Values to cross: key or alias -> list, or a range \"1..8\", \"1..9+2\", \"1..16*2\".",
      [](ExperimentConfig& config, const ConfigJson& json) {
        config.sweep.axes.clear();
        for (const auto& [path, values] : json.items()) {
          config.sweep.axes.push_back({path, values.get<std::vector<ConfigJson>>()});
        }
      },
      [](const ExperimentConfig& config) {
        ConfigJson axes = ConfigJson::object();
        for (const SweepAxis& axis : config.sweep.axes) axes[axis.path] = axis.values;
        return axes;
      }));
  rows.push_back(sweep_list("sweep.zip", KeyType::groups, &SweepConfig::zip, "Groups of axes that advance together."));
  rows.push_back(sweep_list("sweep.constraints", KeyType::constraints, &SweepConfig::constraints,
                            "Expressions that a cell must meet, else it is listed as skipped."));
  rows.push_back(sweep_list(
      "sweep.include", KeyType::assignments, &SweepConfig::include,
      "Cells beside the grid: key or alias -> value, a \"label\", and \"published\": what others measured, as "
      "{over: a row's label, speedup: ratio, source: who measured it}."));
  rows.push_back(
      sweep_list("sweep.exclude", KeyType::patterns, &SweepConfig::exclude,
                 "Cells to leave out: key or alias -> value or list of values; each pattern fits some cell."));
  rows.push_back(special(
      "sweep.baseline", KeyType::assignment,
      "A cell is compared with the one that has these values and equals it elsewhere.",
      [](ExperimentConfig& config, const ConfigJson& json) { config.sweep.baseline = json; },
      [](const ExperimentConfig& config) { return config.sweep.baseline; }));
  rows.push_back(
      key("sweep.on_error", MEMBER(sweep.on_error), {}, "What a failed cell does to the rest of the sweep."));
  rows.push_back(key("sweep.max_failures", MEMBER(sweep.max_failures), {.min = 1, .max = 100000, .unit = "cells"},
                     "Failed cells after which the sweep stops."));
  rows.push_back(key("sweep.cell_timeout_s", MEMBER(sweep.cell_timeout_s),
                     {.min = 0, .max = 1e7, .above_min = true, .unit = "s"},
                     "Time after which a cell counts as failed."));
}

void add_report(std::vector<KeySpec>& rows) {
  rows.push_back(key("report.slo.ttft_ms", MEMBER(report.slo_ttft_ms), {.min = 0, .above_min = true, .unit = "ms"},
                     "Time to first token that counts as good."));
  rows.push_back(key("report.slo.tpot_ms", MEMBER(report.slo_tpot_ms), {.min = 0, .above_min = true, .unit = "ms"},
                     "Time per output token that counts as good."));
  rows.push_back(key("report.x", MEMBER(report.x), {.absent = kAutoChartX},
                     "Key on the abscissa of the report's speedup charts; auto is the number of speculation.* with the "
                     "most values in the sweep."));
  rows.push_back(
      key("report.facet", MEMBER(report.facet), {},
          "Keys that split the report's speedup charts; what else varies makes lines, and more charts above three."));
  rows.push_back(outside("profiles", "an object of name: object of changes",
                         "Sets of changes, one of which --profile NAME lays over the file."));
}

#undef MEMBER

std::vector<KeySpec> build_keys() {
  std::vector<KeySpec> rows;
  add_head(rows);
  add_engine(rows);
  add_speculation(rows);
  add_requests(rows);
  add_sweep(rows);
  add_report(rows);
  return rows;
}

}  // namespace

const std::vector<KeySpec>& config_keys() {
  static const std::vector<KeySpec> kKeys = build_keys();
  return kKeys;
}

}  // namespace paceline
