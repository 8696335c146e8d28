#pragma once
// An inflated model as a source of tensors: each part is made when it is asked for, and nothing is kept.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/model/model_shape.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/made/generated_tensors.h"

namespace paceline {

struct InflatedModel {
  nlohmann::json config;  // config.json of the big model
  ModelSpec parent;
  ModelSpec spec;
  bool exact = false;
};

/// What the checkpoint in `parent_dir` becomes in `shape`. Reads no weights.
/// Throws Error(model_file) when there is no config.json, Error(usage) for a .gguf file; else see load_model_spec and
/// inflated_config.
InflatedModel inflate_model(const std::filesystem::path& parent_dir, const ModelShape& shape);

/// Owns the parent's mappings. Values have the type of the parent's tensors.
/// Memory: a part costs its own size; the parent's pages come and go with the file's.
class InflatedCheckpoint final : public TensorSource {
 public:
  /// Throws Error(model_file) when the parent's tensors are not as its config.json says, or not all of one type.
  InflatedCheckpoint(Checkpoint parent, const InflatedModel& model);

  std::string label() const override { return parent_.label(); }
  const TensorInfo* find(std::string_view name) const override { return tensors_.find(name); }
  std::vector<std::string> names() const override { return tensors_.names(); }
  TensorPart part(std::string_view name, const TensorRange& range) const override;
  void release(std::string_view name) const override;

 private:
  Checkpoint parent_;
  ModelSpec parent_spec_;
  ModelSpec spec_;
  TensorList tensors_;
};

}  // namespace paceline
