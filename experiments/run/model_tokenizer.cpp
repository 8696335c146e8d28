#include "experiments/run/model_tokenizer.h"

namespace paceline {

std::shared_ptr<const Tokenizer> load_tokenizer(const TargetConfig& target) {
  return Tokenizer::load(target.directory, {.pre = target.pre.value_or("")});
}

std::shared_ptr<const Tokenizer> load_tokenizer(const SecondModelConfig& model) {
  return Tokenizer::load(model.directory, {.pre = model.pre.value_or("")});
}

}  // namespace paceline
