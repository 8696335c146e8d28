// runexp inflate, convert, generate, tokenize: checkpoints, and text through them

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <system_error>

#include <spdlog/spdlog.h>

#include "engine/model/gguf_model.h"
#include "engine/text/utf8.h"
#include "engine/tokenizer/detokenizer.h"
#include "engine/tokenizer/gguf_tokenizer.h"
#include "engine/tokenizer/token_table_json.h"
#include "engine/util/clock.h"
#include "engine/util/counted.h"
#include "engine/util/suggest.h"
#include "engine/util/user_file.h"
#include "engine/weights/gguf_checkpoint.h"
#include "engine/weights/made/inflated_checkpoint.h"
#include "engine/weights/renamed_checkpoint.h"
#include "engine/weights/save_checkpoint.h"
#include "engine/weights/shard_weights.h"
#include "experiments/commands/command_line.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/config/keys/schema.h"
#include "experiments/run/engine_load.h"
#include "experiments/workload/dataset.h"
#include "experiments/workload/request_sampling.h"
#include "experiments/workload/requests.h"
#include "kernels/cpu/cores.h"
#include "speculative/proposer_entry.h"
#include "speculative/vocabulary_match.h"

namespace paceline {
namespace {

/// A configuration of defaults, for commands without a file.
ExperimentConfig default_config() {
  ExperimentConfig config;
  config.builtin_root = find_builtin_root("config.json");
  return config;
}

/// Throws Error(usage) where nothing below `folder` is called `name`: the folders in it, or the files with `extension`.
void check_builtin(const ExperimentConfig& config, const char* option, const std::string& name, const char* folder,
                   const std::string& prefix, const std::string& extension) {
  if (config.builtin_root.empty()) fail_without_builtin_root(name);
  std::vector<std::string> known;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(config.builtin_root / folder, ignored)) {
    const std::string file = entry.path().filename().string();
    const bool is_one = extension.empty() ? entry.is_directory(ignored) : file.ends_with(extension);
    if (is_one) known.push_back(prefix + file.substr(0, file.size() - extension.size()));
  }
  std::sort(known.begin(), known.end());
  if (std::find(known.begin(), known.end(), name) == known.end())
    fail(ExitCode::usage, "{}: \"{}\": found none of that name built in{}: there are {}", option, name,
         did_you_mean(name, known), fmt::join(known, ", "));
}

/// A wrong name behind builtin: is a typo.
void check_model_name(const ExperimentConfig& config, const char* option, const std::string& name) {
  if (name.empty()) fail(ExitCode::usage, "{}: found nothing, expected builtin:NAME, a folder or a .gguf file", option);
  if (name.starts_with("builtin:")) check_builtin(config, option, name, "models", "builtin:", "");
}

/// The file of a shape given by name or by file name.
std::filesystem::path shape_file(const ExperimentConfig& config, const std::string& shape) {
  if (!is_shape_name(shape)) return shape;
  check_builtin(config, "SHAPE", shape, "shapes", "", ".json");
  return config.builtin_root / "shapes" / (shape + ".json");
}

/// "OUT: <what>, 1.235 G parameters, exact, written in 2.1 s"
void print_written(const std::filesystem::path& out, const std::string& what, const ModelSpec& spec,
                   std::string_view how, Clock::time_point begin) {
  fmt::print("{}: {}, {:.3f} G parameters, {}, written in {:.1f} s\n", out.string(), what,
             double(spec.num_parameters()) / 1e9, how, seconds_since(begin));
}

constexpr const char* kTextFiles[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",     "chat_template.jinja",   "generation_config.json"};

std::string model_card(const InflatedModel& model, const ModelShape& shape, const std::string& parent) {
  return fmt::format(
      "# {0} inflated to {1}\n\n"
      "The sizes of {1} ({2} layers x {3}, heads {4}/{5} x {6}, MLP {7}, vocabulary {8}) and the function of {0}: "
      "what\n"
      "it says is {0}'s text, what a step costs is {1}'s. Made for timing by `runexp inflate`, random part with seed "
      "{9}.\n"
      "\n{10}\n",
      parent, shape.name, model.spec.num_layers, model.spec.hidden_size, model.spec.num_heads, model.spec.num_kv_heads,
      model.spec.head_dim, model.spec.intermediate_size, model.spec.vocab_size, kInflateSeed,
      model.exact ? "exact: every factor is a power of two; logits differ by rounding alone."
                  : "inexact: factors that are no powers of two are rounded; tokens may differ from the parent's.");
}

struct SaveCommand {
  std::string from;   // a checkpoint: builtin:NAME or a folder; a .gguf file
  std::string shape;  // NAME of configs/shapes or a .json file
  std::filesystem::path out;
  std::string dtype = "auto";
};

/// Writes the checkpoint that engine.target.inflate would load, as a Hugging Face folder.
ExitCode inflate_command(const SaveCommand& command) {
  ExperimentConfig config = default_config();
  check_model_name(config, "SMALL", command.from);
  config.engine.target.path = command.from;
  derive_paths(config);
  const std::filesystem::path& parent = config.engine.target.directory;
  const ModelShape shape = load_model_shape(shape_file(config, command.shape));
  const InflatedModel model = inflate_model(parent, shape);
  const InflatedCheckpoint source(Checkpoint::open(parent), model);
  SaveOptions options{.config = model.config,
                      .card = model_card(model, shape, std::filesystem::path(parent).filename().string()),
                      .copies = {}};
  for (const char* name : kTextFiles) {
    if (std::filesystem::is_regular_file(parent / name)) options.copies.push_back(parent / name);
  }
  const auto begin = Clock::now();
  save_checkpoint(source, command.out, options);
  print_written(command.out, fmt::format("{} as {}", parent.string(), shape.name), model.spec,
                model.exact ? "exact" : "inexact", begin);
  return ExitCode::ok;
}

std::string tokenizer_config(const GgufFile& file, const TokenTable& table) {
  nlohmann::ordered_json config = gguf_special_tokens(file);
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["clean_up_tokenization_spaces"] = false;
  if (table.add_bos) config["add_bos_token"] = *table.add_bos;
  if (table.add_eos) config["add_eos_token"] = *table.add_eos;
  if (auto chat = gguf_chat_template(file)) {
    if (!utf8_valid(*chat))
      fail(ExitCode::model_file, "{}: tokenizer.chat_template is not UTF-8", file.path().string());
    config["chat_template"] = std::move(*chat);
  }
  return config.dump(2) + "\n";
}

std::string generation_config(const nlohmann::json& config) {
  nlohmann::ordered_json generation = nlohmann::ordered_json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (config.contains(key)) generation[key] = config[key];
  return generation.dump(2) + "\n";
}

ExitCode convert_command(const SaveCommand& command) {
  if (!is_gguf_path(command.from)) fail(ExitCode::usage, "FILE: found {}, expected a .gguf file", command.from);
  const auto begin = Clock::now();
  const DType dtype = parse_dtype(command.dtype, DType::bf16);
  const GgufCheckpoint source(GgufFile(command.from), dtype);
  nlohmann::json config = gguf_config(source.file());
  config["torch_dtype"] = dtype_name(dtype);
  const ModelSpec from = gguf_spec(source.file()), to = parse_model_spec(config, command.from);
  check_tensors(source, from);
  SaveOptions options{
      .config = config,
      .card = fmt::format("# {}\n\nMade of the GGUF file {} by `runexp convert`, its packed weights widened to {}.\n",
                          source.file().path().stem().string(), source.file().path().filename().string(),
                          dtype_name(dtype)),
      .copies = {}};
  options.texts["generation_config.json"] = generation_config(config);
  const bool has_tokenizer = source.file().find("tokenizer.ggml.model");
  if (has_tokenizer) {
    const TokenTable table = gguf_token_table(source.file());
    options.texts["tokenizer.json"] = tokenizer_json(table).dump(1) + "\n";
    options.texts["tokenizer_config.json"] = tokenizer_config(source.file(), table);
  }
  save_checkpoint(RenamedCheckpoint(source, from, to), command.out, options);
  if (!has_tokenizer) spdlog::warn("{}: holds no tokenizer; the folder has none", command.from);
  print_written(command.out, command.from, to, dtype_name(dtype), begin);
  return ExitCode::ok;
}

struct GenerateCommand {
  std::string prompt;
  std::string model = "builtin:target-7m";
  std::string proposer = "ngram";
  std::optional<std::string> draft;  // else the proposer's own
  int num_speculative_tokens = 5;
  int max_tokens = 96;
  double temperature = 0;
  int64_t seed = 1;
  int tp = 1;
  int pp = 1;
  bool raw = false;  // no chat template
  std::optional<std::string> pre;
  bool ids = false;  // token ids in place of text
  std::string dtype = "auto";
};

ExitCode generate_command(const GenerateCommand& command) {
  ExperimentConfig config = default_config();
  if (command.prompt == "-")
    fail(ExitCode::usage, "prompt \"-\": standard input is not read; pass the text, as in generate \"$(cat FILE)\"");
  check_model_name(config, "--model", command.model);
  config.engine.target.path = command.model;
  config.engine.target.pre = command.pre;
  config.engine.target.dtype = command.dtype;
  config.engine.parallel.tp = command.tp;
  config.engine.parallel.pp = command.pp;
  config.engine.scheduler.max_num_seqs = 1;
  config.speculation.proposer = command.proposer;
  config.speculation.num_speculative_tokens = config.speculation.drafts() ? command.num_speculative_tokens : 0;
  if (auto& draft = config.speculation.of(command.proposer).model) {
    if (command.draft) draft->path = *command.draft;
    check_model_name(config, "--draft", draft->path);
  } else if (command.draft) {
    std::vector<std::string> others;
    for (const ProposerEntry& entry : proposer_list())
      if (entry.has_second_model()) others.emplace_back(entry.name);
    fail(ExitCode::usage, "--draft: the proposer \"{}\" takes no model; --proposer {} does", command.proposer,
         fmt::join(others, " or "));
  }
  config.sampling.temperature = command.temperature;
  config.sampling.seed = command.seed;
  config.sampling.max_tokens = command.max_tokens;
  derive_paths(config);
  const int ranks = command.tp * command.pp;
  EngineLoad load(config, {.threads_per_rank = std::max(1, usable_cores() / ranks),
                           .max_draft_len = config.speculation.num_speculative_tokens});
  const bool chat = !command.raw;
  Prompt prompt{.id = "prompt", .category = {}, .index = 0, .messages = {}, .text = {}};
  if (chat)
    prompt.messages = {{"user", command.prompt}};
  else
    prompt.text = command.prompt;
  const auto encoded = encode_prompts({prompt}, *load.tokenizer(), config.engine.target.directory,
                                      chat ? ChatFormat::template_of_model : ChatFormat::raw_text);
  check_prompts_fit(encoded, length_limit(config, load.plan()));
  const auto engine = load.make_engine(config);
  engine->submit(encoded.front().tokens, sampling_params(config.sampling));
  StreamDecoder decoder(load.tokenizer(), {.skip_special = true});
  const auto begin = Clock::now();
  FinishReason finish = FinishReason::none;
  while (!engine->idle()) {
    for (const Emitted& emitted : engine->step()) {
      finish = emitted.finish;
      for (int32_t token : emitted.token)
        fmt::print("{}", command.ids ? fmt::format("{} ", token) : decoder.push(token));
      std::fflush(stdout);
    }
  }
  fmt::print("{}\n", command.ids ? "" : decoder.flush());
  std::fflush(stdout);  // before what goes to standard error
  const double seconds = seconds_since(begin);
  const EngineCounters& counters = engine->counters();
  fmt::print(stderr, "{} in {:.2f} s ({:.0f} tok/s); {} of the target, {} of {} accepted\n",
             counted(counters.emitted, "token"), seconds, double(counters.emitted) / seconds,
             counted(counters.verdicts, "pass", "passes"), counters.accepted, counted(counters.drafted, "draft token"));
  if (finish == FinishReason::numerical_error)
    fail(ExitCode::model_file, "{}: {}: a logit is NaN or Inf; the weights hold values that overflow",
         config.engine.target.directory.string(), finish_reason_name(finish));
  return ExitCode::ok;
}

/// builtin:NAME as the folder of that model.
std::filesystem::path tokenizer_path(const std::string& name) {
  if (!name.starts_with("builtin:")) return name;
  ExperimentConfig config = default_config();
  check_model_name(config, "--tokenizer", name);
  config.engine.target.path = name;
  derive_paths(config);
  return config.engine.target.directory;
}

constexpr size_t kMaxTextBytes = size_t{1} << 30;  // of a file to be tokenized

/// The lines of a text, or the prompts of a built-in data set.
std::vector<std::string> records_of(const std::string& name) {
  std::vector<std::string> records;
  if (name.starts_with("builtin:")) {
    const ExperimentConfig config = default_config();
    if (config.builtin_root.empty()) fail_without_builtin_root(name);
    for (const Prompt& prompt : load_dataset(name, config.builtin_root / "workloads"))
      records.push_back(prompt.plain_text());
    return records;
  }
  std::istringstream in(read_user_file(name, {.max_bytes = kMaxTextBytes, .takes_pipes = true}));
  for (std::string line; std::getline(in, line);) records.push_back(std::move(line));
  return records;
}

/// Token ids, one line a record.
struct TokenizeCommand {
  std::string tokenizer, file, pre;
  bool corpus = false;
};

ExitCode tokenize_command(const TokenizeCommand& command) {
  const auto tokenizer = Tokenizer::load(tokenizer_path(command.tokenizer), {.pre = command.pre});
  if (command.corpus) fmt::print("{}", corpus_header(vocabulary_id(*tokenizer)));
  for (const std::string& record : records_of(command.file))
    fmt::print("{}\n", fmt::join(tokenizer->encode(record), " "));
  return ExitCode::ok;
}

}  // namespace

void add_model_commands(const Command& program) {
  constexpr const char* kPreHelp = "engine.target.pre: the pre-tokenizer, if the tokenizer's file names none";
  const auto inflate = std::make_shared<SaveCommand>();
  program.below("inflate", "pad a small checkpoint to a big model's shape: same output at the big model's cost")
      .option("small", &inflate->from, "checkpoint to start from: builtin:NAME or a folder", {.required = true})
      .option("shape", &inflate->shape, "NAME of configs/shapes, or a .json file like those", {.required = true})
      .option("out", &inflate->out, "folder to make; it must not exist", {.required = true})
      .calls([inflate] { return inflate_command(*inflate); });

  const auto convert = std::make_shared<SaveCommand>();
  program.below("convert", "write a .gguf file as a Hugging Face folder")
      .option("file", &convert->from, "the .gguf file, or one part of a split one", {.required = true})
      .option("out", &convert->out, "folder to make; it must not exist", {.required = true})
      .option("--dtype", &convert->dtype, "dtype of dequantized weights (auto is bfloat16, float32 is exact)",
              {.shown = true, .words = {"auto", "float32", "bfloat16"}})
      .calls([convert] { return convert_command(*convert); });

  const auto generate = std::make_shared<GenerateCommand>();
  program.below("generate", "continue one prompt and print the text")
      .option("prompt", &generate->prompt, "the user's message; the model's chat template is applied, unless --raw",
              {.required = true})
      .option("--model", &generate->model, "builtin:NAME, a folder or a .gguf file", {.shown = true})
      .option("--proposer", &generate->proposer, "", {.shown = true, .words = proposer_names(ProposerNames::all)})
      .option("--draft", &generate->draft, "draft model, for a proposer that takes one (default: its built-in one)")
      .option("-k,--num-speculative-tokens", &generate->num_speculative_tokens, "draft tokens per verify step",
              {.shown = true, .least = 0, .most = 64})
      .option("--max-tokens", &generate->max_tokens, "maximum number of output tokens",
              {.shown = true, .least = 1, .most = 1'000'000})
      .option("--temperature", &generate->temperature, "0: greedy", {.shown = true, .least = 0, .most = 10})
      .option("--seed", &generate->seed, "sampling seed", {.shown = true, .least = 0})
      .option("--tp", &generate->tp, "tensor-parallel ranks", {.shown = true, .least = 1, .most = 64})
      .option("--pp", &generate->pp, "pipeline stages", {.shown = true, .least = 1, .most = 64})
      .option("--dtype", &generate->dtype, "weights in memory (auto: the checkpoint's)",
              {.shown = true, .words = {"auto", "float32", "bfloat16", "float16"}})
      .option("--raw", &generate->raw, "continue the prompt as it is, without the chat template")
      .option("--pre", &generate->pre, kPreHelp)
      .option("--ids", &generate->ids, "print token ids in place of text")
      .footer(
          "Examples:\n"
          "  runexp generate \"Say hello.\"\n"
          "  runexp generate --proposer draft -k 3 --tp 2 \"Say hello.\"")
      .calls([generate] { return generate_command(*generate); });

  const auto tokenize = std::make_shared<TokenizeCommand>();
  program.below("tokenize", "print token ids, one record per line")
      .option("--tokenizer", &tokenize->tokenizer,
              "builtin:NAME, a folder, tokenizer.json, tokenizer.model or a .gguf file", {.required = true})
      .option("--file", &tokenize->file, "text, one record per line, or builtin:NAME: the prompts of that data set",
              {.required = true})
      .option("--pre", &tokenize->pre, kPreHelp)
      .option("--corpus", &tokenize->corpus,
              "print a header line with the vocabulary's name, as speculation.ngram.corpus needs")
      .calls([tokenize] { return tokenize_command(*tokenize); });
}

}  // namespace paceline
