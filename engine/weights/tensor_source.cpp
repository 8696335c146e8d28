#include "engine/weights/tensor_source.h"

namespace paceline {

TensorRange whole_range(const TensorInfo& tensor) {
  PACELINE_CHECK(tensor.shape.size() == 1 || tensor.shape.size() == 2, "{} has shape {}", tensor.name,
                 tensor.shape_text());
  return {.num_rows = tensor.shape.size() == 2 ? tensor.shape.front() : 1, .num_cols = tensor.shape.back()};
}

TensorPart new_part(const TensorRange& range, DType dtype) {
  TensorPart part;
  part.owned = MappedMemory(size_t(range.num_rows) * size_t(range.num_cols) * dtype_bytes(dtype));
  part.view = {.data = part.owned.data(),
               .dtype = dtype,
               .rows = range.num_rows,
               .cols = range.num_cols,
               .row_stride = range.num_cols};
  return part;
}

}  // namespace paceline
