#pragma once
// The tensors of a GGUF file. F32, F16 and BF16 are views of the mapping; packed ones are widened when they are asked
// for, and no values are kept.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/util/gguf.h"
#include "engine/weights/tensor_source.h"

namespace paceline {

/// Owns the mappings. Threads: const members from any thread; a part of a packed tensor is made by as many as there are
/// usable cores and work for them.
/// Memory: a part of a packed tensor costs its own size, and lends what it took to later ones (TensorSource::recycle);
/// the file's pages come and go with the file's.
class GgufCheckpoint final : public TensorSource {
 public:
  /// Packed matrices become `widened` (float32 is exact, bfloat16 and float16 are rounded to nearest even), packed
  /// vectors float32. Tensors of a type that Paceline cannot read are found, without a dtype.
  GgufCheckpoint(GgufFile file, DType widened);

  const GgufFile& file() const { return file_; }
  std::string label() const override { return file_.path().string(); }
  const TensorInfo* find(std::string_view name) const override;  // bytes and file_dtype: of what part() gives
  std::vector<std::string> names() const override;
  /// Throws Error(model_file) where the tensor has a type that cannot be read, with the list of those that can; more
  /// than two dimensions; or when the file has shrunk since it was opened.
  TensorPart part(std::string_view name, const TensorRange& range) const override {
    return part_on(nullptr, name, range);
  }
  TensorPart part_on(ThreadPool* pool, std::string_view name, const TensorRange& range) const override;
  TensorPart rows_of(std::string_view name, const TensorRange& range) const override;
  void release(std::string_view name) const override;

 private:
  const GgufTensor& tensor(std::string_view name) const;
  /// A view of the mapping, or one without rows: the tensor is packed. Throws what part() throws.
  HostWeight view_of(std::string_view name, const TensorRange& range) const;

  GgufFile file_;
  std::map<std::string, TensorInfo, std::less<>> infos_;
};

}  // namespace paceline
