#include "engine/weights/model_source.h"

#include <system_error>

#include "engine/weights/checkpoint.h"
#include "engine/weights/gguf_checkpoint.h"
#include "engine/weights/made/dummy_checkpoint.h"
#include "engine/weights/made/inflated_checkpoint.h"

namespace paceline {
namespace {

ModelSpec random_spec(const ModelSource& source) {
  if (source.shape_file.empty()) return load_model_spec(source.directory);
  ModelSpec spec = load_model_shape(source.shape_file).spec;
  std::error_code ignored;
  if (is_gguf_path(source.directory) || std::filesystem::exists(source.directory / "config.json", ignored)) {
    const ModelSpec ids = load_model_spec(source.directory);
    spec.eos_token_ids = ids.eos_token_ids;
    spec.bos_token_id = ids.bos_token_id;
    spec.pad_token_id = ids.pad_token_id;
  }
  return spec;
}

}  // namespace

ModelSpec source_spec(const ModelSource& source) {
  if (source.random_weights) return random_spec(source);
  if (source.shape_file.empty()) return load_model_spec(source.directory);
  return inflate_model(source.directory, load_model_shape(source.shape_file)).spec;
}

std::unique_ptr<TensorSource> open_tensors(const ModelSource& source) {
  if (source.random_weights) return std::make_unique<DummyCheckpoint>(random_spec(source), source.directory.string());
  if (is_gguf_path(source.directory) && source.shape_file.empty())
    return std::make_unique<GgufCheckpoint>(GgufFile(source.directory), source.widened);
  Checkpoint checkpoint = Checkpoint::open(source.directory);
  if (source.shape_file.empty()) return std::make_unique<Checkpoint>(std::move(checkpoint));
  const InflatedModel model = inflate_model(source.directory, load_model_shape(source.shape_file));
  return std::make_unique<InflatedCheckpoint>(std::move(checkpoint), model);
}

std::string describe_source(const ModelSource& source) {
  const std::string shape = source.shape_file.stem().string();
  if (source.random_weights) return shape.empty() ? "random weights" : "random weights, shape " + shape;
  if (shape.empty()) return "";
  const bool exact = inflate_model(source.directory, load_model_shape(source.shape_file)).exact;
  return fmt::format("inflated from {} to {} ({})", source.directory.filename().string(), shape,
                     exact ? "exact" : "inexact");
}

}  // namespace paceline
