#include "engine/weights/made/inflated_checkpoint.h"

#include <utility>

#include "engine/util/gguf.h"
#include "engine/util/json_io.h"
#include "engine/weights/made/recipe_part.h"
#include "engine/weights/shard_weights.h"

namespace paceline {
namespace {

/// The type of the parent's matrices: the inflated tensors are all of it.
DType common_dtype(const Checkpoint& parent, const ModelSpec& spec) {
  check_tensors(parent, spec);
  const std::vector<ExpectedTensor> tensors = expected_tensors(spec);
  const DType dtype = parent.weight(tensors.front().name).dtype;
  for (const ExpectedTensor& tensor : tensors) {
    if (parent.weight(tensor.name).dtype != dtype)
      fail(ExitCode::model_file, "{}: tensor {}: found {}, expected {} as in {}; save the parent in one type",
           parent.label(), json_literal(tensor.name), parent.find(tensor.name)->file_dtype,
           parent.find(tensors.front().name)->file_dtype, json_literal(tensors.front().name));
  }
  return dtype;
}

}  // namespace

InflatedModel inflate_model(const std::filesystem::path& parent_dir, const ModelShape& shape) {
  const std::filesystem::path file = parent_dir / "config.json";
  if (is_gguf_path(parent_dir))
    fail(ExitCode::usage, "{}: a GGUF file cannot be inflated; make a folder of it first: runexp convert FILE.gguf OUT",
         parent_dir.string());
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    fail(ExitCode::model_file, "{}: no such file; expected the checkpoint to inflate to shape {}: {} belongs to it",
         file.string(), shape.name, shape.parent);
  InflatedModel model;
  model.parent = load_model_spec(parent_dir);
  const nlohmann::json parent_config = read_model_config(file);
  model.config = inflated_config(parent_config, model.parent, parent_dir.string(), shape);
  model.spec = parse_model_spec(model.config, file.string());
  add_generation_eos(parent_dir, model.spec);
  model.exact = inflates_exactly(model.parent, model.spec);
  return model;
}

InflatedCheckpoint::InflatedCheckpoint(Checkpoint parent, const InflatedModel& model)
    : parent_(std::move(parent)),
      parent_spec_(model.parent),
      spec_(model.spec),
      tensors_(model.spec, common_dtype(parent_, model.parent)) {}

TensorPart InflatedCheckpoint::part(std::string_view name, const TensorRange& range) const {
  const ExpectedTensor& tensor = tensors_.expected(name);
  const TensorRecipe recipe = inflate_recipe(parent_spec_, spec_, tensor);
  PACELINE_CHECK(range.row_begin + range.num_rows <= int64_t(recipe.rows.size()) &&
                     range.col_begin + range.num_cols <= int64_t(recipe.cols.size()),
                 "{}: rows [{}, +{}), columns [{}, +{}) of [{}, {}]", name, range.row_begin, range.num_rows,
                 range.col_begin, range.num_cols, recipe.rows.size(), recipe.cols.size());
  const math::WeightKey key = weight_key(kInflateSeed, tensor);
  const HostWeight parent = recipe.parent.empty() ? HostWeight{} : parent_.weight(recipe.parent);
  return make_part(recipe, key, parent, range, tensors_.dtype());
}

void InflatedCheckpoint::release(std::string_view name) const {
  const TensorRecipe recipe = inflate_recipe(parent_spec_, spec_, tensors_.expected(name));
  if (!recipe.parent.empty()) parent_.release(recipe.parent);
}

}  // namespace paceline
