#pragma once
// The tokenizer of the built-in model, loaded once.

#include <memory>

#include "engine/tokenizer/tokenizer.h"
#include "tests/support/paths.h"

namespace paceline::test {

inline std::shared_ptr<const Tokenizer> small_tokenizer() {
  static const auto loaded = Tokenizer::load(builtin_model("target-7m"));
  return loaded;
}

}  // namespace paceline::test
