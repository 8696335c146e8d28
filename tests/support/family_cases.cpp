#include "tests/support/family_cases.h"

#include <algorithm>
#include <random>
#include <utility>

#include "engine/model/families.h"
#include "engine/model/weight_table.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline::test {
namespace fs = std::filesystem;
using nlohmann::json;

json llama_keys(const char* architecture, const json& changes) {
  json config = {{"architectures", {architecture}}, {"hidden_size", 32},    {"intermediate_size", 48},
                 {"num_hidden_layers", 3},          {"vocab_size", 21},     {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},        {"rms_norm_eps", 1e-5}, {"max_position_embeddings", 64}};
  config.merge_patch(changes);
  return config;
}

namespace {

json gpt2_keys(const char* architecture, const json& changes) {
  json config = {{"architectures", {architecture}},
                 {"n_embd", 32},
                 {"n_layer", 2},
                 {"n_head", 4},
                 {"n_positions", 64},
                 {"vocab_size", 21}};
  config.merge_patch(changes);
  return config;
}

json falcon_keys(const json& changes) {
  json config = llama_keys("FalconForCausalLM", {{"ffn_hidden_size", 48}, {"layer_norm_epsilon", 1e-6}});
  config.merge_patch(changes);
  return config;
}

json gemma_keys(const char* architecture, const json& changes) {
  json config = llama_keys(architecture, {{"head_dim", 12},
                                          {"query_pre_attn_scalar", 12},
                                          {"sliding_window", 9},
                                          {"layer_types", {"full_attention", "sliding_attention", "full_attention"}}});
  config.merge_patch(changes);
  return config;
}

/// The file of config.json and one tensor for each that it asks for: value(tensor, number, element).
template <class Value>
void write_model(const fs::path& folder, const json& config, const Value& value) {
  fs::create_directories(folder);
  write_file(folder / "config.json", config.dump(2));
  std::vector<TestTensor> tensors;
  for (const ExpectedTensor& expected : expected_tensors(load_model_spec(folder))) {
    TestTensor tensor{.name = expected.name, .shape = expected.shape, .values = {}};
    for (int64_t i = 0; i < num_elements(expected.shape); ++i)
      tensor.values.push_back(value(expected, tensors.size(), i));
    tensors.push_back(std::move(tensor));
  }
  write_safetensors(folder / "model.safetensors", tensors);
}

}  // namespace

void PrintTo(const FamilyCase& each, std::ostream* out) { *out << each.name; }

std::vector<FamilyCase> family_cases() {
  return {
      {"llama", llama_keys("LlamaForCausalLM", {{"attention_bias", true}, {"rope_theta", 5e5}})},
      {"qwen2", llama_keys("Qwen2ForCausalLM", {{"tie_word_embeddings", true}})},
      {"qwen3", llama_keys("Qwen3ForCausalLM", {{"head_dim", 12}})},
      {"qwen3_bias", llama_keys("Qwen3ForCausalLM", {{"attention_bias", true}, {"rope_theta", 1e6}})},
      {"gemma2",
       gemma_keys("Gemma2ForCausalLM", {{"attn_logit_softcapping", 40.0}, {"final_logit_softcapping", 20.0}})},
      {"gemma2_27b", gemma_keys("Gemma2ForCausalLM", {{"num_hidden_layers", 46},
                                                      {"query_pre_attn_scalar", 8},
                                                      {"layer_types", nullptr},
                                                      {"attn_logit_softcapping", 50.0},
                                                      {"final_logit_softcapping", 30.0}})},
      {"gemma3", gemma_keys("Gemma3ForCausalLM", {{"rope_theta", 1e6},
                                                  {"rope_local_base_freq", 2e4},
                                                  {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}})},
      {"gemma3_27b",
       gemma_keys(
           "Gemma3ForCausalLM",
           {{"num_hidden_layers", 62}, {"query_pre_attn_scalar", 8}, {"layer_types", nullptr}, {"rope_theta", 1e6}})},
      {"gemma3_no_window",
       gemma_keys("Gemma3ForCausalLM",
                  {{"rope_theta", 1e6}, {"layer_types", {"full_attention", "full_attention", "full_attention"}}})},
      {"phi3", llama_keys("Phi3ForCausalLM", {{"sliding_window", 11}, {"partial_rotary_factor", 0.75}})},
      {"phi3_longrope",
       llama_keys(
           "Phi3ForCausalLM",
           {{"tie_word_embeddings", true},
            {"original_max_position_embeddings", 16},
            {"rope_scaling",
             {{"type", "longrope"}, {"short_factor", {1.0, 1.25, 1.5, 2.0}}, {"long_factor", {1.0, 2.0, 3.0, 4.0}}}}})},
      {"gpt2", gpt2_keys("GPT2LMHeadModel", {{"n_inner", 48}})},
      {"gpt2_head", gpt2_keys("GPT2LMHeadModel", {{"tie_word_embeddings", false}})},
      {"starcoder", gpt2_keys("GPTBigCodeForCausalLM", {{"layer_norm_epsilon", 1e-6}})},
      {"gptneox", llama_keys("GPTNeoXForCausalLM", {{"layer_norm_eps", 1e-6}})},
      {"gptneox_sequential", llama_keys("GPTNeoXForCausalLM", {{"use_parallel_residual", false},
                                                               {"attention_bias", false},
                                                               {"rotary_pct", 1.0},
                                                               {"rotary_emb_base", 5e4}})},
      {"stablelm", llama_keys("StableLmForCausalLM", {{"use_qkv_bias", true}})},
      {"stablelm_parallel",
       llama_keys("StableLmForCausalLM",
                  {{"use_parallel_residual", true}, {"qk_layernorm", true}, {"partial_rotary_factor", 1.0}})},
      {"stablelm_one_key_head",
       llama_keys("StableLmForCausalLM", {{"num_key_value_heads", 1}, {"qk_layernorm", true}})},
      {"falcon_multi_query", falcon_keys(json::object())},
      {"falcon_two_norms", falcon_keys({{"new_decoder_architecture", true}, {"num_kv_heads", 2}})},
      {"falcon_one_norm",
       falcon_keys({{"new_decoder_architecture", true}, {"num_kv_heads", 2}, {"num_ln_in_parallel_attn", 1}})},
  };
}

std::vector<FamilyCase> one_case_a_family() {
  std::vector<FamilyCase> known = family_cases(), result;
  known.push_back({"mistral", llama_keys("MistralForCausalLM", json::object())});
  known.push_back({"ministral", llama_keys("MinistralForCausalLM", json::object())});
  known.push_back({"gemma3_of_two_parts",
                   {{"architectures", {"Gemma3ForConditionalGeneration"}},
                    {"text_config", gemma_keys("Gemma3ForCausalLM", json::object())}}});
  known.push_back({"opt", llama_keys("OPTForCausalLM", {{"ffn_dim", 48}, {"word_embed_proj_dim", 16}})});
  for (const Family& family : families()) {
    const auto found = std::find_if(known.begin(), known.end(), [&](const FamilyCase& each) {
      return each.config["architectures"][0] == family.architecture;
    });
    result.push_back(found == known.end() ? FamilyCase{std::string(family.architecture), nullptr} : *found);
  }
  return result;
}

void write_numbered_model(const fs::path& folder, const json& config) {
  write_model(folder, config,
              [](const ExpectedTensor&, size_t number, int64_t i) { return float(number) + float(i) / 4096.0f; });
}

void write_random_model(const fs::path& folder, const json& config) {
  std::mt19937_64 generator(20260229);
  std::normal_distribution<float> normal(0.0f, 0.12f);
  write_model(folder, config, [&](const ExpectedTensor& tensor, size_t, int64_t) {
    const bool about_one = is_norm(tensor.role) && tensor.piece == TensorPiece::weight && !tensor.plus_one;
    return normal(generator) + (about_one ? 1.0f : 0.0f);
  });
}

}  // namespace paceline::test
