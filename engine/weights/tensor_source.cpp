#include "engine/weights/tensor_source.h"

namespace paceline {

TensorRange whole_range(const TensorInfo& tensor) {
  PACELINE_CHECK(tensor.shape.size() == 1 || tensor.shape.size() == 2, "{} has shape {}", tensor.name,
                 tensor.shape_text());
  return {.num_rows = tensor.shape.size() == 2 ? tensor.shape.front() : 1, .num_cols = tensor.shape.back()};
}

}  // namespace paceline
