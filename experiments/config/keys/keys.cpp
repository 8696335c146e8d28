// The table of keys. One row a key: path and member, help, limits.

#include <limits>
#include <type_traits>

#include "engine/text/pre_tokenizer_table.h"
#include "experiments/config/keys/schema.h"
#include "speculative/proposer_entry.h"
#include "speculative/verify_rule.h"

namespace paceline {

namespace {

/// The type inside of std::optional, or T itself.
template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using Type = T;
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
  else if constexpr (std::is_same_v<Value, std::vector<SweepAxis>>)
    return KeyType::axes;
  else if constexpr (std::is_same_v<Value, ConfigJson>)
    return KeyType::fields;
  else
    return KeyType::text;
}

template <class Value>
Value from_json(const ConfigJson& json) {
  if constexpr (std::is_enum_v<Value>) {
    const std::vector<std::string_view> names = names_of(Value{});
    const auto found = std::find(names.begin(), names.end(), json.get_ref<const std::string&>());
    PACELINE_CHECK(found != names.end(), "no enumerator is called {}", json.dump());
    return static_cast<Value>(found - names.begin());
  } else if constexpr (std::is_same_v<Value, std::vector<SweepAxis>>) {
    Value axes;
    for (const auto& [path, values] : json.items()) axes.push_back({path, values});
    return axes;
  } else {
    return json.get<Value>();
  }
}

template <class Value>
ConfigJson to_json_value(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return std::string(names_of(Value{})[static_cast<size_t>(value)]);
  } else if constexpr (std::is_same_v<Value, std::vector<SweepAxis>>) {
    ConfigJson axes = ConfigJson::object();
    for (const SweepAxis& axis : value) axes[axis.path] = axis.values;
    return axes;
  } else {
    return value;
  }
}

using Choices = std::vector<std::pair<std::string, std::string>>;

template <class Names = std::vector<std::string_view>>
Choices words(const Names& names) {
  Choices choices;
  for (const auto& name : names) choices.emplace_back(name, name);
  return choices;
}

/// A row for the member that `member(config)` refers to. `row` holds what the member and the path do not say: its type
/// is text where the member's decides, its effect is none where the section's does.
template <class Member>
KeySpec key(std::string path, Member member, std::string help, KeySpec row = {}) {
  using Field = std::remove_cvref_t<decltype(member(std::declval<ExperimentConfig&>()))>;
  using Value = typename ValueOf<Field>::Type;
  constexpr bool kOptional = !std::is_same_v<Field, Value>;
  if constexpr (std::is_enum_v<Value>) row.choices = words(names_of(Value{}));
  if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) {
    row.min = std::max(row.min, static_cast<double>(std::numeric_limits<Value>::min()));
    row.max = std::min(row.max, static_cast<double>(std::numeric_limits<Value>::max()));
  }
  if (row.type == KeyType::text) row.type = row.choices.empty() ? type_of<Value>() : KeyType::choice;
  if (kOptional && row.absent.empty()) row.absent = "null";
  row.help = std::move(help);
  row.reload = path.starts_with("engine.") || path == "workload.chat_template";  // a load has its prompts encoded
  row.in_identity = !path.starts_with("sweep.") && !path.starts_with("report.");
  row.effect = row.effect.value_or(effect_of_section(path));
  row.path = std::move(path);
  row.assign = [member, absent = row.absent](ExperimentConfig& config, const ConfigJson& json) {
    if constexpr (kOptional) {
      if (json.is_null() || (json.is_string() && json.get_ref<const std::string&>() == absent))
        return member(config).reset();
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

/// A row whose path is that of its member: KEY(engine.parallel.tp, help, limits).
#define KEY(path, ...) \
  key(                 \
      #path, [](auto& config) -> auto& { return config.path; }, __VA_ARGS__)

const Choices& dtypes() {
  static const Choices kDtypes = {
      {"auto", "auto"},    {"float32", "float32"}, {"bfloat16", "bfloat16"}, {"float16", "float16"},
      {"fp32", "float32"}, {"bf16", "bfloat16"},   {"fp16", "float16"},
  };
  return kDtypes;
}

/// Names of engine/text/pre_tokenizer_table.h.
Choices pre_tokenizers() {
  std::vector<std::string_view> names;
  for (const NamedPreTokenizer& row : pre_tokenizer_table()) names.push_back(row.name);
  return words(names);
}

/// A row that the loader handles itself; `form` says what it takes.
KeySpec outside(std::string path, std::string form, std::string help) {
  return {.path = std::move(path), .type = KeyType::outside, .help = std::move(help), .form = std::move(form)};
}

std::vector<KeySpec> head_keys() {
  KeySpec name = outside("name", "a string of letters, digits, '_', '-' and '.'",
                         "Name of the experiment in results; by default the file's name.");
  name.read = [](const ExperimentConfig& config) -> ConfigJson { return config.name; };
  return {
      outside("$schema", "a string", "JSON Schema of this format, for editors; not read."),
      outside("schema_version", "1", "Version of this format."),
      outside("extends", "a file name or a list of them",
              "Files to start from, relative to this one, or builtin:base/defaults.json and so on; later ones win, "
              "this file last."),
      std::move(name),
      outside("vars", "an object of name: string, number or boolean", "Values to write as ${name} in strings."),
  };
}

std::vector<KeySpec> engine_keys() {
  return {
      KEY(engine.backend, "Device kind; auto takes GPUs where the build and the machine have them.",
          {.choices = words({"auto", "cpu", "cuda"}), .effect = KeyEffect::times}),
      KEY(engine.devices, "Numbers of the CUDA devices of the ranks; by default 0, 1, and so on.",
          {.min = 0, .effect = KeyEffect::times}),
      KEY(engine.target.path, "Checkpoint folder or .gguf file of the target model, or builtin:NAME.",
          {.type = KeyType::path}),
      KEY(engine.target.dtype,
          "Type of the weights in memory; auto keeps the checkpoint's, and widens a .gguf file to bfloat16.",
          {.choices = dtypes()}),
      KEY(engine.target.weights, "Storage of packed weights; auto keeps dtype.", {.choices = words({"auto"})}),
      KEY(engine.target.load_format,
          "dummy: random weights, for a config.json or a shape (inflate) without a checkpoint.",
          {.choices = words({"safetensors", "dummy"})}),
      KEY(engine.target.inflate,
          "Grow the checkpoint into this shape (configs/shapes) without changing what it computes.",
          {.type = KeyType::shape}),
      KEY(engine.target.pre,
          "How text is cut before its pieces are encoded, where the tokenizer's file does not say it; auto "
          "goes by the family.",
          {.choices = pre_tokenizers(), .absent = "auto", .is_newer = true}),
      KEY(engine.parallel.tp, "Tensor-parallel size: every layer is split over this many ranks.",
          {.min = 1, .max = 64, .unit = "ranks"}),
      KEY(engine.parallel.pp, "Pipeline-parallel size: the layers are split into this many stages.",
          {.min = 1, .max = 64, .unit = "stages"}),
      KEY(engine.parallel.threads_per_rank,
          "Threads of one CPU rank; auto divides the cores by the largest tp*pp of the sweep that fits.",
          {.min = 1, .max = 1024, .unit = "threads", .absent = "auto", .effect = KeyEffect::times}),
      KEY(engine.parallel.pp_microbatches, "Batches kept in flight; auto means pp.",
          {.min = 1, .max = 256, .absent = "auto"}),
      KEY(engine.parallel.pad_vocab, "Pad a vocabulary that tp does not divide; false makes that an error."),
      KEY(engine.parallel.timeout_s,
          "Seconds without progress of a rank before the run fails; each job and layer is progress.",
          {.min = 0, .max = 86400, .above_min = true, .unit = "s", .effect = KeyEffect::times}),
      KEY(engine.kv_cache.block_size, "Tokens of one KV page, a multiple of 16.",
          {.min = 16, .max = 1024, .unit = "tokens"}),
      KEY(engine.kv_cache.memory_fraction,
          "Share of the memory left beside weights and workspace that the KV cache may take.",
          {.min = 0, .max = 1, .above_min = true}),
      KEY(engine.kv_cache.swap_space_gib,
          "Host memory of each rank for the KV of preempted sequences; without room it is computed again.",
          {.min = 0, .max = 65536, .unit = "GiB"}),
      KEY(engine.kv_cache.prefix_caching,
          "Reuse the pages of equal prompt prefixes; off in benchmarks unless asked for."),
      KEY(engine.kv_cache.dtype, "Type of keys and values in the cache; auto is the target's type.",
          {.choices = dtypes(), .effect = KeyEffect::text}),
      KEY(engine.scheduler.max_num_seqs, "Sequences that run at the same time.",
          {.min = 1, .max = 65536, .unit = "sequences"}),
      KEY(engine.scheduler.max_num_batched_tokens, "Rows of one step; longer prompts are chunked.",
          {.min = 1, .max = 1 << 19, .unit = "tokens"}),
      KEY(engine.scheduler.max_model_len,
          "Longest prompt plus output; auto takes the model's, cut to what the KV cache holds.",
          {.min = 2, .max = 1 << 24, .unit = "tokens", .absent = "auto", .effect = KeyEffect::text}),
      KEY(engine.scheduler.batching,
          "continuous admits requests at every step; static runs padded turns of static_batch_size."),
      KEY(engine.scheduler.static_batch_size, "Requests of one turn of static batching.",
          {.min = 1, .max = 65536, .unit = "requests", .scope = {"engine.scheduler.batching", {"static"}}}),
      KEY(engine.scheduler.run_ahead,
          "Launch step n+1 before step n is collected: for devices that run beside the host. Drafts wait for "
          "verdicts."),
      KEY(engine.numerics,
          "strict: a row's bits do not depend on batch, threads or ranks; fast (GPUs): from 65 rows on cuBLASLt "
          "multiplies, weights are held twice, and certificates allow flips within noise.",
          {.effect = KeyEffect::text}),
      KEY(engine.cuda_graphs, "On GPUs: launch passes of up to 64 rows as CUDA graphs, which changes their speed only.",
          {.effect = KeyEffect::times}),
  };
}

/// A row of what every key of a proposer has: it decides numbers where that proposer drafts.
KeySpec proposer_key(const ProposerEntry& entry, KeySpec row) {
  row.scope = {"speculation.proposer", {std::string(entry.name)}};
  row.proposer = &entry;
  row.in_identity = true;
  row.effect = KeyEffect::steps;
  return row;
}

KeyType type_of_option(const ProposerOption& option, const OptionValue& value) {
  if (!option.words.empty()) return KeyType::choice;
  if (option.is_path) return KeyType::path;
  return std::visit([](const auto& each) { return type_of<std::remove_cvref_t<decltype(each)>>(); }, value);
}

/// Options of the proposer at `index` of the list.
void add_options(const ProposerEntry& entry, size_t index, std::vector<KeySpec>& rows) {
  for (const ProposerOption& option : entry.options) {
    KeySpec row = {.path = fmt::format("speculation.{}.{}", entry.name, option.name),
                   .type = type_of_option(option, option.get(entry.defaults)),
                   .help = std::string(option.help),
                   .min = option.range.min,
                   .max = option.range.max,
                   .above_min = option.range.above_min,
                   .unit = std::string(option.range.unit),
                   .choices = words(option.words),
                   .absent = option.is_path ? "null" : "",
                   .is_newer = option.is_newer};
    if (row.type == KeyType::integer) {  // the members are ints
      row.min = std::max(row.min, double(std::numeric_limits<int>::min()));
      row.max = std::min(row.max, double(std::numeric_limits<int>::max()));
    }
    row.assign = [index, &option](ExperimentConfig& config, const ConfigJson& json) {
      std::any& options = config.speculation.proposers[index].options;
      OptionValue value = option.get(options);
      if (json.is_null())
        value = std::string();
      else
        std::visit([&json](auto& each) { json.get_to(each); }, value);
      option.set(options, value);
    };
    row.read = [index, &option](const ExperimentConfig& config) {
      const OptionValue set = option.get(config.speculation.proposers[index].options);
      if (option.is_path && std::get<std::string>(set).empty()) return ConfigJson(nullptr);
      return std::visit([](const auto& value) { return ConfigJson(value); }, set);
    };
    rows.push_back(proposer_key(entry, std::move(row)));
  }
}

/// Which model the proposer at `index` of the list runs beside the target.
void add_second_model(const ProposerEntry& entry, size_t index, std::vector<KeySpec>& rows) {
  if (!entry.has_second_model()) return;
  const bool is_head = entry.second_model.kind == SecondModelKind::eagle3_head;
  const auto add = [&](const char* name, auto member, const char* help, KeySpec row) {
    const auto of_config = [ index, member ](auto& config) -> auto& {
      return (*config.speculation.proposers[index].model).*member;
    };
    row = proposer_key(entry, key(fmt::format("speculation.{}.{}", entry.name, name), of_config, help, std::move(row)));
    row.names_second_model = true;
    row.is_void_for_self = !is_head && name != std::string_view("self");
    rows.push_back(std::move(row));
  };
  add("path", &SecondModelConfig::path,
      is_head ? "Folder of the EAGLE-3 head, which was trained for this very target."
              : "Checkpoint folder of the draft model.",
      {.type = KeyType::path});
  if (!is_head)
    add("tp", &SecondModelConfig::tp, "Tensor-parallel size of the draft model: 1, or the target's.",
        {.min = 1, .max = 64, .unit = "ranks", .absent = "target"});
  add("dtype", &SecondModelConfig::dtype,
      is_head ? "Type of the head's weights in memory." : "Type of the draft's weights in memory.",
      {.choices = dtypes()});
  if (is_head) return;
  add("inflate", &SecondModelConfig::inflate, "Grow the draft's checkpoint into this shape (configs/shapes).",
      {.type = KeyType::shape});
  add("pre", &SecondModelConfig::pre, "How the draft's text is cut, as engine.target.pre says it.",
      {.choices = pre_tokenizers(), .absent = "auto", .is_newer = true});
  add("self", &SecondModelConfig::self,
      "The target drafts for itself: a check of the machinery that must accept every draft.", {});
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

std::vector<KeySpec> speculation_keys() {
  std::vector<KeySpec> rows = {
      KEY(speculation.proposer, fmt::format("Who drafts: {}.", who_drafts()),
          {.choices = words(proposer_names(ProposerNames::all)),
           .hint = "; others do not exist here yet: " + proposers_there_are()}),
      KEY(speculation.num_speculative_tokens, "Tokens drafted in one step (k); void for proposer none.",
          {.min = 1,
           .max = 64,
           .unit = "tokens",
           .hint = "; to draft nothing, take the proposer \"none\"",
           .scope = {"speculation.proposer", proposer_names(ProposerNames::drafting)}}),
  };
  for (size_t i = 0; i < proposer_list().size(); ++i) {
    add_options(proposer_list()[i], i, rows);
    add_second_model(proposer_list()[i], i, rows);
  }
  rows.push_back(key(
      "speculation.verifier.rule", [](auto& config) -> auto& { return config.speculation.rule; },
      "How drafts are judged; auto is greedy at temperature 0, else rejection.",
      {.choices = words(rule_words()), .scope = {"speculation.proposer", proposer_names(ProposerNames::drafting)}}));
  return rows;
}

std::vector<KeySpec> request_keys() {
  return {
      KEY(sampling.temperature, "Divides the logits before sampling; 0 takes the most likely token.",
          {.min = 0, .max = 100}),
      KEY(sampling.top_p, "Smallest set of tokens that holds this probability; 1 is off.",
          {.min = 0, .max = 1, .above_min = true}),
      KEY(sampling.top_k, "Only the most likely tokens; 0 is off.", {.min = 0, .unit = "tokens"}),
      KEY(sampling.min_p, "Only tokens at least this likely relative to the likeliest; 0 is off.",
          {.min = 0, .max = 1}),
      KEY(sampling.seed, "Seed of every request's own noise.", {.min = 0}),
      KEY(sampling.redraw,
          "Each repetition draws anew, so that intervals hold what draws do to lengths and drafts; false: all repeat "
          "the first.",
          {.is_newer = true}),
      KEY(sampling.max_tokens, "Longest output of a request.", {.min = 1, .max = 1 << 24, .unit = "tokens"}),
      KEY(sampling.ignore_eos, "Go on after the end-of-text token."),
      KEY(sampling.stop_token_ids, "More tokens that end a request.", {.min = 0, .max = (1 << 24) - 1}),
      KEY(sampling.from_model, "Start from the model's generation_config.json; never done silently."),
      KEY(workload.dataset, "builtin:NAME, or a file of prompts (configs/workloads/README.md).",
          {.type = KeyType::path}),
      KEY(workload.format, "Form of the file; auto tells it from the content."),
      KEY(workload.skip_bad,
          "Leave out records that cannot be read, and count them; false makes the first one an error."),
      KEY(workload.categories, "Take prompts of these categories only; by default all."),
      KEY(workload.max_prompt_chars,
          "Leave out longer prompts, for models with a short context; the template's text is not counted.",
          {.min = 1, .unit = "bytes"}),
      KEY(workload.requests, "Requests of one repetition; a smaller data set is gone through again.",
          {.min = 1, .max = 1e7, .unit = "requests"}),
      KEY(workload.order_seed, "Seed of the order of prompts.", {.min = 0}),
      KEY(workload.chat_template, "Apply the model's chat template."),
      KEY(load.mode,
          "closed keeps `concurrency` requests in flight; offline submits all of them at once; poisson, "
          "gamma and trace send each at its own time, whatever the engine does (open loop)."),
      KEY(load.concurrency, "Requests in flight of a closed loop.",
          {.min = 1, .max = 65536, .unit = "requests", .scope = {"load.mode", {"closed"}}}),
      KEY(load.rate_per_s, "Mean arrival rate of poisson and gamma.",
          {.min = 0,
           .max = 1e6,
           .above_min = true,
           .unit = "requests/s",
           .scope = {"load.mode", {"poisson", "gamma"}}}),
      KEY(load.burstiness,
          "Shape of gamma's gaps: 1 is poisson, below 1 requests come in bursts, above 1 more evenly; the "
          "coefficient of variation is 1/sqrt(burstiness).",
          {.min = 0.01, .max = 1e4, .scope = {"load.mode", {"gamma"}}}),
      KEY(load.arrival_seed,
          "Seed of the arrival times; with the repetition's number it decides them, the same in all cells.",
          {.min = 0, .scope = {"load.mode", {"poisson", "gamma"}}}),
      KEY(load.trace, "JSON Lines file of arrival times: {\"t_s\", \"output_tokens\"?} (configs/workloads/README.md).",
          {.type = KeyType::path, .scope = {"load.mode", {"trace"}}, .effect = KeyEffect::text}),
      KEY(measure.warmup_requests, "Requests run before the first repetition and not counted.",
          {.min = 0, .max = 1e6, .unit = "requests", .effect = KeyEffect::steps}),
      KEY(measure.repetitions, "Times each cell is measured; 3 can show a large gain, a close call needs 7 or more.",
          {.min = 1, .max = 10000}),
      KEY(measure.verify_lossless, "Compare every output with the baseline cell's."),
      KEY(measure.level,
          "Where the clock stands: engine is in this process, http a client of a server (section server)."),
      KEY(measure.block_seed, "Seed of the order in which the cells of one load take turns; that of its first cell.",
          {.min = 0}),
      KEY(measure.record_drafts,
          "After warming up, a pass over all requests that is not measured, whose drafts go to the cell's "
          "drafts.jsonl, for proposer replay.",
          {.is_newer = true}),
  };
}

std::vector<KeySpec> server_keys() {
  const KeyScope http = {"measure.level", {"http"}};
  std::vector<KeySpec> rows = {
      KEY(server.endpoint,
          "Address of a server that runs, \"http://host:port\"; without it and without a command each cell starts "
          "`runexp serve` with its own configuration.",
          {.scope = http}),
      KEY(server.command,
          "Command that starts a server, in words as a shell splits them, without a shell; {port} stands for its port, "
          "{proposer} and {k} for those of the cell.",
          {.scope = http}),
      key("server.model_name", [](auto& config) -> auto& { return config.server.model; },
          "Name of the model in requests; auto takes the first that the server lists.",
          {.absent = "auto", .scope = http}),
      KEY(server.api_key_env, "Name of the environment variable with the key for the server; never the key itself.",
          {.scope = http, .effect = KeyEffect::times}),
      KEY(server.stream, "Take answers as streams; without, there is no time to the first token.",
          {.scope = http, .effect = KeyEffect::times}),
      KEY(server.request,
          "Further fields of each request, such as {\"cache_prompt\": false}; null takes one of ours away.",
          {.scope = http, .effect = KeyEffect::text}),
      KEY(server.reset_path,
          "What is posted before each repetition, so that the server forgets prefixes; null: nothing.",
          {.scope = http}),
      KEY(server.start_timeout_s, "Time from the start of a server until /health answers.",
          {.min = 0, .max = 86400, .above_min = true, .unit = "s", .scope = http, .effect = KeyEffect::times}),
      KEY(server.stall_timeout_s, "Silence within an answer after which its request has failed.",
          {.min = 0, .max = 86400, .above_min = true, .unit = "s", .scope = http, .effect = KeyEffect::times}),
      KEY(server.compare_text,
          "Share of requests whose text must be that of the server's own cell without speculation; null: the share is "
          "told and fails nothing.",
          {.min = 0, .max = 1, .scope = http, .effect = KeyEffect::times}),
  };
  for (KeySpec& row : rows) row.reload = row.path == "server.endpoint" || row.path == "server.command";
  return rows;
}

std::vector<KeySpec> sweep_keys() {
  return {
      KEY(sweep.axes, "Values to cross: key or alias -> list, or a range \"1..8\", \"1..9+2\", \"1..16*2\"."),
      KEY(sweep.zip, "Groups of axes that advance together.", {.type = KeyType::groups}),
      KEY(sweep.constraints, "Expressions that a cell must meet, else it is listed as skipped.",
          {.type = KeyType::constraints}),
      KEY(sweep.include,
          "Cells beside the grid: key or alias -> value, a \"label\", and \"published\": what others measured, as "
          "{over: a row's label, speedup: ratio, source: who measured it}.",
          {.type = KeyType::assignments}),
      KEY(sweep.exclude, "Cells to leave out: key or alias -> value or list of values; each pattern fits some cell.",
          {.type = KeyType::patterns}),
      KEY(sweep.baseline, "A cell is compared with the one that has these values and equals it elsewhere.",
          {.type = KeyType::assignment}),
      KEY(sweep.on_error, "What a failed cell does to the rest of the sweep."),
      KEY(sweep.max_failures, "Failed cells after which the sweep stops.", {.min = 1, .max = 100000, .unit = "cells"}),
      KEY(sweep.cell_timeout_s, "Time of one pass of a cell after which the cell counts as failed.",
          {.min = 0, .max = 1e7, .above_min = true, .unit = "s"}),
  };
}

std::vector<KeySpec> report_keys() {
  return {
      key("report.slo.ttft_ms", [](auto& config) -> auto& { return config.report.slo_ttft_ms; },
          "Time to first token that counts as good.", {.min = 0, .above_min = true, .unit = "ms"}),
      key("report.slo.tpot_ms", [](auto& config) -> auto& { return config.report.slo_tpot_ms; },
          "Time per output token that counts as good.", {.min = 0, .above_min = true, .unit = "ms"}),
      key("report.slo.attainment", [](auto& config) -> auto& { return config.report.slo_attainment; },
          "Share of good requests at which the verdict counts an open loop's rate as kept.",
          {.min = 0, .max = 0.999, .above_min = true}),
      KEY(report.x,
          "Key on the abscissa of the report's speedup charts; auto is the number of speculation.* with the "
          "most values in the sweep.",
          {.absent = kAutoChartX}),
      KEY(report.facet,
          "Keys that split the report's speedup charts; what else varies makes lines, and more charts above three."),
      outside("profiles", "an object of name: object of changes",
              "Sets of changes, one of which --profile NAME lays over the file."),
  };
}

#undef KEY

}  // namespace

const std::vector<KeySpec>& config_keys() {
  static const std::vector<KeySpec> kKeys = [] {
    std::vector<KeySpec> all;
    for (const auto& keys_of :
         {head_keys, engine_keys, speculation_keys, request_keys, server_keys, sweep_keys, report_keys})
      for (KeySpec& row : keys_of()) all.push_back(std::move(row));
    return all;
  }();
  return kKeys;
}

}  // namespace paceline
