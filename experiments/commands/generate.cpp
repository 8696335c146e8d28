// runexp generate: one prompt and its text

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/json_schema.h"
#include "engine/tokenizer/detokenizer.h"
#include "engine/util/clock.h"
#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "engine/util/user_file.h"
#include "experiments/commands/builtin_names.h"
#include "experiments/commands/command_line.h"
#include "experiments/config/keys/schema.h"
#include "experiments/run/engine_load.h"
#include "experiments/workload/dataset.h"
#include "experiments/workload/request_sampling.h"
#include "experiments/workload/requests.h"
#include "kernels/cpu/cores.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

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
  std::optional<std::string> json_schema;  // a file
  std::vector<std::string> set;            // KEY=VALUE
};

/// What has an option of its own here.
struct OptionOfKey {
  const char *key, *option;
};
constexpr OptionOfKey kOptionsOfKeys[] = {{"engine.target.path", "--model"},
                                          {"engine.target.pre", "--pre"},
                                          {"engine.target.dtype", "--dtype"},
                                          {"engine.parallel.tp", "--tp"},
                                          {"engine.parallel.pp", "--pp"},
                                          {"speculation.proposer", "--proposer"},
                                          {"speculation.num_speculative_tokens", "-k"},
                                          {"sampling.temperature", "--temperature"},
                                          {"sampling.seed", "--seed"},
                                          {"sampling.max_tokens", "--max-tokens"}};

void check_setting(const std::string& setting) {
  const KeySpec* const key = key_of_setting(setting);
  if (!key) return;  // load_config() says so
  for (const OptionOfKey& of : kOptionsOfKeys)
    if (key->path == of.key) fail(ExitCode::usage, "generate: --set {}: expected {} in its place", of.key, of.option);
  const std::string section = key->path.substr(0, key->path.find('.'));
  if (section != "engine" && section != "speculation" && section != "sampling")
    fail(ExitCode::usage,
         "generate: --set {}: one text has no use for it; expected a key of engine, speculation or "
         "sampling",
         key->path);
}

/// Defaults, and what --set says beside the model and the proposer.
ExperimentConfig config_with_settings(const GenerateCommand& command, const std::string& model) {
  ConfigOverrides overrides;
  const auto add = [&](const char* key, const std::string& value) {
    overrides.set.push_back(fmt::format("{}={}", key, ConfigJson(value).dump()));
  };
  add("engine.target.path", model);
  add("speculation.proposer", command.proposer);
  overrides.set.push_back(fmt::format("sampling.max_tokens={}", command.max_tokens));  // lengths are checked against it
  for (const std::string& setting : command.set) {
    check_setting(setting);
    overrides.set.push_back(setting);
  }
  return default_config(overrides);
}

/// Of texts of JSON that are valid under the schema in `file`.
ByteGrammar schema_grammar(const std::string& file) {
  constexpr size_t kMaxSchemaBytes = size_t{1} << 20;
  const std::string text =
      read_user_file(file, {.code = ExitCode::usage, .max_bytes = kMaxSchemaBytes, .takes_pipes = true});
  const nlohmann::ordered_json schema = parse_ordered_json(text, file, ExitCode::usage);
  try {
    return json_schema_grammar(schema);
  } catch (const GrammarError& error) {
    fail(ExitCode::usage, "{}: {}", file, error.what());
  }
}

/// ends: tokens that end a text.
std::shared_ptr<TokenConstraint> constraint_of(ByteGrammar grammar, const Tokenizer& tokenizer,
                                               const std::vector<int32_t>& ends) {
  if (ends.empty()) fail(ExitCode::usage, "--json-schema: the model has no token that ends a text");
  return make_grammar_constraint(std::make_shared<CompiledGrammar>(std::move(grammar), TokenTrie::make(tokenizer)),
                                 ends);
}

ExitCode generate_command(const GenerateCommand& command) {
  if (command.prompt == "-")
    fail(ExitCode::usage, "prompt \"-\": standard input is not read; pass the text, as in generate \"$(cat FILE)\"");
  ExperimentConfig config = default_config();
  const std::string model = found_model(config, "--model", command.model);
  if (!command.set.empty()) config = config_with_settings(command, model);
  config.engine.target.path = model;
  config.engine.target.pre = command.pre;
  config.engine.target.dtype = command.dtype;
  config.engine.parallel.tp = command.tp;
  config.engine.parallel.pp = command.pp;
  config.engine.scheduler.max_num_seqs = 1;
  config.speculation.proposer = command.proposer;
  config.speculation.num_speculative_tokens = config.speculation.drafts() ? command.num_speculative_tokens : 0;
  if (auto& draft = config.speculation.of(command.proposer).model) {
    draft->path = found_model(config, "--draft", command.draft.value_or(draft->path));
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
  std::optional<ByteGrammar> grammar;  // before a model takes its time
  if (command.json_schema) grammar = schema_grammar(*command.json_schema);
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
  SamplingParams params = sampling_params(config.sampling);
  if (grammar) params.constraint = constraint_of(std::move(*grammar), *load.tokenizer(), engine->eos_token_ids());
  engine->submit(encoded.front().tokens, params);
  StreamDecoder decoder(load.tokenizer(), {.skip_special = true});
  const auto begin = Clock::now();
  FinishReason finish = FinishReason::none;
  const char* separator = "";
  while (!engine->idle()) {
    for (const Emitted& emitted : engine->step()) {
      finish = emitted.finish;
      for (int32_t token : emitted.token)
        fmt::print("{}", command.ids ? fmt::format("{}{}", std::exchange(separator, " "), token) : decoder.push(token));
      std::fflush(stdout);
    }
  }
  fmt::print("{}\n", command.ids ? "" : decoder.flush());
  std::fflush(stdout);  // before what goes to standard error
  const double seconds = seconds_since(begin);
  const EngineCounters& counters = engine->counters();
  fmt::print(stderr, "{} in {} ({:.0f} tok/s); {} of the target, {} of {} accepted\n",
             counted(counters.emitted, "token"), time_text(seconds), double(counters.emitted) / seconds,
             counted(counters.verdicts, "pass", "passes"), counters.accepted, counted(counters.drafted, "draft token"));
  const bool ends_with_context = counters.emitted < command.max_tokens;
  if (finish == FinishReason::length && (command.json_schema || ends_with_context))
    spdlog::warn("the text was cut at {}{}",
                 ends_with_context
                     ? fmt::format("the model's context, {} tokens with the prompt", load.plan().max_model_len)
                     : fmt::format("--max-tokens {}", command.max_tokens),
                 command.json_schema ? ": its JSON is not complete" : "");
  if (finish == FinishReason::numerical_error)
    fail(ExitCode::model_file, "{}: {}: {}", config.engine.target.directory.string(), finish_reason_name(finish),
         command.json_schema ? "no token may follow within the schema, or a logit is NaN or Inf"
                             : "a logit is NaN or Inf; the weights hold values that overflow");
  return ExitCode::ok;
}

}  // namespace

void add_generate_command(const Command& program) {
  const auto generate = std::make_shared<GenerateCommand>();
  program.below("generate", "continue one prompt and print the text")
      .option("prompt", &generate->prompt, "the user's message; the model's chat template is applied, unless --raw",
              {.required = true})
      .option("--model", &generate->model, "builtin:NAME, a folder or a .gguf file, here or in $PACELINE_MODELS",
              {.shown = true})
      .option("--proposer", &generate->proposer, "",
              {.shown = true, .words = proposer_names(ProposerNames::for_anyone)})
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
      .option("--json-schema", &generate->json_schema, "file of a JSON Schema: the text is JSON that is valid under it")
      .option("--pre", &generate->pre, kPreHelp)
      .option("--ids", &generate->ids, "print token ids in place of text")
      .option("--set", &generate->set, "override another value, e.g. --set speculation.ngram.max=5",
              {.repeated = true, .type = "KEY=VALUE"})
      .footer(
          "Examples:\n"
          "  runexp generate \"Say hello.\"\n"
          "  runexp generate --proposer draft -k 3 --tp 2 \"Say hello.\"\n"
          "  runexp generate --proposer draft --set speculation.draft.width=3 --set sampling.top_p=0.9 \\\n"
          "    --temperature 0.8 \"Tell me a story.\"\n"
          "  runexp generate --json-schema schema.json \"Who built the bridge?\"")
      .calls([generate] { return generate_command(*generate); });
}

}  // namespace paceline
