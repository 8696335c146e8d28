#include "engine/model/model_spec.h"

#include <algorithm>
#include <system_error>
#include <unordered_set>

#include <spdlog/spdlog.h>

#include "engine/model/families.h"
#include "engine/model/gguf_model.h"
#include "engine/model/model_spec_reader.h"
#include "engine/model/weight_table.h"
#include "engine/util/json_io.h"
#include "kernels/cpu/storage.h"

namespace paceline {
namespace fs = std::filesystem;
namespace {

// Old Llama configs use -1 for "none".
constexpr IntRange kOptionalId{-1, std::numeric_limits<int32_t>::max()};

DType parse_dtype(const ConfigReader& config) {
  const char* key = config.has("dtype") ? "dtype" : "torch_dtype";
  std::string name = config.text(key, "float32");
  if (name.starts_with("torch.")) name = name.substr(6);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    if (name == dtype_name(dtype)) return dtype;
  fail(ExitCode::usage, "{}: unsupported dtype {}; supported: float32, float16, bfloat16", config.where(key),
       json_literal(name));
}

void refuse_quantization(const ConfigReader& config) {
  const auto quantization = config.object("quantization_config");
  if (!quantization) return;
  fail(ExitCode::usage,
       "{}: quantized checkpoints are not supported (quant_method {}); supported: float32, float16, "
       "bfloat16 weights",
       config.where("quantization_config"), json_literal(quantization->text("quant_method", "unknown")));
}

const Family& family_of(const ConfigReader& config) {
  const std::vector<std::string> names = config.texts("architectures");
  for (const std::string& name : names)
    if (const Family* family = find_family(name)) return *family;
  if (names[0].find("Eagle3") != std::string::npos)
    fail(ExitCode::usage, "{}: {} is an EAGLE-3 head, which drafts for a model; name it in speculation.eagle3.path",
         config.where("architectures"), json_literal(names[0]));
  fail(ExitCode::usage, "{}: unknown architecture {}{}; supported: {}; docs/adding.md says how to add one",
       config.where("architectures"), json_literal(names[0]), nearest_architecture(names[0]),
       supported_architectures());
}

/// An id beyond the vocabulary ends no text: models cut from larger ones keep such ids.
void add_eos_ids(const ConfigReader& config, ModelSpec& spec) {
  std::unordered_set<int32_t> known(spec.eos_token_ids.begin(), spec.eos_token_ids.end());
  for (const int32_t id : config.integers("eos_token_id", {0, std::numeric_limits<int32_t>::max()})) {
    if (!known.insert(id).second) continue;
    if (id < spec.vocab_size)
      spec.eos_token_ids.push_back(id);
    else
      spdlog::warn("{}: {} lies beyond vocab_size {}; no text ends with it", config.where("eos_token_id"), id,
                   spec.vocab_size);
  }
}

/// What a folder without config.json is instead, where that is known.
void refuse_other_folders(const fs::path& dir) {
  std::error_code error;
  if (fs::exists(dir / "adapter_config.json", error))
    fail(ExitCode::usage, "{}: LoRA adapters are not supported; merge the adapter into its base model first",
         (dir / "adapter_config.json").string());
  std::vector<fs::path> files;
  for (fs::directory_iterator each(dir, error), end; !error && each != end; each.increment(error))
    if (is_gguf_path(each->path())) files.push_back(each->path());
  if (files.empty()) return;
  const fs::path first = *std::min_element(files.begin(), files.end());
  fail(ExitCode::model_file, "{}: found no config.json, but {}; pass {}", dir.string(),
       files.size() == 1 ? "a GGUF file" : fmt::format("{} GGUF files", files.size()),
       files.size() == 1 ? first.string() : fmt::format("one of them, such as {}", first.string()));
}

}  // namespace

ModelSpec load_model_spec(const fs::path& model_dir) {
  if (is_gguf_path(model_dir)) return gguf_spec(GgufFile(model_dir));
  const fs::path path = model_dir / "config.json";
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) refuse_other_folders(model_dir);
  ModelSpec spec = parse_model_spec(read_model_config(path), path.string());
  add_generation_eos(model_dir, spec);
  return spec;
}

ModelSpec parse_model_spec(const nlohmann::json& document, const std::string& source) {
  const ConfigReader config(document, source);
  if (config.has("auto_map"))
    spdlog::warn("{}: auto_map {} names code inside the model; it is ignored", source,
                 short_dump(config.value("auto_map")));
  refuse_quantization(config);
  const Family& family = family_of(config);
  ModelSpec spec = family.parse(config);
  spec.family = family.name;
  spec.checkpoint_dtype = parse_dtype(config);
  add_eos_ids(config, spec);
  spec.bos_token_id = config.integer("bos_token_id", kOptionalId, -1);
  spec.pad_token_id = config.integer("pad_token_id", kOptionalId, -1);
  warn_of_misspelled(config.misspelled());
  return spec;
}

void add_generation_eos(const fs::path& model_dir, ModelSpec& spec) {
  const fs::path path = model_dir / "generation_config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const nlohmann::json generation = read_model_config(path);
  add_eos_ids(ConfigReader(generation, path.string()), spec);
}

bool ModelSpec::any_layer(bool (*has)(const LayerSpec&)) const {
  return std::any_of(layers.begin(), layers.end(), has);
}

float ModelSpec::embed_scale_in(DType dtype) const {
  const auto rounded = [&](auto as) {
    from_f32(embed_scale, &as);
    return to_f32(as);
  };
  return dtype == DType::bf16 ? rounded(BFloat{}) : dtype == DType::f16 ? rounded(Half{}) : embed_scale;
}

int64_t ModelSpec::num_parameters() const {
  int64_t total = 0;
  for (const ExpectedTensor& tensor : expected_tensors(*this)) {
    int64_t size = 1;
    for (const int64_t dim : tensor.shape) size *= dim;
    total += size;
  }
  return total;
}

}  // namespace paceline
