#pragma once
// The tensors of a model folder: model.safetensors, or the shards that model.safetensors.index.json names.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/weights/tensor_source.h"

namespace paceline {

/// Owns the mappings; every view that weight() hands out lives as long as the Checkpoint. No weight is copied and
/// nothing but the headers is read: a slice is pointer arithmetic in the mapping.
/// Threads: const members from any thread (the ranks of one process share a Checkpoint).
class Checkpoint final : public TensorSource {
 public:
  /// Throws Error(model_file). Shards must lie inside the folder (or in the blobs folder of a Hugging Face cache);
  /// pickle and GGUF files are refused with a hint (gguf_checkpoint.h opens the latter).
  static Checkpoint open(const std::filesystem::path& model_dir);

  const std::filesystem::path& dir() const { return dir_; }
  std::string label() const override { return dir_.string(); }
  const TensorInfo* find(std::string_view name) const override;
  std::vector<std::string> names() const override;
  uint64_t total_bytes() const { return total_bytes_; }  // of all tensors

  /// The tensor as [rows, cols] (one dimension: [1, n]) in the mapping.
  /// Throws Error(model_file) when it is absent, has more than two dimensions, is not float32, float16 or bfloat16,
  /// or the file has shrunk since it was opened.
  HostWeight weight(std::string_view name) const;

  /// The values of an I64 tensor of one dimension. Throws Error(model_file) when it is absent or anything else.
  std::vector<int64_t> integers(std::string_view name) const;

  /// A view of weight(name).
  TensorPart part(std::string_view name, const TensorRange& range) const override;

  /// Gives back the memory of the tensor's file pages; throws when the file has shrunk since it was opened, so that
  /// what was read from it is not trusted.
  void release(std::string_view name) const override;

 private:
  struct Entry {
    size_t file = 0;
    size_t tensor = 0;
  };
  void add_file(const std::filesystem::path& path);
  const Entry& entry(std::string_view name) const;

  std::filesystem::path dir_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Entry, std::less<>> entries_;
  uint64_t total_bytes_ = 0;
};

}  // namespace paceline
