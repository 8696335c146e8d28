#pragma once
// Tensors of inflated models, part by part.

#include "engine/weights/made/inflate.h"
#include "engine/weights/tensor_source.h"
#include "kernels/math/random_weight.h"

namespace paceline {

/// `range` of the tensor that `recipe` makes of `parent` (void where the recipe takes nothing from it), with random
/// values of `key`. The values do not depend on the range.
TensorPart make_part(const TensorRecipe& recipe, const math::WeightKey& key, const HostWeight& parent,
                     const TensorRange& range, DType dtype);

}  // namespace paceline
