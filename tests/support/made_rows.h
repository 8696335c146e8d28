#pragma once
// Weights whose rows are made when they are asked for, of ones that lie in memory.

#include <cstring>
#include <memory>
#include <utility>

#include "engine/weights/tensor_source.h"

namespace paceline::test {

/// Copies rows of what lies elsewhere.
class CopiedRows final : public RowSource {
 public:
  explicit CopiedRows(TensorPart from) : from_(std::move(from)) {}
  explicit CopiedRows(const HostWeight& view) : CopiedRows(TensorPart{.view = view, .owned = {}}) {}
  void make(int64_t begin, int64_t count, void* out) const override {
    const HostWeight& view = from_.view;
    const size_t element = dtype_bytes(view.dtype), row_bytes = size_t(view.cols) * element;
    for (int64_t row = 0; row < count; ++row)
      std::memcpy(static_cast<char*>(out) + size_t(row) * row_bytes,
                  static_cast<const char*>(view.data) + size_t((begin + row) * view.row_stride) * element, row_bytes);
  }
  /// Without rows of its own. `this` outlives it.
  HostWeight view() const {
    HostWeight made = from_.view;
    made.data = nullptr;
    made.row_stride = made.cols;
    made.made = this;
    return made;
  }

 private:
  TensorPart from_;
};

/// The tensors of another source, as if each were packed.
class MakesRows final : public TensorSource {
 public:
  explicit MakesRows(const TensorSource& source) : source_(source) {}
  std::string label() const override { return source_.label(); }
  const TensorInfo* find(std::string_view name) const override { return source_.find(name); }
  std::vector<std::string> names() const override { return source_.names(); }
  TensorPart part(std::string_view name, const TensorRange& range) const override { return source_.part(name, range); }
  TensorPart rows_of(std::string_view name, const TensorRange& range) const override {
    const auto rows = std::make_shared<CopiedRows>(part(name, range));
    return {.view = rows->view(), .owned = {}, .made = rows};
  }
  void release(std::string_view name) const override { source_.release(name); }

 private:
  const TensorSource& source_;
};

}  // namespace paceline::test
