#pragma once
// One .safetensors file: an 8-byte little-endian header length, a JSON header, then the tensors' bytes without holes.
// Everything a tensor's address depends on is checked when the file is opened.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/util/mapped_file.h"
#include "kernels/mat_view.h"

namespace paceline {

/// The format's own cap; a larger claim is refused before anything is allocated.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

struct TensorInfo {
  std::string name;
  std::string file_dtype;      // as written: "BF16"
  std::optional<DType> dtype;  // empty: a storage type that Paceline cannot compute with (such a tensor may be unused)
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // bytes from the start of the file
  uint64_t bytes = 0;

  std::string shape_text() const;  // "[8193, 256]"
};

/// Owns the mapping. Const after construction, any thread.
class SafetensorsFile {
 public:
  /// Throws Error(model_file) naming the file and the tensor or byte offset at fault.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the order of their bytes
  const MappedFile& file() const { return file_; }
  const std::byte* data(const TensorInfo& tensor) const { return file_.bytes().data() + tensor.offset; }

 private:
  MappedFile file_;
  std::vector<TensorInfo> tensors_;
};

/// If the first bytes are those of a pickle, zip, GGUF or Git LFS pointer: what to tell the user, else "".
std::string foreign_format_hint(std::span<const std::byte> bytes);

inline constexpr const char* kPickleRefused =
    "pickle checkpoints are refused (they can run code); convert to safetensors with experiments/convert_pickle.py";
inline constexpr const char* kGgufRefused =
    "is a GGUF file, expected safetensors; give the path of the .gguf file itself in place of its folder";

}  // namespace paceline
