#pragma once
// A GGUF file (ggml/docs/gguf.md), versions 2 and 3, little-endian: metadata as typed values, then where each tensor
// lies. Everything an address depends on is checked when the file is opened; tensors' bytes are not read.
//
//   "GGUF" | version u32 | tensors u64 | entries u64
//   entries:  key string | type u32 | value                      string: length u64, then that many bytes
//   tensors:  name string | dims u32 | size u64 each, columns first | type u32 | offset u64 (into the data)
//   padding to general.alignment (32) | data
//
// A model may be split: NAME-00001-of-00003.gguf and so on, each a whole GGUF file with split.no and split.count; the
// first has the metadata.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/util/gguf_types.h"
#include "engine/util/mapped_file.h"

namespace paceline {

/// A value of the metadata: a view of the file, as large as it is there. Conversions say what was asked for; the caller
/// names file and key where they say no.
class GgufValue {
 public:
  enum class Kind : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

  /// REQUIRES checked bytes: `count` elements of `kind`, one after another.
  GgufValue(Kind kind, bool is_array, uint64_t count, std::span<const std::byte> bytes)
      : kind_(kind), is_array_(is_array), count_(count), bytes_(bytes) {}

  Kind kind() const { return kind_; }  // of the elements, where it is an array
  bool is_array() const { return is_array_; }
  uint64_t count() const { return count_; }  // 1 unless it is an array

  /// Elements as integers, numbers or text. A value that is no array counts as one of a single element.
  /// Empty where the kind is another: integers() of numbers with a fraction, or above 63 bits; strings() of numbers;
  /// booleans() of integers, 0 and 1 among them.
  std::vector<int64_t> integers() const;
  std::vector<double> reals() const;  // of integers, too
  std::vector<std::string_view> strings() const;
  std::vector<bool> booleans() const;
  bool is_true() const;  // a boolean that is set

  std::string text() const;  // short, for messages: `"llama"`, `30`, `array of 49152 strings`

 private:
  Kind kind_;
  bool is_array_;
  uint64_t count_;
  std::span<const std::byte> bytes_;
};

struct GgufTensor {
  std::string name;
  const GgufTypeInfo* type = nullptr;  // static storage
  std::vector<int64_t> shape;          // rows first: [rows, cols]
  size_t file = 0;                     // of GgufFile::files()
  uint64_t offset = 0;                 // bytes from the start of that file
  uint64_t bytes = 0;
};

/// All files of a model. Owns the mappings: values and data live as long as it does (moves included).
/// Const after construction, any thread.
class GgufFile {
 public:
  /// `path`: the file, or any one of a split model's. Throws Error(model_file) naming file and entry, tensor or byte.
  explicit GgufFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return files_.front().path(); }  // the first, of a split model
  const std::vector<MappedFile>& files() const { return files_; }

  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;           // null: no such entry
  const GgufTensor* find_tensor(std::string_view name) const;  // null: no such tensor
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }
  const std::byte* data(const GgufTensor& tensor) const { return files_[tensor.file].bytes().data() + tensor.offset; }

 private:
  void add_file(const std::filesystem::path& path, uint64_t num_parts);  // num_parts 0: all of the model

  std::vector<MappedFile> files_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;
};

/// By its name: ends in ".gguf" and is no folder.
bool is_gguf_path(const std::filesystem::path& path);

/// By its name: a part of a split model, and not its first one.
bool is_later_gguf_part(const std::filesystem::path& path);

}  // namespace paceline
