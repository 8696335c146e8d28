#pragma once
// Small checkpoints on disk for tests, good and bad ones.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline::test {

/// A folder of its own, removed with everything in it at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, std::string_view bytes);
std::string read_file(const std::filesystem::path& path);

/// Header length, header, data: nothing is checked.
std::string safetensors_bytes(std::string_view header, std::string_view data);

int64_t num_elements(const std::vector<int64_t>& shape);

struct TestTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
  std::string dtype = "F32";  // F32, BF16 (values are cut, not rounded) or I64
};

/// A well-formed file, tensors in the given order.
void write_safetensors(const std::filesystem::path& path, const std::vector<TestTensor>& tensors);

/// A small Llama: 2 layers, hidden 16, 4 heads over 2 KV heads of 4, ffn 32, vocabulary 21.
nlohmann::json tiny_llama_config();

/// The tensors that `config` (Llama keys, biases and tied head included) asks for. Element i of the t-th tensor is
/// t + i / 4096: every value tells where it comes from and is exact in float32.
std::vector<TestTensor> llama_tensors(const nlohmann::json& config);

/// config.json and model.safetensors.
void write_llama(const std::filesystem::path& dir, const nlohmann::json& config);

}  // namespace paceline::test
