#include "tests/support/checkpoint_writer.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <stdexcept>

namespace paceline::test {
namespace fs = std::filesystem;
using nlohmann::json;

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "paceline-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder: " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = char((uint64_t(header.size()) >> (8 * i)) & 0xff);
  return bytes.append(header).append(data);
}

void write_safetensors(const fs::path& path, const std::vector<TestTensor>& tensors) {
  json header = json::object();
  std::string data;
  for (const TestTensor& tensor : tensors) {
    const size_t begin = data.size();
    for (const float value : tensor.values) {
      char bytes[4];
      std::memcpy(bytes, &value, 4);
      if (tensor.dtype == "F32") data.append(bytes, 4);
      if (tensor.dtype == "BF16") data.append(bytes + 2, 2);
      const int64_t integer = int64_t(value);
      if (tensor.dtype == "I64") data.append(reinterpret_cast<const char*>(&integer), sizeof integer);
    }
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  write_file(path, safetensors_bytes(text, data));
}

json tiny_llama_config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 16},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"intermediate_size", 32},
          {"vocab_size", 21},
          {"max_position_embeddings", 64}};
}

int64_t num_elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<TestTensor> llama_tensors(const json& config) {
  const int64_t d = config["hidden_size"], ffn = config["intermediate_size"], vocab = config["vocab_size"];
  const int64_t heads = config["num_attention_heads"], head_dim = config.value("head_dim", d / heads);
  const int64_t q = heads * head_dim, kv = int64_t{config["num_key_value_heads"]} * head_dim;
  std::vector<TestTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    std::vector<float> values;
    for (int64_t i = 0; i < num_elements(shape); ++i) values.push_back(float(tensors.size()) + float(i) / 4096.0f);
    tensors.push_back({name, std::move(shape), std::move(values)});
  };
  const auto linear = [&](const std::string& name, int64_t rows, int64_t cols, bool with_bias) {
    add(name + ".weight", {rows, cols});
    if (with_bias) add(name + ".bias", {rows});
  };
  const bool attention_bias = config.value("attention_bias", false), mlp_bias = config.value("mlp_bias", false);
  add("model.embed_tokens.weight", {vocab, d});
  for (int layer = 0; layer < config["num_hidden_layers"]; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    add(prefix + "input_layernorm.weight", {d});
    linear(prefix + "self_attn.q_proj", q, d, attention_bias);
    linear(prefix + "self_attn.k_proj", kv, d, attention_bias);
    linear(prefix + "self_attn.v_proj", kv, d, attention_bias);
    linear(prefix + "self_attn.o_proj", d, q, attention_bias);
    add(prefix + "post_attention_layernorm.weight", {d});
    linear(prefix + "mlp.gate_proj", ffn, d, mlp_bias);
    linear(prefix + "mlp.up_proj", ffn, d, mlp_bias);
    linear(prefix + "mlp.down_proj", d, ffn, mlp_bias);
  }
  add("model.norm.weight", {d});
  if (!config.value("tie_word_embeddings", false)) add("lm_head.weight", {vocab, d});
  return tensors;
}

void write_llama(const fs::path& dir, const json& config) {
  fs::create_directories(dir);
  write_file(dir / "config.json", config.dump(2));
  write_safetensors(dir / "model.safetensors", llama_tensors(config));
}

}  // namespace paceline::test
