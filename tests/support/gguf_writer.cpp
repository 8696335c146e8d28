#include "tests/support/gguf_writer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <utility>

#include "engine/util/json_io.h"
#include "engine/weights/checkpoint.h"
#include "kernels/host_weight.h"

namespace paceline::test {

void GgufWriter::add_raw(const std::string& key, GgufValue::Kind kind, std::string_view bytes) {
  entries_ += raw(key) + raw(uint32_t(kind)) + std::string(bytes);
  ++num_entries_;
}

namespace {

template <class T>
std::string array_bytes(GgufValue::Kind kind, const std::vector<T>& elements) {
  std::string bytes = GgufWriter::raw(uint32_t(kind)) + GgufWriter::raw(uint64_t(elements.size()));
  for (const T& element : elements) bytes += GgufWriter::raw(element);
  return bytes;
}

}  // namespace

void GgufWriter::add(const std::string& key, std::string_view text) {
  add_raw(key, GgufValue::Kind::string, raw(text));
}
void GgufWriter::add(const std::string& key, uint32_t number) { add_raw(key, GgufValue::Kind::u32, raw(number)); }
void GgufWriter::add(const std::string& key, float number) { add_raw(key, GgufValue::Kind::f32, raw(number)); }
void GgufWriter::add(const std::string& key, bool value) { add_raw(key, GgufValue::Kind::boolean, raw(value)); }
void GgufWriter::add(const std::string& key, const std::vector<std::string>& texts) {
  add_raw(key, GgufValue::Kind::array, array_bytes(GgufValue::Kind::string, texts));
}
void GgufWriter::add(const std::string& key, const std::vector<int32_t>& numbers) {
  add_raw(key, GgufValue::Kind::array, array_bytes(GgufValue::Kind::i32, numbers));
}
void GgufWriter::add(const std::string& key, const std::vector<float>& numbers) {
  add_raw(key, GgufValue::Kind::array, array_bytes(GgufValue::Kind::f32, numbers));
}
void GgufWriter::add(const std::string& key, const std::vector<bool>& values) {
  add_raw(key, GgufValue::Kind::array,
          array_bytes(GgufValue::Kind::boolean, std::vector<uint8_t>(values.begin(), values.end())));
}

void GgufWriter::add_tensor(const std::string& name, const std::vector<int64_t>& shape, GgufType type,
                            std::string_view data) {
  tensors_.push_back({name, shape, uint32_t(type), std::string(data)});
}

void GgufWriter::add_tensor(const TestTensor& tensor) {
  add_tensor(tensor.name, tensor.shape, GgufType::f32,
             {reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float)});
}

std::string GgufWriter::bytes() const {
  GgufWriter with_alignment = *this;
  if (alignment != 32) with_alignment.add("general.alignment", uint32_t(alignment));
  std::string out = "GGUF" + raw(version) + raw(uint64_t(tensors_.size())) + raw(with_alignment.num_entries_) +
                    with_alignment.entries_;
  const auto pad = [&](std::string& text) { text.resize((text.size() + alignment - 1) / alignment * alignment, '\0'); };
  std::string data;
  for (const Tensor& tensor : tensors_) {
    pad(data);
    out += raw(tensor.name) + raw(uint32_t(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim) out += raw(uint64_t(*dim));
    out += raw(tensor.type) + raw(uint64_t(data.size()));
    data += tensor.data;
  }
  pad(out);
  return out + data;
}

namespace {

/// Row 2i of a head's rows is its dimension i, row 2i + 1 its dimension i + head_dim / 2.
TestTensor by_pairs(TestTensor tensor, int64_t head_dim) {
  const std::vector<float> old = tensor.values;
  const int64_t cols = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    const int64_t head = row / head_dim * head_dim, place = row % head_dim;
    const int64_t from = head + place / 2 + place % 2 * (head_dim / 2);
    std::copy_n(old.begin() + from * cols, cols, tensor.values.begin() + row * cols);
  }
  return tensor;
}

}  // namespace

GgufWriter llama_gguf(const nlohmann::json& config, const std::vector<TestTensor>& tensors) {
  const auto number = [&](const char* key) { return config[key].get<uint32_t>(); };
  const uint32_t heads = number("num_attention_heads");
  const uint32_t head_dim = config.value("head_dim", number("hidden_size") / heads);
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("llama.block_count", number("num_hidden_layers"));
  writer.add("llama.context_length", number("max_position_embeddings"));
  writer.add("llama.embedding_length", number("hidden_size"));
  writer.add("llama.feed_forward_length", number("intermediate_size"));
  writer.add("llama.attention.head_count", heads);
  writer.add("llama.attention.head_count_kv", number("num_key_value_heads"));
  writer.add("llama.attention.key_length", head_dim);
  writer.add("llama.attention.layer_norm_rms_epsilon", config.value("rms_norm_eps", 1e-6f));
  const nlohmann::json rope = config.value("rope_parameters", config);  // the new home of the base, and the old one
  writer.add("llama.rope.freq_base", rope.value("rope_theta", 10000.0f));
  if (rope.value("rope_type", "") == "llama3") {
    TestTensor factors{.name = "rope_freqs.weight", .shape = {head_dim / 2}, .values = {}};
    for (uint32_t i = 0; i < head_dim / 2; ++i) {
      const double turns = rope["original_max_position_embeddings"].get<double>() *
                           std::pow(rope["rope_theta"].get<double>(), -2.0 * i / head_dim) / (2 * std::numbers::pi);
      const double low = rope["low_freq_factor"], high = rope["high_freq_factor"], factor = rope["factor"];
      const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
      factors.values.push_back(float(1 / ((1 - kept) / factor + kept)));
    }
    writer.add_tensor(factors);
  } else if (rope.value("rope_type", "") == "linear") {
    writer.add("llama.rope.scaling.type", "linear");
    writer.add("llama.rope.scaling.factor", rope["factor"].get<float>());
  }
  const std::map<std::string, std::string> names = {
      {"input_layernorm", "attn_norm"}, {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},           {"mlp.down_proj", "ffn_down"}};
  for (TestTensor tensor : tensors) {
    const std::string piece = tensor.name.substr(tensor.name.rfind('.'));  // .weight or .bias
    const std::string layers = "model.layers.";
    std::string name = tensor.name == "model.embed_tokens.weight" ? "token_embd.weight"
                       : tensor.name == "lm_head.weight"          ? "output.weight"
                                                                  : "output_norm.weight";
    if (tensor.name.starts_with(layers)) {
      const size_t dot = tensor.name.find('.', layers.size());
      const std::string module = tensor.name.substr(dot + 1, tensor.name.rfind('.') - dot - 1);
      name = "blk." + tensor.name.substr(layers.size(), dot - layers.size()) + "." + names.at(module) + piece;
      if (module == "self_attn.q_proj" || module == "self_attn.k_proj") tensor = by_pairs(std::move(tensor), head_dim);
    }
    tensor.name = name;
    writer.add_tensor(tensor);
  }
  return writer;
}

GgufWriter llama_gguf(const std::filesystem::path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  std::vector<TestTensor> tensors;
  for (const std::string& name : checkpoint.names()) {
    const HostWeight weight = checkpoint.weight(name);
    TestTensor tensor{.name = name, .shape = checkpoint.find(name)->shape, .values = {}};
    for (int64_t row = 0; row < weight.rows; ++row)
      for (int64_t col = 0; col < weight.cols; ++col) tensor.values.push_back(value_at(weight, row, col));
    tensors.push_back(std::move(tensor));
  }
  return llama_gguf(read_model_config(folder / "config.json"), tensors);
}

}  // namespace paceline::test
