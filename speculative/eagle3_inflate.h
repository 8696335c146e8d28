#pragma once
// The head of an inflated target (engine/weights/made/inflate.h): the parent's head inside a big one that drafts the
// same, so that a draft costs what the head of a big model costs.
//
// - As wide as the target; its heads keep their dimensions and are as many as fill the target's q, k and v; the MLP is
//   the target's. New rows and columns are as those of a decoder layer of the target.
// - fc reads the old dimensions of each tap, and writes zeros to the new ones, but for the carrier.
// - It drafts from a quarter of the target's vocabulary, as published heads do. New rows stand for new tokens; the
//   carrier, which fc takes from the first tap, sees to it that none is ever drafted.
// - Taps enter the layers where the parent's lie.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/weights/checkpoint.h"
#include "engine/weights/made/generated_tensors.h"
#include "engine/weights/made/inflate.h"
#include "kernels/math/random_weight.h"
#include "speculative/eagle3_spec.h"

namespace paceline {

/// Throws Error(usage) for a head with what inflation does not know: norms of taps, other recycled states, norms of
/// heads, biases, embeddings of its own. label: of the head's folder.
Eagle3Spec inflated_head_spec(const Eagle3Spec& head, const ModelSpec& parent, const ModelSpec& target,
                              const std::string& label);

/// Its tensors, made when they are asked for.
class InflatedHead final : public TensorSource {
 public:
  /// `inflated`: of inflated_head_spec. parent, target: as there.
  InflatedHead(Checkpoint source, const Eagle3Spec& head, const Eagle3Spec& inflated, const ModelSpec& parent,
               const ModelSpec& target);

  std::string label() const override { return source_.label(); }
  const TensorInfo* find(std::string_view name) const override { return entries_.find(name); }
  std::vector<std::string> names() const override { return entries_.names(); }
  TensorPart part(std::string_view name, const TensorRange& range) const override;
  void release(std::string_view name) const override { source_.release(name); }

 private:
  struct Entry {
    TensorRecipe recipe;
    TensorInfo info;
    math::WeightKey key;
  };

  Checkpoint source_;
  DType dtype_ = DType::f32;
  TensorEntries<Entry> entries_;
};

/// A head as it is loaded for a target.
struct Eagle3Files {
  Eagle3Spec spec;
  std::unique_ptr<TensorSource> tensors;
};

/// The head in `dir`. parent: of an inflated target, for which the head was made; else null. Throws as load_eagle3_spec
/// and inflated_head_spec do.
Eagle3Files open_eagle3_head(const std::filesystem::path& dir, const ModelSpec& target,
                             const ModelSpec* parent = nullptr);

}  // namespace paceline
