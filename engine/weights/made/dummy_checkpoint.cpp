#include "engine/weights/made/dummy_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/row_blocks.h"

namespace paceline {
DummyCheckpoint::DummyCheckpoint(const ModelSpec& spec, std::string label)
    : label_(std::move(label)), tensors_(spec, spec.checkpoint_dtype) {}

TensorPart DummyCheckpoint::part(std::string_view name, const TensorRange& range) const {
  const ExpectedTensor& tensor = tensors_.expected(name);
  const int64_t cols = tensor.shape.back();
  const bool is_matrix = tensor.shape.size() == 2 && !is_norm(tensor.role);
  // norms multiply by one
  const bool is_one = is_norm(tensor.role) && tensor.piece == TensorPiece::weight && !tensor.plus_one;
  const float constant = is_one ? 1.0f : 0.0f;
  const math::WeightKey key = weight_key(kDummySeed, tensor);
  TensorPart part = new_part(range, tensors_.dtype());
  with_storage(tensors_.dtype(), [&]<class Storage>(Storage) {
    auto* const out = static_cast<typename Storage::Bits*>(part.owned.data());
    for_row_blocks(range.num_rows, range.num_cols, [&](int64_t begin, int64_t end) {
      std::vector<uint16_t> noise(size_t(range.num_cols));
      for (int64_t row = begin; row < end; ++row) {
        auto* const to = out + row * range.num_cols;
        if (is_matrix)
          fill_random(key, 1.0 / std::sqrt(double(cols)), (range.row_begin + row) * cols + range.col_begin, noise);
        for (int64_t i = 0; i < range.num_cols; ++i)
          Storage::put(is_matrix ? to_f32(BFloat{noise[size_t(i)]}) : constant, to + i);
      }
    });
  });
  return part;
}

}  // namespace paceline
