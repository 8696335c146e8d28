// runexp convert

#include <chrono>
#include <utility>

#include <spdlog/spdlog.h>

#include "engine/model/gguf_model.h"
#include "engine/text/utf8.h"
#include "engine/tokenizer/gguf_tokenizer.h"
#include "engine/tokenizer/token_table_json.h"
#include "engine/weights/gguf_checkpoint.h"
#include "engine/weights/renamed_checkpoint.h"
#include "engine/weights/save_checkpoint.h"
#include "engine/weights/shard_weights.h"
#include "experiments/commands/command_line.h"
#include "experiments/run/engine_load.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

struct ConvertCommand {
  std::filesystem::path file;
  std::filesystem::path out;
  std::string dtype = "auto";
};

std::string tokenizer_config(const GgufFile& file, const TokenTable& table) {
  Json config = gguf_special_tokens(file);
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
  Json generation = Json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (config.contains(key)) generation[key] = config[key];
  return generation.dump(2) + "\n";
}

std::string card_of(const GgufFile& file, std::string_view dtype) {
  return fmt::format("# {}\n\nMade of the GGUF file {} by `runexp convert`, its packed weights widened to {}.\n",
                     file.path().stem().string(), file.path().filename().string(), dtype);
}

ExitCode convert_command(const ConvertCommand& command) {
  if (!is_gguf_path(command.file))
    fail(ExitCode::usage, "FILE: found {}, expected a .gguf file", command.file.string());
  const auto start = std::chrono::steady_clock::now();
  const DType dtype = parse_dtype(command.dtype, DType::bf16);
  const GgufCheckpoint source(GgufFile(command.file), dtype);
  nlohmann::json config = gguf_config(source.file());
  config["torch_dtype"] = dtype_name(dtype);
  const ModelSpec from = gguf_spec(source.file()), to = parse_model_spec(config, command.file.string());
  check_tensors(source, from);
  SaveOptions options{.config = config, .card = card_of(source.file(), dtype_name(dtype)), .copies = {}};
  options.texts["generation_config.json"] = generation_config(config);
  const bool has_tokenizer = source.file().find("tokenizer.ggml.model");
  if (has_tokenizer) {
    const TokenTable table = gguf_token_table(source.file());
    options.texts["tokenizer.json"] = tokenizer_json(table).dump(1) + "\n";
    options.texts["tokenizer_config.json"] = tokenizer_config(source.file(), table);
  }
  save_checkpoint(RenamedCheckpoint(source, from, to), command.out, options);
  if (!has_tokenizer) spdlog::warn("{}: holds no tokenizer; the folder has none", command.file.string());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}: {}, {:.3f} G parameters, {}, written in {:.1f} s\n", command.out.string(), command.file.string(),
             double(to.num_parameters()) / 1e9, dtype_name(dtype), seconds);
  return ExitCode::ok;
}

}  // namespace

void add_convert_command(const Command& program) {
  const auto convert = std::make_shared<ConvertCommand>();
  program.below("convert", "write a .gguf file as a Hugging Face folder")
      .option("file", convert->file, "the .gguf file, or one part of a split one", {.required = true})
      .option("out", convert->out, "folder to make; it must not exist", {.required = true})
      .option("--dtype", convert->dtype, "what packed weights become; auto is bfloat16, float32 is exact",
              {.shown = true, .words = {"auto", "float32", "bfloat16"}})
      .calls([convert] { return convert_command(*convert); });
}

}  // namespace paceline
