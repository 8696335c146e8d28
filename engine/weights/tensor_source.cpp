#include "engine/weights/tensor_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/extent.h"

namespace paceline {
namespace {

/// to[col, row] = from[row, col], in squares that stay in the cache. Shapes: from [rows, cols], to [cols, rows].
template <class Bits>
void transpose_into(const HostWeight& from, Bits* to, int64_t to_stride) {
  constexpr int64_t kSquare = 32;
  const auto* const data = static_cast<const Bits*>(from.data);
  for (int64_t row = 0; row < from.rows; row += kSquare)
    for (int64_t col = 0; col < from.cols; col += kSquare)
      for (int64_t c = col; c < std::min(col + kSquare, from.cols); ++c)
        for (int64_t r = row; r < std::min(row + kSquare, from.rows); ++r)
          to[c * to_stride + r] = data[r * from.row_stride + c];
}

size_t bytes_of(const TensorRange& range, DType dtype) {
  return size_t(range.num_rows) * size_t(range.num_cols) * dtype_bytes(dtype);
}

TensorPart part_in(MappedMemory memory, const TensorRange& range, DType dtype) {
  TensorPart part;
  part.owned = std::move(memory);
  part.view = {.data = part.owned.data(),
               .dtype = dtype,
               .rows = range.num_rows,
               .cols = range.num_cols,
               .row_stride = range.num_cols};
  return part;
}

}  // namespace

TensorRange whole_range(const TensorInfo& tensor) {
  PACELINE_CHECK(tensor.shape.size() == 1 || tensor.shape.size() == 2, "{} has shape {}", tensor.name,
                 tensor.shape_text());
  return {.num_rows = tensor.shape.size() == 2 ? tensor.shape.front() : 1, .num_cols = tensor.shape.back()};
}

TensorPart new_part(const TensorRange& range, DType dtype) {
  return part_in(MappedMemory(bytes_of(range, dtype)), range, dtype);
}

TensorPart TensorSource::room_for(const TensorRange& range, DType dtype) const {
  const size_t bytes = bytes_of(range, dtype);
  MappedMemory memory;
  {
    const std::scoped_lock lock(spare_->mutex);
    auto best = spare_->parts.end();  // the smallest that is large enough
    for (auto each = spare_->parts.begin(); each != spare_->parts.end(); ++each)
      if (each->bytes() >= bytes && (best == spare_->parts.end() || each->bytes() < best->bytes())) best = each;
    if (best != spare_->parts.end()) {
      memory = std::move(*best);
      spare_->parts.erase(best);
      spare_->bytes -= memory.bytes();
    }
  }
  if (memory.data()) {  // its end is where this part's is
    permit_extent(memory.data(), memory.bytes());
    forbid_extent(static_cast<char*>(memory.data()) + bytes, memory.bytes() - bytes);
  }
  TensorPart part = memory.data() ? part_in(std::move(memory), range, dtype) : new_part(range, dtype);
  part.lent = true;
  return part;
}

void TensorSource::recycle(TensorPart part) const {
  if (!part.lent) return;
  const std::scoped_lock lock(spare_->mutex);
  if (spare_->bytes + part.owned.bytes() > kMostSpareBytes) return;
  spare_->bytes += part.owned.bytes();
  spare_->parts.push_back(std::move(part.owned));
}

size_t TensorSource::spare_bytes() const {
  const std::scoped_lock lock(spare_->mutex);
  return spare_->bytes;
}

void copy_into(const HostWeight& from, CopyOrder order, TensorPart& to, int64_t row, int64_t col) {
  const bool transposed = order == CopyOrder::transposed;
  PACELINE_CHECK(from.dtype == to.view.dtype && row + (transposed ? from.cols : from.rows) <= to.view.rows &&
                     col + (transposed ? from.rows : from.cols) <= to.view.cols,
                 "[{}, {}] at ({}, {}) of [{}, {}]", from.rows, from.cols, row, col, to.view.rows, to.view.cols);
  const size_t element = dtype_bytes(from.dtype), stride = size_t(to.view.row_stride);
  auto* const bytes = static_cast<std::byte*>(to.owned.data()) + (size_t(row) * stride + size_t(col)) * element;
  if (transposed) {
    if (element == 2)
      transpose_into(from, reinterpret_cast<uint16_t*>(bytes), to.view.row_stride);
    else
      transpose_into(from, reinterpret_cast<uint32_t*>(bytes), to.view.row_stride);
    return;
  }
  for (int64_t r = 0; r < from.rows; ++r)
    std::memcpy(bytes + size_t(r) * stride * element,
                static_cast<const std::byte*>(from.data) + size_t(r * from.row_stride) * element,
                size_t(from.cols) * element);
}

}  // namespace paceline
