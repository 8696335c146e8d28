#pragma once
// The tokenizers of an experiment's models.

#include <memory>

#include "engine/tokenizer/tokenizer.h"
#include "experiments/config/config.h"

namespace paceline {

/// Throws what Tokenizer::load throws.
std::shared_ptr<const Tokenizer> load_tokenizer(const TargetConfig& target);
std::shared_ptr<const Tokenizer> load_tokenizer(const SecondModelConfig& model);

}  // namespace paceline
