#pragma once
// Random weights for a model without a checkpoint (vLLM's load_format "dummy"): the arithmetic, and so the time, of the
// real thing; its tokens mean nothing.

#include <string>
#include <string_view>
#include <vector>

#include "engine/weights/made/generated_tensors.h"
#include "engine/weights/tensor_source.h"

namespace paceline {

inline constexpr uint64_t kDummySeed = 2;

/// A matrix of k columns has standard deviation k^-0.5, norms have weight 1, biases are 0: a row of unit size stays one
/// of unit size through each linear, so activations stay finite at any depth.
class DummyCheckpoint final : public TensorSource {
 public:
  /// `label` names the model in messages. Values have the spec's checkpoint_dtype, rounded to bfloat16 first.
  DummyCheckpoint(const ModelSpec& spec, std::string label);

  std::string label() const override { return label_; }
  const TensorInfo* find(std::string_view name) const override { return tensors_.find(name); }
  std::vector<std::string> names() const override { return tensors_.names(); }
  TensorPart part(std::string_view name, const TensorRange& range) const override;
  void release(std::string_view) const override {}  // nothing is kept

 private:
  std::string label_;
  TensorList tensors_;
};

}  // namespace paceline
