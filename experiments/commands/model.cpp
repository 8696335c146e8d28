// runexp inflate, convert, tokenize: checkpoints, and text as their tokens

#include <cstdio>
#include <sstream>

#include <spdlog/spdlog.h>

#include "engine/model/gguf_model.h"
#include "engine/text/utf8.h"
#include "engine/tokenizer/gguf_tokenizer.h"
#include "engine/tokenizer/token_table_json.h"
#include "engine/util/clock.h"
#include "engine/util/user_file.h"
#include "engine/weights/gguf_checkpoint.h"
#include "engine/weights/made/inflate.h"
#include "engine/weights/made/inflated_checkpoint.h"
#include "engine/weights/renamed_checkpoint.h"
#include "engine/weights/save_checkpoint.h"
#include "engine/weights/shard_weights.h"
#include "experiments/commands/builtin_names.h"
#include "experiments/commands/command_line.h"
#include "experiments/commands/commands.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/config/keys/schema.h"
#include "experiments/run/engine_load.h"
#include "experiments/workload/dataset.h"
#include "speculative/vocabulary_match.h"

namespace paceline {
namespace {

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

/// Ctrl-C leaves nothing of the folder.
void save_unless_stopped(const TensorSource& source, const std::filesystem::path& out, SaveOptions options) {
  install_interrupt_handler();
  options.before_part = [&out] {
    if (num_interrupts() > 0) fail(interrupt_exit_code(), "{}: stopped, nothing of it is left", out.string());
  };
  save_checkpoint(source, out, options);
}

/// Writes the checkpoint that engine.target.inflate would load, as a Hugging Face folder.
ExitCode inflate_command(const SaveCommand& command) {
  check_new_folder(command.out);
  ExperimentConfig config = default_config();
  config.engine.target.path = found_model(config, "SMALL", command.from);
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
  save_unless_stopped(source, command.out, std::move(options));
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
  check_new_folder(command.out);
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
  save_unless_stopped(RenamedCheckpoint(source, from, to), command.out, std::move(options));
  if (!has_tokenizer) spdlog::warn("{}: holds no tokenizer; the folder has none", command.from);
  print_written(command.out, command.from, to, dtype_name(dtype), begin);
  return ExitCode::ok;
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
  const auto tokenizer = Tokenizer::load(model_path("--tokenizer", command.tokenizer), {.pre = command.pre});
  if (command.corpus) fmt::print("{}", corpus_header(vocabulary_id(*tokenizer)));
  for (const std::string& record : records_of(command.file))
    fmt::print("{}\n", fmt::join(tokenizer->encode(record), " "));
  return ExitCode::ok;
}

}  // namespace

void add_model_commands(const Command& program) {
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
}

void add_tokenize_command(const Command& program) {
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
