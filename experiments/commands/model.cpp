// runexp inflate, generate, tokenize, verify-model

#include <array>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <system_error>
#include <thread>

#include "engine/tokenizer/detokenizer.h"
#include "engine/util/counted.h"
#include "engine/util/gguf.h"
#include "engine/util/printable.h"
#include "engine/util/suggest.h"
#include "engine/util/user_file.h"
#include "engine/weights/made/inflated_checkpoint.h"
#include "engine/weights/save_checkpoint.h"
#include "experiments/commands/command_line.h"
#include "experiments/commands/verify_model.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/config/keys/schema.h"
#include "experiments/results/files/environment.h"
#include "experiments/run/engine_load.h"
#include "experiments/workload/dataset.h"
#include "experiments/workload/request_sampling.h"
#include "experiments/workload/requests.h"
#include "kernels/cpu/cores.h"
#include "speculative/proposer_entry.h"
#include "speculative/vocabulary_match.h"

namespace paceline {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;  // of a file to be tokenized

/// A configuration of defaults, for commands without a file.
ExperimentConfig default_config() {
  ExperimentConfig config;
  config.builtin_root = find_builtin_root("config.json");
  return config;
}

std::vector<std::string> builtin_models(const ExperimentConfig& config) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(config.builtin_root / "models", ignored)) {
    if (entry.is_directory(ignored)) names.push_back("builtin:" + entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A wrong name behind builtin: is a typo.
void check_model_name(const ExperimentConfig& config, const char* option, const std::string& name) {
  if (name.empty()) fail(ExitCode::usage, "{}: found nothing, expected builtin:NAME, a folder or a .gguf file", option);
  if (!name.starts_with("builtin:")) return;
  if (config.builtin_root.empty()) fail_without_builtin_root(name);
  const std::vector<std::string> known = builtin_models(config);
  if (std::find(known.begin(), known.end(), name) == known.end())
    fail(ExitCode::usage, "{}: \"{}\": no model of that name is built in{}: there are {}", option, name,
         did_you_mean(name, known), fmt::join(known, ", "));
}

/// The file of a shape given by name or by file name.
std::filesystem::path shape_file(const ExperimentConfig& config, const std::string& shape) {
  if (!is_shape_name(shape)) return shape;
  if (config.builtin_root.empty()) fail_without_builtin_root(shape);
  std::vector<std::string> known;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(config.builtin_root / "shapes", ignored)) {
    if (entry.path().extension() == ".json") known.push_back(entry.path().stem().string());
  }
  std::sort(known.begin(), known.end());
  if (std::find(known.begin(), known.end(), shape) == known.end())
    fail(ExitCode::usage, "SHAPE: \"{}\": no shape of that name is built in{}: there are {}", shape,
         did_you_mean(shape, known), fmt::join(known, ", "));
  return config.builtin_root / "shapes" / (shape + ".json");
}

constexpr std::array kTextFiles = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",     "chat_template.jinja",   "generation_config.json"};

std::string model_card(const InflatedModel& model, const ModelShape& shape, const std::string& parent) {
  return fmt::format(
      "# {0} inflated to {1}\n\n"
      "The sizes of {1} ({2} layers x {3}, heads {4}/{5} x {6}, MLP {7}, vocabulary {8}) and the function of {0}: "
      "what\n"
      "it says is {0}'s text, what a step costs is {1}'s. Made for timing by `runexp inflate`; the random part has "
      "seed "
      "{9}.\n\n"
      "{10}\n",
      parent, shape.name, model.spec.num_layers, model.spec.hidden_size, model.spec.num_heads, model.spec.num_kv_heads,
      model.spec.head_dim, model.spec.intermediate_size, model.spec.vocab_size, kInflateSeed,
      model.exact ? "exact: every factor is a power of two; logits differ by rounding alone."
                  : "inexact: factors that are no powers of two are rounded in the weights; tokens may differ from the "
                    "parent's.");
}

struct InflateCommand {
  std::string parent;  // builtin:NAME or a folder
  std::string shape;   // NAME of configs/shapes or a .json file
  std::filesystem::path out;
};

/// Writes the checkpoint that engine.target.inflate would load, as a Hugging Face folder.
ExitCode inflate_command(const InflateCommand& command) {
  ExperimentConfig config = default_config();
  check_model_name(config, "SMALL", command.parent);
  config.engine.target.path = command.parent;
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
  const auto start = std::chrono::steady_clock::now();
  save_checkpoint(source, command.out, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}: {} as {}, {:.3f} G parameters, {}, written in {:.1f} s\n", command.out.string(), parent.string(),
             shape.name, double(model.spec.num_parameters()) / 1e9, model.exact ? "exact" : "inexact", seconds);
  return ExitCode::ok;
}

constexpr const char* kPreHelp = "how text is cut, where the tokenizer's file does not say it: engine.target.pre";

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

/// "; --proposer draft does"; "" where none does.
std::string proposers_with_model() {
  std::string names;
  for (const ProposerEntry& entry : proposer_list())
    if (entry.has_second_model()) names += fmt::format("{}{}", names.empty() ? "" : " or ", entry.name);
  return names.empty() ? "" : fmt::format("; --proposer {} does", names);
}

ExitCode generate_command(const GenerateCommand& command) {
  ExperimentConfig config = default_config();
  if (command.prompt == "-")
    fail(ExitCode::usage, "prompt \"-\": standard input is not read; pass the text, as in generate \"$(cat FILE)\"");
  if (!find_proposer(command.proposer))
    fail(ExitCode::usage, "--proposer: \"{}\" is unknown{}: use {}", command.proposer,
         did_you_mean(command.proposer, proposer_names(ProposerNames::all)), proposer_names_text(ProposerNames::all));
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
    fail(ExitCode::usage, "--draft: the proposer \"{}\" takes no model{}", command.proposer, proposers_with_model());
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
  const auto start = std::chrono::steady_clock::now();
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
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const EngineCounters& counters = engine->counters();
  fmt::print(stderr, "{} in {:.2f} s ({:.0f} tok/s); {} of the target, {} of {} accepted\n",
             counted(counters.emitted, "token"), seconds, double(counters.emitted) / seconds,
             counted(counters.verdicts, "pass", "passes"), counters.accepted, counted(counters.drafted, "draft"));
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

/// A prompt's words without the form that a chat template gives them.
std::string words_of(const Prompt& prompt) {
  std::string text = prompt.text;
  for (const PromptMessage& message : prompt.messages) text += (text.empty() ? "" : "\n") + message.content;
  return text;
}

/// The lines of a text, or the prompts of a built-in data set.
std::vector<std::string> records_of(const std::string& name) {
  std::vector<std::string> records;
  if (name.starts_with("builtin:")) {
    const ExperimentConfig config = default_config();
    if (config.builtin_root.empty()) fail_without_builtin_root(name);
    for (const Prompt& prompt : load_dataset(name, config.builtin_root / "workloads"))
      records.push_back(words_of(prompt));
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

ExitCode verify_model_command(VerifyModelOptions options) {
  if (!is_gguf_path(options.model_dir) && !std::filesystem::is_directory(options.model_dir))
    fail(ExitCode::model_file, "{}: no such folder", options.model_dir.string());
  options.threads_per_rank = std::max(1, usable_cores() / (options.tp * options.pp));
  const VerifyModelReport report = verify_model(options);
  fmt::print("{}", report.summary);
  return report.passed ? ExitCode::ok : ExitCode::correctness;
}

void add_inflate_command(const Command& program) {
  const auto inflate = std::make_shared<InflateCommand>();
  program.below("inflate", "write a small checkpoint in a big shape: the same text at the big model's cost, for timing")
      .option("small", inflate->parent, "checkpoint to start from: builtin:NAME or a folder", {.required = true})
      .option("shape", inflate->shape, "NAME of configs/shapes, or a .json file like those", {.required = true})
      .option("out", inflate->out, "folder to make; it must not exist", {.required = true})
      .calls([inflate] { return inflate_command(*inflate); });
}

void add_generate_command(const Command& program) {
  const auto generate = std::make_shared<GenerateCommand>();
  program.below("generate", "continue one prompt and print the text")
      .option("prompt", generate->prompt, "the user's message", {.required = true})
      .option("--model", generate->model, "builtin:NAME, a folder or a .gguf file", {.shown = true})
      .option("--proposer", generate->proposer, proposer_names_text(ProposerNames::all),
              {.shown = true, .offers = [] { return proposer_names(ProposerNames::all); }})
      .option("--draft", generate->draft, "draft model, for a proposer that takes one")
      .option("-k,--num-speculative-tokens", generate->num_speculative_tokens, "drafts per step",
              {.shown = true, .least = 0, .most = 64})
      .option("--max-tokens", generate->max_tokens, "", {.shown = true, .least = 1, .most = 1'000'000})
      .option("--temperature", generate->temperature, "", {.shown = true, .least = 0, .most = 10})
      .option("--seed", generate->seed, "", {.shown = true, .least = 0})
      .option("--tp", generate->tp, "", {.shown = true, .least = 1, .most = 64})
      .option("--pp", generate->pp, "", {.shown = true, .least = 1, .most = 64})
      .option("--dtype", generate->dtype, "weights in memory; auto is the checkpoint's",
              {.shown = true, .words = {"auto", "float32", "bfloat16", "float16"}})
      .flag("--raw", generate->raw, "no chat template")
      .option("--pre", generate->pre, kPreHelp)
      .flag("--ids", generate->ids, "print token ids in place of text")
      .calls([generate] { return generate_command(*generate); });
}

void add_tokenize_command(const Command& program) {
  const auto tokenize = std::make_shared<TokenizeCommand>();
  program.below("tokenize", "print token ids, one line a record")
      .option("--tokenizer", tokenize->tokenizer,
              "builtin:NAME, a folder, tokenizer.json, tokenizer.model or a .gguf file", {.required = true})
      .option("--file", tokenize->file, "text, one record a line, or builtin:NAME: the prompts of that data set",
              {.required = true})
      .option("--pre", tokenize->pre, kPreHelp)
      .flag("--corpus", tokenize->corpus, "name the vocabulary in a first line, as speculation.ngram.corpus wants it")
      .calls([tokenize] { return tokenize_command(*tokenize); });
}

void add_verify_model_command(const Command& program) {
  const auto verify = std::make_shared<VerifyModelOptions>();
  program.below("verify-model", "compare a checkpoint with the golden.json beside it")
      .option("dir", verify->model_dir, "checkpoint folder or .gguf file", {.required = true})
      .option("--golden", verify->golden, "reference file, if not beside the checkpoint")
      .option("--tp", verify->tp, "", {.shown = true, .least = 1, .most = 64})
      .option("--pp", verify->pp, "", {.shown = true, .least = 1, .most = 64})
      .option("--dtype", verify->dtype, "weights in memory; goldens are computed in float32",
              {.shown = true, .words = {"auto", "float32", "bfloat16", "float16"}})
      .option("--max-logit-error", verify->max_logit_error,
              "largest difference that passes; by default 1e-4, in 16-bit types 1/64 of the largest logit",
              {.least = 0})
      .calls([verify] { return verify_model_command(*verify); });
}

}  // namespace

void add_model_commands(const Command& program) {
  add_inflate_command(program);
  add_generate_command(program);
  add_tokenize_command(program);
  add_verify_model_command(program);
}

}  // namespace paceline
