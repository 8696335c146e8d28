#pragma once
// The target of a load computes logits again, by passes of many rows and of few.

#include "engine/transformer/model.h"
#include "experiments/analysis/outputs/flips.h"

namespace paceline {

/// What the model was made with.
struct ModelRoom {
  int block_size = 16;
  int max_num_rows = 0;
  int max_num_logit_rows = 0;
};

/// Over a model on which no engine works: it takes sequence slot 0 and the first pages, and leaves both as something
/// that the next engine overwrites. The last layer and the head multiply the rows whose logits are wanted: a pass of
/// many rows wants those of the last one many times, as far as there is room.
class ModelLogits final : public TargetLogits {
 public:
  ModelLogits(Model& model, const ModelRoom& room) : model_(model), room_(room) {}

  int longest_prefix() const override { return model_.max_model_len(); }
  TwoLogits compute(std::span<const int32_t> prefix) override;

 private:
  struct Passes {
    int most_rows = 0;
    int fewest_rows = 0;  // shorter pieces are padded
    int logit_rows = 1;
  };
  std::vector<float> run(std::span<const int32_t> prefix, const Passes& passes);

  Model& model_;
  const ModelRoom room_;
};

}  // namespace paceline
