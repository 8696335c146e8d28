#pragma once
// Shape files (configs/shapes/NAME.json): the config.json of a public model without its weights, and which small
// checkpoint is meant to be inflated to it.

#include <filesystem>
#include <string>

#include "engine/model/model_spec.h"

namespace paceline {

struct ModelShape {
  std::string name;    // of the file, without its extension
  std::string source;  // the file, for messages
  std::string
      parent;  // name of the small checkpoint that belongs to it: advice, any other that fits will do; may be empty
  bool exact = false;  // whether inflating that parent changes nothing but rounding beyond float64 (inflate.h)
  ModelSpec spec;
};

/// Throws Error(usage) naming file, field, value found and what was expected; Error(model_file) when the file cannot be
/// read.
ModelShape load_model_shape(const std::filesystem::path& file);

}  // namespace paceline
