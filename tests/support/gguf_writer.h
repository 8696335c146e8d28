#pragma once
// GGUF files for tests, good and bad ones.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/util/gguf.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline::test {

/// Builds the bytes of a file piece by piece; nothing is checked.
class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;  // of the data; written as general.alignment where it is another

  void add(const std::string& key, std::string_view text);
  void add(const std::string& key, const char* text) { add(key, std::string_view(text)); }
  void add(const std::string& key, uint32_t number);
  void add(const std::string& key, float number);
  void add(const std::string& key, bool value);
  void add(const std::string& key, const std::vector<std::string>& texts);
  void add(const std::string& key, const std::vector<int32_t>& numbers);
  void add(const std::string& key, const std::vector<float>& numbers);
  void add(const std::string& key, const std::vector<bool>& values);
  /// Any bytes as an entry's value.
  void add_raw(const std::string& key, GgufValue::Kind kind, std::string_view bytes);

  /// `shape`: rows first. `data`: as packed.
  void add_tensor(const std::string& name, const std::vector<int64_t>& shape, GgufType type, std::string_view data);
  void add_tensor(const TestTensor& tensor);  // as F32

  std::string bytes() const;

  /// A number as the file has it.
  template <class T>
  requires std::is_arithmetic_v<T>
  static std::string raw(T number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }
  static std::string raw(std::string_view text) { return raw(uint64_t(text.size())) + std::string(text); }

 private:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    uint32_t type;
    std::string data;
  };
  uint64_t num_entries_ = 0;
  std::string entries_;
  std::vector<Tensor> tensors_;
};

/// A Llama's metadata, without tokenizer, and its tensors (Hugging Face names) as llama.cpp's converter writes them:
/// the rows of q and k by pairs, F32. `config`: Llama keys.
GgufWriter llama_gguf(const nlohmann::json& config, const std::vector<TestTensor>& tensors);

/// The same of a checkpoint's folder, its values in float32.
GgufWriter llama_gguf(const std::filesystem::path& folder);

}  // namespace paceline::test
