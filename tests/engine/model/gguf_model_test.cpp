#include "engine/model/gguf_model.h"

#include <cmath>

#include <gtest/gtest.h>

#include "engine/model/rope.h"
#include "tests/support/expect_error.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::expect_error;
using test::GgufWriter;
using test::TempDir;

class GgufModel : public ::testing::Test {
 protected:
  GgufFile open(const GgufWriter& writer) {
    test::write_file(dir_ / "m.gguf", writer.bytes());
    return GgufFile(dir_ / "m.gguf");
  }
  json config(const GgufWriter& writer) { return gguf_config(open(writer)); }
  void refuses(const std::vector<std::string>& pieces, const GgufWriter& writer) {
    std::vector<std::string> all = {"m.gguf: "};
    all.insert(all.end(), pieces.begin(), pieces.end());
    expect_error(ExitCode::model_file, all, [&] { config(writer); });
  }

  TempDir dir_;
};

GgufWriter tiny() {
  return test::llama_gguf(test::tiny_llama_config(), test::llama_tensors(test::tiny_llama_config()));
}

TEST_F(GgufModel, SaysWhatConfigJsonSaid) {
  GgufWriter writer = tiny();
  writer.add("tokenizer.ggml.bos_token_id", 1u);
  writer.add("tokenizer.ggml.eos_token_id", 2u);
  writer.add("tokenizer.ggml.eot_token_id", 5u);
  EXPECT_EQ(config(writer), (json{{"architectures", {"LlamaForCausalLM"}},
                                  {"model_type", "llama"},
                                  {"torch_dtype", "bfloat16"},
                                  {"hidden_size", 16},
                                  {"num_hidden_layers", 2},
                                  {"num_attention_heads", 4},
                                  {"num_key_value_heads", 2},
                                  {"head_dim", 4},
                                  {"intermediate_size", 32},
                                  {"vocab_size", 21},
                                  {"max_position_embeddings", 64},
                                  {"rms_norm_eps", 1e-6},
                                  {"rope_theta", 10000.0},
                                  {"hidden_act", "silu"},
                                  {"attention_bias", false},
                                  {"mlp_bias", false},
                                  {"tie_word_embeddings", false},
                                  {"bos_token_id", 1},
                                  {"eos_token_id", {2, 5}}}));
}

TEST_F(GgufModel, SpecsAreThoseOfTheFoldersTheyWereMadeFrom) {
  for (const char* const name : {"llama", "llama-gqa-tied", "llama-linear-rope-bias", "llama3-rope-scaling"}) {
    const auto folder = source_dir() / "tests/data" / name;
    const ModelSpec wanted = load_model_spec(folder), found = gguf_spec(open(test::llama_gguf(folder)));
    EXPECT_EQ(found.family, wanted.family) << name;
    EXPECT_EQ(found.num_layers, wanted.num_layers) << name;
    EXPECT_EQ(found.num_heads, wanted.num_heads) << name;
    EXPECT_EQ(found.num_kv_heads, wanted.num_kv_heads) << name;
    EXPECT_EQ(found.head_dim, wanted.head_dim) << name;
    EXPECT_EQ(found.vocab_size, wanted.vocab_size) << name;
    EXPECT_EQ(found.norm.eps, wanted.norm.eps) << name;
    EXPECT_EQ(found.tied_head, wanted.tied_head) << name;
    EXPECT_EQ(found.layer(0).attention.has_bias, wanted.layer(0).attention.has_bias) << name;
    EXPECT_EQ(found.layer(0).mlp.has_bias, wanted.layer(0).mlp.has_bias) << name;
    EXPECT_EQ(found.num_parameters(), wanted.num_parameters()) << name;
    EXPECT_EQ(rope_inv_freq(found.rope, 128), rope_inv_freq(wanted.rope, 128)) << name;
    EXPECT_EQ(found.checkpoint_dtype, DType::bf16) << name;
    EXPECT_NE(found.table, wanted.table) << name;
  }
}

TEST_F(GgufModel, LoadModelSpecTakesTheFile) {
  open(tiny());
  EXPECT_EQ(load_model_spec(dir_ / "m.gguf").hidden_size, 16);
  expect_error(ExitCode::model_file, {"absent.gguf", "No such file"}, [&] { load_model_spec(dir_ / "absent.gguf"); });
}

TEST_F(GgufModel, OtherFactorsOfFrequenciesAreAListOfThem) {
  GgufWriter writer = tiny();
  writer.add_tensor({.name = "rope_freqs.weight", .shape = {2}, .values = {1.5f, 2.5f}});
  EXPECT_EQ(config(writer)["rope_scaling"], (json{{"rope_type", "longrope"},
                                                  {"short_factor", {1.5f, 2.5f}},
                                                  {"long_factor", {1.5f, 2.5f}},
                                                  {"attention_factor", 1.0}}));
  GgufWriter bad = tiny();
  bad.add_tensor({.name = "rope_freqs.weight", .shape = {2}, .values = {1.0f, -2.5f}});
  refuses({"rope_freqs.weight holds -2.5; expected numbers above 0"}, bad);
}

TEST_F(GgufModel, ScalingsAreWhatLlamaCppMakesOfThem) {
  GgufWriter untyped = tiny();
  untyped.add("llama.rope.scaling.factor", 4.0f);
  EXPECT_EQ(config(untyped)["rope_scaling"], (json{{"rope_type", "linear"}, {"factor", 4.0}}));
  GgufWriter yarn = tiny();
  yarn.add("llama.rope.scaling.type", "yarn");
  yarn.add("llama.rope.scaling.factor", 4.0f);
  yarn.add("llama.rope.scaling.attn_factor", 0.5f);
  EXPECT_NEAR(config(yarn)["rope_scaling"]["attention_factor"].get<double>(), 0.5 * (1 + 0.1 * std::log(4.0)), 1e-9);
  yarn.add("llama.rope.scaling.yarn_beta_fast", 16.0f);
  yarn.add("llama.rope.scaling.yarn_ext_factor", 1.0f);
  EXPECT_EQ(config(yarn)["rope_scaling"]["beta_fast"], 16.0);
  EXPECT_FALSE(config(yarn)["rope_scaling"].contains("beta_slow"));
  yarn.add("llama.rope.scaling.yarn_log_multiplier", 0.1f);
  refuses({"rope.scaling.yarn_log_multiplier beside llama.rope.scaling.type yarn is not supported"}, yarn);
  GgufWriter both = tiny();
  both.add("llama.rope.scaling.type", "linear");
  both.add("llama.rope.scaling.factor", 4.0f);
  both.add_tensor({.name = "rope_freqs.weight", .shape = {2}, .values = {1.5f, 2.5f}});
  refuses({"rope_freqs.weight beside llama.rope.scaling.type linear is not supported"}, both);
  GgufWriter louder = tiny();
  louder.add("llama.rope.scaling.attn_factor", 0.5f);
  refuses({"rope.scaling.attn_factor beside llama.rope.scaling.type none is not supported"}, louder);
  GgufWriter both_ways = tiny();
  both_ways.add("llama.attention.causal", false);
  refuses({"llama.attention.causal is", "later tokens"}, both_ways);
}

TEST_F(GgufModel, ANumberForEachLayerMayBeTheSame) {
  const auto with_heads = [](const std::vector<int32_t>& heads) {
    GgufWriter writer;
    writer.add("general.architecture", "llama");
    writer.add("llama.block_count", 2u);
    for (const char* const key : {"context_length", "embedding_length", "feed_forward_length"})
      writer.add(std::string("llama.") + key, 8u);
    writer.add("llama.attention.head_count", heads);
    writer.add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.add_tensor({.name = "token_embd.weight", .shape = {1, 1}, .values = {1}});
    return writer;
  };
  EXPECT_EQ(config(with_heads({4, 4}))["num_attention_heads"], 4);
  refuses({"llama.attention.head_count: found array of 2 i32", "the same for all layers"}, with_heads({4, 2}));
}

/// Sizes alone.
GgufWriter bare(const std::string& architecture, uint32_t num_layers) {
  GgufWriter writer;
  writer.add("general.architecture", architecture);
  writer.add(architecture + ".block_count", num_layers);
  for (const char* const key : {"context_length", "embedding_length", "feed_forward_length"})
    writer.add(architecture + "." + key, 16u);
  writer.add(architecture + ".attention.head_count", 4u);
  writer.add(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  writer.add_tensor({.name = "token_embd.weight", .shape = {1, 1}, .values = {1}});
  return writer;
}

std::vector<int> windows_of(const json& config) {
  std::vector<int> found;
  for (const LayerSpec& layer : parse_model_spec(config, "x").layers) found.push_back(layer.attention.window);
  return found;
}

TEST_F(GgufModel, WhatAGemmaFileLeavesOutIsWhatLlamaCppTakes) {
  const json gemma2 = config(bare("gemma2", 3));
  EXPECT_EQ(windows_of(gemma2), (std::vector<int>{4096, 0, 4096}));
  EXPECT_EQ(gemma2["attn_logit_softcapping"], 50.0);
  EXPECT_EQ(gemma2["final_logit_softcapping"], 30.0);
  EXPECT_EQ(gemma2["head_dim"], 4);
  EXPECT_EQ(gemma2["query_pre_attn_scalar"], 4);
  const json gemma3 = config(bare("gemma3", 7));
  EXPECT_EQ(windows_of(gemma3), (std::vector<int>{0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(gemma3["rope_theta"], 10000.0);
  GgufWriter windows = bare("gemma3", 7);
  windows.add("gemma3.attention.sliding_window", 9u);
  EXPECT_EQ(windows_of(config(windows)), (std::vector<int>{9, 9, 9, 9, 9, 0, 9}));
}

TEST_F(GgufModel, APatternOfWindowsIsANumberOrAList) {
  const auto gemma3 = [](const auto& pattern) {
    GgufWriter writer = bare("gemma3", 4);
    writer.add("gemma3.attention.sliding_window", 9u);
    writer.add("gemma3.attention.sliding_window_pattern", pattern);
    return writer;
  };
  EXPECT_EQ(windows_of(config(gemma3(2u))), (std::vector<int>{9, 0, 9, 0}));
  EXPECT_EQ(windows_of(config(gemma3(1u))), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(windows_of(config(gemma3(std::vector<bool>{false, true, true, false}))), (std::vector<int>{0, 9, 9, 0}));
  refuses({"gemma3.attention.sliding_window_pattern: found array of 2 bool", "a boolean for each of 4 layers"},
          gemma3(std::vector<bool>{false, true}));
  refuses({"gemma3.attention.sliding_window_pattern: found \"LG\", expected an integer"}, gemma3("LG"));
}

TEST_F(GgufModel, Phi3sScalingHasThreeFieldsWhereItIsTheUsualOne) {
  const auto phi3 = [](float attention_factor) {
    GgufWriter writer = bare("phi3", 1);
    writer.add("phi3.attention.sliding_window", 0u);
    writer.add("phi3.rope.scaling.original_context_length", 4u);
    writer.add("phi3.rope.scaling.attn_factor", attention_factor);
    for (const char* const name : {"rope_factors_long.weight", "rope_factors_short.weight"})
      writer.add_tensor({.name = name, .shape = {2}, .values = {1.5f, 2.5f}});
    return writer;
  };
  json scaling = {{"type", "longrope"}, {"long_factor", {1.5, 2.5}}, {"short_factor", {1.5, 2.5}}};
  const json usual = config(phi3(float(std::sqrt(2.0))));  // 16 positions of 4: 1 + log 4 / log 4
  EXPECT_EQ(usual["rope_scaling"], scaling);
  EXPECT_EQ(usual["original_max_position_embeddings"], 4);
  EXPECT_FALSE(usual.contains("sliding_window"));
  EXPECT_TRUE(usual.at("pad_token_id").is_null());
  scaling["attention_factor"] = 1.25;
  EXPECT_EQ(config(phi3(1.25f))["rope_scaling"], scaling);
}

TEST_F(GgufModel, WhatOldFamiliesMustSayIsNamed) {
  GgufWriter starcoder = bare("starcoder", 1);
  starcoder.add("starcoder.attention.layer_norm_epsilon", 1e-5f);
  refuses({"starcoder.attention.head_count_kv: found none, expected 1"}, starcoder);
  starcoder.add("starcoder.attention.head_count_kv", 4u);
  refuses({"starcoder.attention.head_count_kv: found 4, expected 1: only models with one key head"}, starcoder);
  GgufWriter neox = bare("gptneox", 1);
  neox.add("gptneox.attention.layer_norm_epsilon", 1e-5f);
  refuses({"gptneox.use_parallel_residual: found none, expected true or false"}, neox);
  GgufWriter number = neox;
  number.add("gptneox.use_parallel_residual", 1u);
  refuses({"gptneox.use_parallel_residual: found 1, expected true or false"}, number);
  neox.add("gptneox.use_parallel_residual", true);
  EXPECT_EQ(config(neox)["rotary_pct"], 1.0);  // a whole head, where config.json without the key means a quarter
}

TEST_F(GgufModel, WhatIsMissingOrUnknownIsNamed) {
  refuses({"general.architecture is missing; expected one of llama"}, GgufWriter());
  GgufWriter other;
  other.add("general.architecture", "mamba");
  refuses({"general.architecture \"mamba\" is not supported; supported: llama"}, other);
  GgufWriter bare;
  bare.add("general.architecture", "llama");
  refuses({"tensor \"token_embd.weight\" is missing"}, bare);
  bare.add_tensor({.name = "token_embd.weight", .shape = {1, 1}, .values = {1}});
  refuses({"llama.block_count is missing; expected an integer"}, bare);
  bare.add("llama.block_count", "two");
  refuses({"llama.block_count: found \"two\", expected an integer"}, bare);
  GgufWriter experts = tiny();
  experts.add("llama.expert_count", 8u);
  refuses({"llama.expert_count is 8; models with experts are not supported"}, experts);
}

}  // namespace
}  // namespace paceline
