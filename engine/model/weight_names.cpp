#include "engine/model/weight_names.h"

namespace paceline {

std::string module_name(std::string_view pattern, int layer) {
  std::string name(pattern);
  if (const size_t hole = name.find("{}"); hole != name.npos) name.replace(hole, 2, std::to_string(layer));
  return name;
}

std::string weight_name(std::string_view pattern, int layer) { return module_name(pattern, layer) + ".weight"; }
std::string bias_name(std::string_view pattern, int layer) { return module_name(pattern, layer) + ".bias"; }

std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec) {
  PACELINE_CHECK(spec.names != nullptr, "family {} has no name table", spec.family);
  const WeightNames& names = *spec.names;
  const int64_t d = spec.hidden_size, ffn = spec.intermediate_size, vocab = spec.vocab_size;
  const int64_t q_rows = int64_t{spec.num_heads} * spec.head_dim, kv_rows = int64_t{spec.num_kv_heads} * spec.head_dim;
  std::vector<ExpectedTensor> tensors;
  const auto norm = [&](std::string_view pattern, TensorRole role, int layer) {
    tensors.push_back({weight_name(pattern, layer), {d}, role, TensorPiece::weight, layer});
    if (spec.norm == NormKind::layer)
      tensors.push_back({bias_name(pattern, layer), {d}, role, TensorPiece::bias, layer});
  };
  const auto linear = [&](std::string_view pattern, TensorRole role, int layer, int64_t rows, int64_t cols,
                          bool with_bias) {
    tensors.push_back({weight_name(pattern, layer), {rows, cols}, role, TensorPiece::weight, layer});
    if (with_bias) tensors.push_back({bias_name(pattern, layer), {rows}, role, TensorPiece::bias, layer});
  };
  using enum TensorRole;
  tensors.push_back({weight_name(names.embed), {vocab, d}, embed, TensorPiece::weight, 0});
  for (int layer = 0; layer < spec.num_layers; ++layer) {
    norm(names.attn_norm, attn_norm, layer);
    linear(names.q, q, layer, q_rows, d, spec.attention_bias);
    linear(names.k, k, layer, kv_rows, d, spec.attention_bias);
    linear(names.v, v, layer, kv_rows, d, spec.attention_bias);
    linear(names.o, o, layer, d, q_rows, spec.attention_out_bias);
    norm(names.mlp_norm, mlp_norm, layer);
    if (spec.mlp == MlpKind::gated) linear(names.gate, gate, layer, ffn, d, spec.mlp_bias);
    linear(names.up, up, layer, ffn, d, spec.mlp_bias);
    linear(names.down, down, layer, d, ffn, spec.mlp_bias);
  }
  norm(names.final_norm, final_norm, 0);
  if (!spec.tied_head) tensors.push_back({weight_name(names.head), {vocab, d}, head, TensorPiece::weight, 0});
  return tensors;
}

}  // namespace paceline
